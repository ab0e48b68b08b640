// wgmma.mma_async (isa.wgmma): what the warps of a batch check, agree on and issue.
#include <algorithm>

#include "registry.hpp"
#include "sync/sync.hpp"
#include "tensor/warpgroup_steps.hpp"

namespace emu {
namespace {

// Immediates of a product, in front of the numbers of registers.
enum Immediate : int {
  N, HALF, TYPE_A, TYPE_B, A_IN_REGISTERS, SIGN_A, SIGN_B, MN_MAJOR_A, MN_MAJOR_B, FORM
};

constexpr int64_t STREAMS = int64_t(1) << 41;  // above those of tcgen05

WarpgroupForm form_of(const Instruction& instruction) {
  const int64_t* said = instruction.immediates;
  WarpgroupForm form;
  form.n = int(said[N]);
  form.half = int(said[HALF]);
  form.a = Element(said[TYPE_A]);
  form.b = Element(said[TYPE_B]);
  form.a_in_registers = said[A_IN_REGISTERS];
  form.a_negated = said[SIGN_A] < 0;
  form.b_negated = said[SIGN_B] < 0;
  form.a_mn_major = said[MN_MAJOR_A];
  form.b_mn_major = said[MN_MAJOR_B];
  form.registers = instruction.outs;
  form.numbers = said + FORM;
  return form;
}

// The issue, by all warps of a batch.
struct Issue {
  Context& context;
  const Instruction& instruction;
  Sync& sync;
  Warpgroups& warpgroups;
  const WarpgroupForm form;
  const Operand* reads;         // scale-d, B, A, D
  int of_a;                     // how many of A
  Accumulator* sums = nullptr;
  std::vector<int64_t> keys;    // by row: of the product that its warp issues

  Issue(Context& context, const Instruction& instruction)
      : context(context), instruction(instruction), sync(*context.core.sync),
        warpgroups(sync.warpgroups), form(form_of(instruction)),
        reads(instruction.operands + instruction.outs), of_a(form.a_in_registers ? 4 : 1) {}

  uint8_t flag(int64_t number) const {
    return number < 0 ? 0 : context.batch.unset[size_t(number)];
  }
  const int64_t* numbers_of_operands() const { return form.numbers + form.registers; }

  bool report(int what, const int64_t* about) {
    return !context.core.failed(
        warpgroups.report(&context.batch, instruction.at, what, about));
  }

  // What a register of a row holds or will hold; nothing written is zero.
  void held(const Row& row, int64_t number, Operand operand, uint32_t* into) const {
    const HeldRegister* waits = nullptr;
    if (flag(number) == UNSET) {
      std::fill_n(into, LANES, 0);
      return;
    }
    if (flag(number) == IN_FLIGHT)
      waits = warpgroups.find(row.warp, number);
    const uint32_t* now = context.in<uint32_t>(row, operand);
    if (waits)
      waits->of->fragment(waits->row, waits->number, into);
    for (int lane = 0; lane < LANES; lane++)
      if (!waits || waits->lost >> lane & 1)
        into[lane] = now[lane];
  }

  bool adds(const Row& row) const {
    return flag(numbers_of_operands()[0]) != UNSET && (*context.in<Mask>(row, reads[0]) & 1);
  }
  uint64_t descriptor(const Row& row, int read) const {
    return flag(numbers_of_operands()[read]) ? 0 : *context.in<uint64_t>(row, reads[read]);
  }

  // Report operands that hold nothing.
  bool check() {
    for (int read = 0; read < 2 + of_a; read++) {
      const int64_t number = numbers_of_operands()[read];
      if (flag(number) && !report(NOT_READY, &number))
        return false;
    }
    return true;
  }

  FragmentUse& fragment(const Row& row, int number) {
    return warpgroups.fragment_of(row.warp, size_t(numbers_of_operands()[2 + number]),
                                  context.batch.unset.size());
  }

  // See that registers of A were fenced since they were written (PTX ISA 9.7.15.7.1).
  bool check_fragments() {
    if (!form.a_in_registers)
      return true;
    for (int r = 0; r < context.count; r++) {
      const int64_t fenced = warpgroups.fenced[size_t(context.rows[r].warp)];
      for (int number = 0; number < of_a; number++)
        if (fenced >= 0 && fragment(context.rows[r], number).written >= fenced)
          return report(A_NOT_FENCED, nullptr);
    }
    return true;
  }

  // The chain that the registers of D are, all of them and in their order; null for none.
  Accumulator* chain() const {
    for (int n = 0; n < form.registers; n++)
      if (flag(form.numbers[n]) != IN_FLIGHT)
        return nullptr;
    Accumulator* found = nullptr;
    for (int r = 0; r < context.count; r++) {
      const int warp = context.rows[r].warp;
      const HeldRegister* first = warpgroups.find(warp, form.numbers[0]);
      if (!first || (found && first->of != found) || first->of->n != form.n ||
          first->of->half != form.half)
        return nullptr;
      found = first->of;
      for (int n = 0; n < form.registers; n++) {
        const HeldRegister* one = warpgroups.find(warp, form.numbers[n]);
        if (!one || one->of != found || one->number != n || one->lost)
          return nullptr;
      }
    }
    return found;
  }

