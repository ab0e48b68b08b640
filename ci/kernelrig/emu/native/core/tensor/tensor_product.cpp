// tcgen05.mma, where nothing is at fault: reads its operands, then, some time, adds to D
// (isa.tcgen05_mma, tensor.tensor_product).
#include "tensor/tensor_product.hpp"

#include <algorithm>
#include <cstring>

#include "registry.hpp"
#include "sync/sync.hpp"
#include "tensor/products.hpp"

namespace emu {

const TensorForm* TensorProducts::form(uint32_t bits, int kind, int group, int stationary) {
  constexpr size_t KEPT = 256;
  const uint64_t key = uint64_t(bits) << 8 | uint64_t((kind * 2 + group - 1) * 2 + stationary);
  const auto found = forms.find(key);
  if (found != forms.end())
    return found->second.get();
  auto made = std::make_unique<TensorForm>();
  if (decode(bits, kind, group, stationary, made.get()) < 0)
    return nullptr;
  if (forms.size() >= KEPT && !made->is_plain) {  // what is not plain needs no memory of it
    static const TensorForm other{};
    return &other;
  }
  return forms.emplace(key, std::move(made)).first->second.get();
}

namespace {

constexpr int A_COLUMNS = 8;  // of tensor memory, for 32 bytes of K

int64_t rows_of(const TensorProduct& product) { return product.form->m / product.group; }
int64_t columns_of(const TensorProduct& product) { return product.form->n / product.group; }

// Into how many parts the columns of D are cut, which lie below one another.
int parts_of(const TensorForm& form, int group) {
  return form.stationary || group == 2 ? int(TENSOR_LANES * group / form.m) : 1;
}

// Columns of tensor memory that D takes.
int64_t width_of(const TensorForm& form, int group) { return form.n / parts_of(form, group); }

// The rows of A that a CTA reads: in tensor memory each block of D has them in its own lanes.
int64_t rows_of_a(const TensorProduct& product) {
  return rows_of(product) *
         (product.a_in_tensor_memory ? parts_of(*product.form, product.group) : 1);
}

// The blocks of D, of each CTA alike (tensor_product.tiles_of). Returns how many.
int tiles_of(const TensorProduct& product, TensorTile* into) {
  const int n = int(product.form->n), rows = int(rows_of(product));
  const int parts = parts_of(*product.form, product.group);
  if (rows * parts == TENSOR_LANES) {
    for (int part = 0; part < parts; part++)
      into[part] = {0, rows, part * n / parts, n / parts, rows * part};
    return parts;
  }
  for (int quarter = 0; quarter < 4; quarter++)
    into[quarter] = {16 * quarter, 16, 0, n, 32 * quarter};
  return 4;
}
constexpr int MOST_TILES = 4;

// Read a whole operand of the CTA in a slot.
void fetch(Sync& sync, const Op& op, const MatrixOperand& operand, AccessDetail::What what,
           int64_t number, int64_t slot, uint8_t* into) {
  const Part all = all_of(operand);
  thread_local std::vector<int64_t> starts;
  if (sync.memory.watches_operations()) {
    starts.clear();
    starts_of(operand, all, slot * SLOT_BYTES, starts);
    AccessDetail detail{what, number};
    detail.element_bytes = bytes_of(operand.element);
    detail.mn_major = operand.mn_major;
    detail.swizzle = operand.swizzle;
    sync.accessed(op, SHARED, starts, UNIT, false, &detail);
  }
  gather(operand, all, sync.memory.bytes[SHARED] + slot * SLOT_BYTES, into);
}

// Read A out of tensor memory.
void fetch_words(Sync& sync, Op& op, const TensorProduct& product, int number, int64_t slot,
                 uint8_t* into) {
  int64_t column = product.a_column;
  const TensorMemory& tensor = sync.tensor[size_t(slot)];
  if (!tensor.may_access(column, A_COLUMNS)) {
    sync.failed(op, PRODUCT_A, slot, column, A_COLUMNS);
    column = 0;
  }
  TensorTile tiles[MOST_TILES];
  const int count = tiles_of(product, tiles);
  for (int n = 0; n < count; n++) {
    const int64_t lane = tiles[n].lane + product.lane;
    const AccessDetail detail{AccessDetail::A_WORDS, number, tiles[n].row};
    sync.tensor_accessed(op, slot, lane, tiles[n].rows, column, A_COLUMNS, false, &detail);
    for (int row = 0; row < tiles[n].rows; row++, into += K_BYTES)
      std::memcpy(into, tensor.words + (lane + row) * TENSOR_COLUMNS + column, K_BYTES);
  }
}

// The first event: reads the operands. False where D may not be accessed.
bool read(Core& core, Op& op, TensorProduct& product) {
  Sync& sync = *core.sync;
  const int64_t width = width_of(*product.form, product.group);
  for (int n = 0; n < product.group; n++)
    if (!sync.tensor[size_t(product.slots[n])].may_access(product.column, width)) {
      sync.failed(op, PRODUCT_D, product.slots[n], product.column, width);
      return false;
    }
  const int64_t of_b = columns_of(product) * K_BYTES, of_a = rows_of_a(product) * K_BYTES;
  product.read.resize(size_t(product.group * (of_a + of_b)));
  uint8_t* into = product.read.data();
  for (int n = 0; n < product.group; n++, into += of_b)
    fetch(sync, op, product.b, AccessDetail::B, n, product.slots[n], into);
  for (int n = 0; n < product.group; n++, into += of_a)
    if (product.a_in_tensor_memory)
      fetch_words(sync, op, product, n, product.slots[n], into);
    else
      fetch(sync, op, product.a, AccessDetail::A, n, product.slots[n], into);
  op.read = true;
  return true;
}

// What the parts of an operand are worth that the CTAs have of it, `rows` each, as one matrix.
Matrix decoded(const uint8_t* raw, int parts, int64_t rows, Element element, bool mn_major,
               std::vector<float>& into) {
  const int64_t k = K_BYTES / bytes_of(element), line = rows * bytes_of(element);
  into.resize(size_t(parts * rows * k));
  if (!mn_major)
    decode(raw, parts * rows * K_BYTES, element, into.data());
  else
    for (int64_t n = 0; n < k; n++)
      for (int part = 0; part < parts; part++)
        decode(raw + part * rows * K_BYTES + n * line, line, element,
               into.data() + (n * parts + part) * rows);
  return {into.data(), mn_major ? parts * rows : k, mn_major};
}

const float* from_row(const Matrix& matrix, int64_t row) {
  return matrix.values + row * (matrix.by_columns ? 1 : matrix.stride);
}

// The second: adds to D, CTA by CTA.
bool add(Core& core, Op& op, TensorProduct& product) {
  Sync& sync = *core.sync;
  const TensorForm& form = *product.form;
  const int64_t rows = rows_of_a(product), columns = columns_of(product);
  const int64_t k = K_BYTES / bytes_of(Element(form.a));
  const uint8_t* raw = product.read.data();
  std::vector<float>& b = sync.tensor_products.b;
  if (form.b_mn_major) {
    decoded(raw, product.group, columns, Element(form.b), true, b);
  } else {
    thread_local std::vector<uint8_t> by_k;
    by_k.resize(size_t(form.n * K_BYTES));
    transpose(raw, form.n, Element(form.b), by_k.data());
    decoded(by_k.data(), 1, form.n, Element(form.b), true, b);
  }
  const Matrix a = decoded(raw + form.n * K_BYTES, product.group, rows, Element(form.a),
                           form.a_mn_major, sync.tensor_products.a);
  TensorTile tiles[MOST_TILES];
  const int count = tiles_of(product, tiles);
  float* d[2];
  for (int number = 0; number < product.group; number++) {
    const int64_t slot = product.slots[number];
    d[number] = reinterpret_cast<float*>(sync.tensor[size_t(slot)].words);
    for (const TensorTile* tile = tiles; tile != tiles + count; tile++) {
      const int64_t lane = tile->lane + product.lane;
      const AccessDetail detail{AccessDetail::D, number, tile->row, tile->column};
      if (product.accumulates)
        sync.tensor_accessed(op, slot, lane, tile->rows, product.column, tile->columns, false,
                             &detail);
      sync.tensor_accessed(op, slot, lane, tile->rows, product.column, tile->columns, true,
                           &detail);
    }
  }
  const bool exact = has_exact_products(Element(form.a)) && has_exact_products(Element(form.b));
  // The CTAs' words lie side by side: rows of both are rows of one D.
  const bool together = product.group == 2 && count == 1 && d[1] == d[0] + TENSOR_LANES * TENSOR_COLUMNS;
  for (int number = 0; number < (together ? 1 : product.group); number++)
    for (const TensorTile* tile = tiles; tile != tiles + count; tile++) {
      float* into = d[number] + (tile->lane + product.lane) * TENSOR_COLUMNS + product.column;
      const int64_t row = product.a_in_tensor_memory ? (tile - tiles) * tile->rows : tile->row;
      multiply({together ? form.m : tile->rows, tile->columns, k,
                {from_row(a, number * rows + row), a.stride, a.by_columns},
                b.data() + tile->column, form.n, into, TENSOR_COLUMNS, product.accumulates, exact});
    }
  return false;
}

bool step(Core& core, Op& op) {
  auto* product = static_cast<TensorProduct*>(op.own.get());
  const bool goes_on = op.stage++ ? add(core, op, *product) : read(core, op, *product);
  if (!goes_on)
    core.sync->tensor_products.pool.put(product);
  return goes_on;
}

// An operand in shared memory, as one thread asks for it; false for one that is not plain.
bool find_operand(const Sync& sync, uint64_t bits, int64_t rows, int64_t element, bool mn_major,
                  MatrixOperand& into) {
  MatrixDescriptor descriptor;
  return decode_sm100(bits, descriptor) &&
         operand_of(descriptor, int(rows), Element(element), mn_major, into) &&
         into.low() >= RESERVED_BYTES &&
         into.behind() <= RESERVED_BYTES + sync.memory.shared_bytes;
}

// Decode an address of tensor memory; false for one that such a product does not take.
bool find_words(int64_t address, const TensorProduct& product, int64_t& lane, int64_t& column) {
  lane = address >> LANE_SHIFT & 0xFFFF;
  column = address & COLUMN_MASK;
  return !lane || (lane == 16 && product.form->m == 64 && product.group == 1 &&
                   !product.form->stationary);
}

// Operands: D, A, B, the instruction descriptor, whether D counts. Immediates: the kind, the CTA
// group, whether A is in tensor memory, whether it is .ws.
enum : int { KIND, GROUP, A_IN_TENSOR_MEMORY, STATIONARY };
enum : int { D, A, B, DESCRIPTOR, ENABLE };

// What one thread asks for; false for what is not plain.
bool find(Sync& sync, Context& context, const Instruction& instruction, const Row& row, int lane,
          TensorProduct& into) {
  const int group = int(instruction.immediates[GROUP]);
  const Operand* operands = instruction.operands;
  const uint32_t bits = context.in<uint32_t>(row, operands[DESCRIPTOR])[lane];
  const TensorForm* form =
      sync.tensor_products.form(bits, int(instruction.immediates[KIND]), group,
                                int(instruction.immediates[STATIONARY]));
  if (!form || !form->is_plain)
    return false;
  into.form = form;
  into.group = group;
  into.slots[0] = into.slots[1] = sync.core.slot_of[row.warp];
  if (group == 2) {
    const int64_t rank = sync.rank(into.slots[0]), even = into.slots[0] - rank % 2;
    if (sync.memory.cluster_ctas % 2 || !sync.is_running(2 * even + 1 - into.slots[0]))
      return false;
    into.slots[0] = even;
    into.slots[1] = even + 1;
  }
  const int64_t a = context.in<int64_t>(row, operands[A])[lane];
  const uint64_t b = context.in<uint64_t>(row, operands[B])[lane];
  if (!find_words(context.in<int64_t>(row, operands[D])[lane], into, into.lane, into.column) ||
      into.column + width_of(*form, group) > TENSOR_COLUMNS)
    return false;
  into.a_in_tensor_memory = instruction.immediates[A_IN_TENSOR_MEMORY];
  int64_t lane_of_a = 0;
  if (into.a_in_tensor_memory
          ? form->a_mn_major || form->m == 32 || !find_words(a, into, lane_of_a, into.a_column) ||
                lane_of_a != into.lane
          : !find_operand(sync, uint64_t(a), rows_of(into), form->a, form->a_mn_major, into.a))
    return false;
  into.accumulates = *context.in<Mask>(row, operands[ENABLE]) >> lane & 1;
  return find_operand(sync, b, columns_of(into), form->b, form->b_mn_major, into.b);
}

Result mma(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  TensorProducts& products = sync->tensor_products;
  thread_local std::vector<TensorProduct*> made;
  made.clear();
  bool plain = true;
  for (int n = 0; n < context.count && plain; n++)
    for (Mask left = context.rows[n].lanes; left && plain; left &= left - 1) {
      made.push_back(products.pool.take());
      plain = find(*sync, context, instruction, context.rows[n], __builtin_ctz(left), *made.back());
    }
  if (!plain) {
    for (TensorProduct* one : made)
      products.pool.put(one);
    return sync->core.halted() ? HALT : FALLBACK;
  }
  const int group = int(instruction.immediates[GROUP]);
  const int kind = int(instruction.immediates[KIND]);
  const int name = instruction.immediates[STATIONARY] ? MMA_WS + kind : MMA + kind * 2 + group - 1;
  size_t next = 0;
  for (int n = 0; n < context.count; n++)
    for (Mask left = context.rows[n].lanes; left; left &= left - 1) {
      const int lane = __builtin_ctz(left), warp = context.rows[n].warp;
      Op* op = sync->issue(warp, lane, instruction.at, name);
      op->own = not_owned(made[next++]);
      op->step = step;
      op->stream = TENSOR_STREAMS | ((warp * LANES + lane) * 2 + group - 1);
      sync->core.issue(op);
    }
  return CONTINUE;
}

const Handlers tensor_product_handlers{{"tcgen05.mma", mma}};

}  // namespace
}  // namespace emu

extern "C" {

// How instruction descriptors are decoded.
void core_tensor_products(emu::Core* core,
                          int (*decode)(uint32_t, int, int, int, emu::TensorForm*)) {
  core->sync->tensor_products.decode = decode;
}
}
