// wgmma.fence, commit_group and wait_group (isa.wgmma), and writes to registers of products.
#include <algorithm>

#include "registry.hpp"
#include "sync/sync.hpp"
#include "tensor/warpgroup_steps.hpp"

namespace emu {
namespace {

Result fence(Context& context, const Instruction& instruction) {
  Warpgroups* warpgroups = warpgroups_of(context);
  if (!warpgroups)
    return FALLBACK;
  if (!made_parts(context.core, *warpgroups, context.batch, instruction.at, false))
    return HALT;
  warpgroups->time++;
  for (int n = 0; n < context.count; n++)
    warpgroups->fenced[size_t(context.rows[n].warp)] = warpgroups->time;
  return CONTINUE;
}

Result commit(Context& context, const Instruction& instruction) {
  Warpgroups* warpgroups = warpgroups_of(context);
  if (!warpgroups)
    return FALLBACK;
  for (bool groups : {true, false})
    if (!made_parts(context.core, *warpgroups, context.batch, instruction.at, groups))
      return HALT;
  const Result done = commit_groups(context, instruction);
  if (done == CONTINUE)
    for (int n = 0; n < context.count; n++)
      warpgroups->commits[size_t(context.rows[n].warp)]++;
  return done;
}

// Give their values to the registers of a chain, of all warps of the batch that are in it.
void settle(Context& context, Warpgroups& warpgroups, Accumulator& sums,
            std::vector<int64_t>& settled) {
  std::vector<uint8_t>& unset = context.batch.unset;
  uint32_t bits[LANES];
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    std::vector<Accumulator*>& open = warpgroups.open[size_t(row.warp)];
    const auto found = std::find(open.begin(), open.end(), &sums);
    if (found == open.end())
      continue;
    open.erase(found);
    std::vector<SettledRegister>& known = warpgroups.settled[size_t(row.warp)];
    auto entry = std::find_if(known.begin(), known.end(),
                              [&](const SettledRegister& one) { return one.number == sums.first; });
    if (entry == known.end())
      entry = known.insert(known.end(), {sums.first, 0, {}});
    entry->time = warpgroups.time;
    sums.fragment(sums.row_of(row.warp), 0, entry->held);
  }
  for (int r = 0; r < context.count; r++) {
    const Row& row = context.rows[r];
    HeldRegister* held = warpgroups.held_of(row.warp, unset.size());
    for (size_t n = 0; n < sums.numbers.size(); n++) {
      const int64_t number = sums.numbers[n];
      HeldRegister& one = held[number];
      if (one.of != &sums || !one.is_live() || unset[size_t(number)] != IN_FLIGHT)
        continue;
      uint32_t* into = context.out<uint32_t>(row, sums.operands[n]);
      sums.fragment(one.row, one.number, bits);
      for (int lane = 0; lane < LANES; lane++)
        into[lane] = (row.lanes & ~one.lost) >> lane & 1 ? bits[lane] : into[lane];
      one.serial = -1;
      settled.push_back(number);
    }
  }
}

// A register is about to be written that products use: of D, or of A. Immediates: its number, and
// whether by a mov, which may be the compiler's own and puts what was written before the fence into
// place (tensor.warpgroup_misuse.overwritten).
Result overwrites(Context& context, const Instruction& instruction) {
  const int64_t number = instruction.immediates[0];
  Core& core = context.core;
  Batch& batch = context.batch;
  Warpgroups* warpgroups = warpgroups_of(context);
  const bool moves = instruction.immediates[1];
  bool late = false;
  for (int n = 0; warpgroups && n < context.count; n++) {
    const int warp = context.rows[n].warp;
    late |= warpgroups->adds_to(warp, number);
    if (moves && warpgroups->fragments[size_t(warp)].empty())
      continue;
    FragmentUse& use = warpgroups->fragment_of(warp, size_t(number), batch.unset.size());
    late |= use.group >= 0;
    if (!moves)
      use.written = warpgroups->time;
  }
  if (warpgroups && !late)
    return CONTINUE;
  std::vector<Mask> lanes(batch.warps.size());
  for (int n = 0; n < context.count; n++)
    lanes[size_t(context.rows[n].row)] = context.rows[n].lanes;
  const int told = core.call.overwritten(&batch, int(number), instruction.at, lanes.data(),
                                         warpgroups != nullptr);
  return core.failed(told) ? HALT : CONTINUE;
}

// Immediates: as of a wait for groups; how many may be left is the second.
Result wait(Context& context, const Instruction& instruction) {
  Warpgroups* warpgroups = warpgroups_of(context);
  if (!warpgroups)
    return FALLBACK;
  for (bool groups : {true, false})
    if (!made_parts(context.core, *warpgroups, context.batch, instruction.at, groups))
      return HALT;
  if (const Result waited = wait_for_groups(context, instruction); waited != CONTINUE)
    return waited;
  warpgroups->time++;
  thread_local std::vector<Accumulator*> over, going;
  over.clear();
  going.clear();
  const auto add = [](std::vector<Accumulator*>& to, Accumulator* one) {
    if (std::find(to.begin(), to.end(), one) == to.end())
      to.push_back(one);
  };
  for (int n = 0; n < context.count; n++) {
    const int warp = context.rows[n].warp;
    const int64_t oldest = warpgroups->commits[size_t(warp)] - instruction.immediates[1];
    warpgroups->waited[size_t(warp)] = oldest;
    for (FragmentUse& use : warpgroups->fragments[size_t(warp)])
      if (use.group < oldest)
        use.group = -1;
    for (Accumulator* one : warpgroups->open[size_t(warp)])
      add(one->group[size_t(one->row_of(warp))] < oldest ? over : going, one);
  }
  thread_local std::vector<int64_t> settled;
  settled.clear();
  for (Accumulator* one : over)
    if (std::find(going.begin(), going.end(), one) == going.end())
      settle(context, *warpgroups, *one, settled);
  std::vector<uint8_t>& unset = context.batch.unset;
  for (int64_t number : settled) {
    bool live = false;
    for (int n = 0; n < context.count; n++)
      live |= warpgroups->find(context.rows[n].warp, number) != nullptr;
    if (!live)
      unset[size_t(number)] = 0;
  }
  bool any = false;  // whatever became of their registers
  for (int n = 0; n < context.count; n++)
    any |= !warpgroups->open[size_t(context.rows[n].warp)].empty();
  if (!any)
    context.batch.view.pending &= ~NATIVE_PENDING;
  return CONTINUE;
}

Answer may_pass(Context& context, const Instruction& instruction, uint8_t* going) {
  Warpgroups* warpgroups = warpgroups_of(context);
  if (!warpgroups)
    return ASK_PYTHON;
  return groups_may_pass(context, instruction, going);
}

const Handlers warpgroup_waits_handlers{{"wgmma.fence", fence},
                                        {"wgmma.commit", commit},
                                        {"wgmma.wait", wait},
                                        {"register.overwrites", overwrites}};
const Conditions warpgroup_waits_conditions{{"wgmma.wait", may_pass}};

}  // namespace
}  // namespace emu