  // Begin a chain with what the registers of D hold.
  bool start() {
    bool late = false, any_adds = false;
    for (int r = 0; r < context.count; r++) {
      const Row& row = context.rows[r];
      any_adds |= adds(row);
      const int64_t fenced = warpgroups.fenced[size_t(row.warp)];
      late |= fenced < 0;
      for (const SettledRegister& one : warpgroups.settled[size_t(row.warp)]) {
        if (one.number != form.numbers[0] || fenced >= one.time || flag(one.number))
          continue;
        const uint32_t* now = context.in<uint32_t>(row, instruction.operands[0]);
        for (int lane = 0; lane < LANES; lane++)
          late |= (row.lanes >> lane & 1) && now[lane] != one.held[lane];
      }
    }
    if (late && !report(NOT_FENCED, nullptr))
      return false;
    sums = warpgroups.make(context.batch.warps, form, instruction.operands);
    if (any_adds)
      for (int n = 0; n < form.registers; n++) {
        const int64_t number = form.numbers[n];
        if (flag(number) && !report(ADDS_TO, &number))
          return false;
        uint32_t bits[LANES];
        for (int r = 0; r < context.count; r++) {
          held(context.rows[r], number, instruction.operands[n], bits);
          sums->load(context.rows[r].row, n, bits);
        }
      }
    for (int r = 0; r < context.count; r++) {
      const Row& row = context.rows[r];
      HeldRegister* into = warpgroups.held_of(row.warp, context.batch.unset.size());
      for (int n = 0; n < form.registers; n++)
        into[form.numbers[n]] = {sums, sums->serial, n, row.row, 0};
    }
    for (int n = 0; n < form.registers; n++)
      context.batch.unset[size_t(form.numbers[n])] = IN_FLIGHT;
    return true;
  }

  // The key of the product that a warp issues next.
  int64_t next_of(int warp) const {
    const int64_t warps = sync.memory.warps, in_cta = warp % warps;
    const int64_t first = warp - in_cta + in_cta / WARPGROUP * WARPGROUP;
    return Warpgroups::key_of(warpgroups.issued[size_t(warp)], first);
  }

  // See that warps of a warpgroup ask for the same.
  bool agree(const Row& row, const AskedProduct& asked) {
    const int64_t key = next_of(row.warp);
    warpgroups.issued[size_t(row.warp)]++;
    const auto [entry, made] = warpgroups.expected.try_emplace(
        key, Expected{asked, row.warp, 0, warpgroups.order});
    warpgroups.order += made;
    const AskedProduct what = entry->second.what;
    if (++entry->second.count == WARPGROUP)
      warpgroups.expected.erase(entry);
    warpgroups.joint[key].warps++;
    context.core.wake(PRODUCT_KEYS | key);
    if (what == asked)
      return true;
    const int64_t about[] = {row.row,         asked.at, int64_t(asked.a), int64_t(asked.b),
                             asked.adds,      what.at,  int64_t(what.a),  int64_t(what.b),
                             int64_t(what.adds)};
    return report(DISAGREES, about);
  }

  // Warps of one warpgroup that ask for the same product.
  struct Together {
    int64_t slot, warpgroup;
    AskedProduct what;
    std::vector<const Row*> rows;
  };

  bool run() {
    Core& core = context.core;
    if (!made_parts(core, warpgroups, context.batch, instruction.at, false) || !check() ||
        !check_fragments())
      return false;
    sums = chain();
    if (!sums && !start())
      return false;
    if (!made_parts(core, warpgroups, context.batch, instruction.at, true))
      return false;
    context.batch.view.pending |= NATIVE_PENDING;
    thread_local std::vector<Together> groups;
    size_t used = 0;
    keys.resize(context.batch.warps.size());
    for (int r = 0; r < context.count; r++) {
      const Row& row = context.rows[r];
      const AskedProduct asked{instruction.at, form.a_in_registers ? 0 : descriptor(row, 2),
                               descriptor(row, 1), adds(row)};
      keys[size_t(row.row)] = next_of(row.warp);
      if (!agree(row, asked))
        return false;
      const int64_t slot = core.slot_of[row.warp];
      const int64_t warpgroup = row.warp % sync.memory.warps / WARPGROUP;
      size_t n = 0;
      while (n < used && !(groups[n].slot == slot && groups[n].warpgroup == warpgroup &&
                           groups[n].what == asked))
        n++;
      if (n == used) {
        if (used == groups.size())
          groups.emplace_back();
        groups[used] = {slot, warpgroup, asked, std::move(groups[used].rows)};
        groups[used++].rows.clear();
      }
      groups[n].rows.push_back(&row);
      for (int number = 0; form.a_in_registers && number < of_a; number++)
        fragment(row, number).group = warpgroups.commits[size_t(row.warp)];
      std::vector<Accumulator*>& open = warpgroups.open[size_t(row.warp)];
      sums->group[size_t(sums->row_of(row.warp))] = warpgroups.commits[size_t(row.warp)];
      if (std::find(open.begin(), open.end(), sums) == open.end()) {
        open.push_back(sums);
        sums->users++;
      }
    }
    for (size_t n = 0; n < used; n++)
      if (!issue(groups[n]))
        return false;
    return true;
  }

  // Find an operand; false where the descriptor is wrong, or names more than there is.
  bool find(uint64_t bits, int rows, Element element, bool mn_major, MatrixOperand& into) const {
    MatrixDescriptor descriptor;
    return decode_sm90(bits, descriptor) && operand_of(descriptor, rows, element, mn_major, into) &&
           into.low() >= RESERVED_BYTES &&
           into.behind() <= RESERVED_BYTES + sync.memory.shared_bytes;
  }

  bool issue(const Together& together) {
    const std::vector<const Row*>& rows = together.rows;
    std::shared_ptr<WarpgroupProduct> product = warpgroups.product();
    if (!find(together.what.b, form.n, form.b, form.b_mn_major, product->b) ||
        (!form.a_in_registers && !find(together.what.a, WARPGROUP * WARP_ROWS, form.a,
                                       form.a_mn_major, product->a))) {
      warpgroups.keep(product);
      std::vector<int64_t> about{int64_t(together.what.a), int64_t(together.what.b),
                                 int64_t(rows.size())};
      for (const Row* row : rows)
        about.push_back(row->row);
      return report(BAD_OPERANDS, about.data());
    }
    product->sums = sums;
    product->form = form;
    product->slot = together.slot;
    product->adds = together.what.adds;
    for (const Row* row : rows) {
      product->warps.push_back(row->warp);
      product->rows.push_back(sums->row_of(row->warp));
    }
    if (form.a_in_registers)
      take_a(rows, product->raw_a);
    else
      take_quarters(product->a, rows, product->parts);
    sums->users++;
    Op* op = sync.issue(product->warps.data(), product->warps.size(), -1, instruction.at,
                        warpgroups.names[instruction.at]);
    op->own = product;
    op->step = product_step;
    op->stream = STREAMS | (sums->serial << 16 | (together.slot * 8 + together.warpgroup));
    context.core.issue(op);
    for (const Row* row : rows) {
      const int64_t key = keys[size_t(row->row)];
      auto& parts = warpgroups.joint[key].parts;
      if (parts.empty() || parts.back().first != op->id)
        parts.emplace_back(op->id, op->clock);
      sync.add(MATRIX_GROUPS, row->warp, ALL, *op, key);
    }
    return true;
  }

  // A out of registers, 16 rows a warp: 0 and 2 hold row t / 4, 1 and 3 the row 8 below; 0 and 1
  // the first 16 bytes of K, 4 a thread.
  void take_a(const std::vector<const Row*>& rows, std::vector<uint8_t>& into) const {
    into.resize(rows.size() * WARP_ROWS * K_BYTES);
    auto* words = reinterpret_cast<uint32_t*>(into.data());
    uint32_t bits[LANES];
    for (size_t n = 0; n < rows.size(); n++)
      for (int number = 0; number < 4; number++) {
        held(*rows[n], numbers_of_operands()[2 + number], reads[2 + number], bits);
        for (int thread = 0; thread < LANES; thread++) {
          const size_t row = n * WARP_ROWS + size_t(thread / 4 + 8 * (number & 1));
          words[row * 8 + size_t(4 * (number >> 1) + thread % 4)] = bits[thread];
        }
      }
  }

  // The rows of A that some warps of a warpgroup multiply.
  void take_quarters(const MatrixOperand& a, const std::vector<const Row*>& rows,
                     std::vector<Part>& into) const {
    const Part whole = all_of(a);
    if (rows.size() == WARPGROUP) {
      into.push_back(whole);
      return;
    }
    const auto quarter = [&](size_t n) {
      return int(rows[n]->warp % sync.memory.warps % WARPGROUP);
    };
    const int lines = whole.lines / WARPGROUP, width = whole.width / WARPGROUP;
    if (!form.a_mn_major)
      for (size_t n = 0; n < rows.size(); n++)
        into.push_back({quarter(n) * lines, lines, 0, whole.width});
    else
      for (int line = 0; line < whole.lines; line++)
        for (size_t n = 0; n < rows.size(); n++)
          into.push_back({line, 1, quarter(n) * width, width});
  }
};

Result product(Context& context, const Instruction& instruction) {
  if (!warpgroups_of(context))
    return FALLBACK;
  return Issue(context, instruction).run() ? CONTINUE : HALT;
}

const Handlers warpgroup_issue_handlers{{"wgmma", product}};

}  // namespace
}  // namespace emu
