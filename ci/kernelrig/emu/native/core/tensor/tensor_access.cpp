// tcgen05.ld and st (isa.tcgen05_load), where nothing is at fault.
//
// A load is an operation of its warp: what it brought lies aside until the wait, which puts it into
// the registers that still wait for it (`Batch::unset` is IN_FLIGHT).
#include <algorithm>
#include <array>
#include <map>

#include "registry.hpp"
#include "sync/sync.hpp"

namespace emu {
namespace {

enum ShapeName : int64_t { S32X32B, S16X64B, S16X32BX2, S16X128B, S16X256B };
constexpr int PER_NUMBER[] = {1, 1, 1, 2, 4};  // registers of a thread at .x1
constexpr int SHAPE_WORDS = 4;                 // immediates: name, number, halves, second half

// Where the register of a thread lies (tcgen05_load.shape_of).
TensorShape shape_of(const int64_t* words) {
  const int64_t name = words[0], halves = words[2], apart = words[3];
  TensorShape shape{};
  shape.registers = int(PER_NUMBER[name] * words[1]);
  shape.tall = name == S32X32B;
  shape.halves = halves;
  int64_t last = 0;
  for (int64_t reg = 0; reg < shape.registers; reg++)
    for (int64_t lane = 0; lane < LANES; lane++) {
      int64_t at = lane, column = reg;
      if (name == S16X64B) {
        at = (lane >> 2) + 8 * (lane & 1);
        column = (lane >> 1 & 1) + 2 * reg;
      } else if (name == S16X128B) {
        at = (lane >> 2) + 8 * (reg & 1);
        column = (lane & 3) + 4 * (reg >> 1);
      } else if (name == S16X256B) {
        at = (lane >> 2) + 8 * (reg >> 1 & 1);
        column = (reg & 1) + 2 * (lane & 3) + 8 * (reg >> 2);
      } else if (name == S16X32BX2) {
        at = lane % 16;
        column = reg + apart * (lane >= 16);
      }
      if (halves) {
        const int64_t second = apart * (lane >= 16);
        column = 2 * (column - second) + second;
      }
      shape.lanes.push_back(int32_t(at));
      shape.columns.push_back(int32_t(column));
      last = std::max(last, column);
    }
  shape.width = int(last + (halves ? 2 : 1));
  return shape;
}

const TensorShape& known_shape(const int64_t* words) {
  thread_local std::map<std::array<int64_t, SHAPE_WORDS>, TensorShape> known;
  std::array<int64_t, SHAPE_WORDS> key;
  std::copy_n(words, SHAPE_WORDS, key.begin());
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, shape_of(words)).first->second;
}

TensorAccess& access_of(Op& op) { return *static_cast<TensorAccess*>(op.own.get()); }

// The words of tensor memory that it may access; null for a fault, which is reported.
uint32_t* words_of(Sync& sync, Op& op, const TensorAccess& access, bool& over) {
  const TensorMemory& tensor = sync.tensor[size_t(access.slot)];
  over = false;
  if (tensor.words && tensor.may_access(access.column, access.shape->width))
    return tensor.words + access.lane * TENSOR_COLUMNS + access.column;
  over = sync.failed(op, TENSOR_ACCESS, access.slot, access.column, access.shape->width);
  return nullptr;
}

void tell(Sync& sync, const Op& op, const TensorAccess& access, bool is_write) {
  const TensorShape& shape = *access.shape;
  sync.tensor_accessed(op, access.slot, access.lane, shape.tall ? LANES : LANES / 2, access.column,
                       shape.width, is_write);
}

bool load_step(Core& core, Op& op) {
  TensorAccess& access = access_of(op);
  const TensorShape& shape = *access.shape;
  bool over;
  const uint32_t* words = words_of(*core.sync, op, access, over);
  if (!words)
    return over;
  tell(*core.sync, op, access, false);
  access.brought = true;
  uint32_t* into = access.values.data();
  if (shape.tall && !shape.halves) {
    for (int lane = 0; lane < LANES; lane++, words += TENSOR_COLUMNS)
      for (int reg = 0; reg < shape.registers; reg++)
        into[reg * LANES + lane] = words[reg];
    return false;
  }
  for (size_t n = 0; n < shape.lanes.size(); n++) {
    const uint32_t* from = words + shape.lanes[n] * TENSOR_COLUMNS + shape.columns[n];
    into[n] = shape.halves ? (from[0] & 0xFFFF) | from[1] << 16 : from[0];
  }
  return false;
}

bool write(Sync& sync, Op& op, const TensorAccess& access) {
  const TensorShape& shape = *access.shape;
  bool over;
  uint32_t* words = words_of(sync, op, access, over);
  if (!words)
    return over;
  tell(sync, op, access, true);
  const uint32_t* from = access.values.data();
  if (shape.tall && !shape.halves) {
    for (int lane = 0; lane < LANES; lane++, words += TENSOR_COLUMNS)
      for (int reg = 0; reg < shape.registers; reg++)
        words[reg] = from[reg * LANES + lane];
    return false;
  }
  for (size_t n = 0; n < shape.lanes.size(); n++) {
    uint32_t* into = words + shape.lanes[n] * TENSOR_COLUMNS + shape.columns[n];
    if (shape.halves) {
      into[0] = from[n] & 0xFFFF;
      into[1] = from[n] >> 16;
    } else {
      into[0] = from[n];
    }
  }
  return false;
}

bool store_step(Core& core, Op& op) {
  TensorAccess& access = access_of(op);
  const bool goes_on = write(*core.sync, op, access);
  if (!goes_on)
    core.sync->tensor_accesses.put(&access);
  return goes_on;
}

// Where a warp's access starts; false for an address at fault.
bool place(Sync& sync, Context& context, const Row& row, Operand operand,
           const TensorShape& shape, TensorAccess& access) {
  int64_t address;
  // Python reports a guard that keeps some lanes away.
  if (sync.core.alive[row.warp] & ~row.lanes ||
      !uniform(context.in<int64_t>(row, operand), row.lanes, address))
    return false;
  const int64_t quarter = row.warp % sync.memory.warps % 4;
  const int64_t lane = address >> LANE_SHIFT & 0xFFFF, inside = lane & 31;
  if (lane >> 5 != quarter || (inside && (shape.tall || inside != 16)))
    return false;
  access.shape = &shape;
  access.slot = sync.core.slot_of[row.warp];
  access.lane = 32 * quarter + inside;
  access.column = address & COLUMN_MASK;
  return true;
}

// Find where all warps' accesses start, or say that Python has operations of them.
bool places(Sync& sync, Context& context, Operand operand, const TensorShape& shape,
            std::vector<TensorAccess*>& into) {
  into.clear();
  for (int n = 0; n < context.count; n++) {
    into.push_back(sync.tensor_accesses.take());
    if (place(sync, context, context.rows[n], operand, shape, *into.back()))
      continue;
    for (TensorAccess* one : into)
      sync.tensor_accesses.put(one);
    for (int other = 0; other < context.count; other++)
      sync.python_tensor[size_t(context.rows[other].warp)] = 1;
    return false;
  }
  return true;
}

void start(Sync& sync, const Instruction& instruction, const Row& row, TensorAccess& access,
           bool is_store) {
  Op* op = sync.issue(row.warp, -1, instruction.at, is_store ? TENSOR_STORE : TENSOR_LOAD);
  op->own = not_owned(&access);
  op->step = is_store ? store_step : load_step;
  access.op = op->id;
  access.clock = op->clock;
  sync.core.issue(op);
}

// Immediates: the shape, then the numbers of the registers.
Result load(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  const TensorShape& shape = known_shape(instruction.immediates);
  thread_local std::vector<TensorAccess*> found;
  if (!places(*sync, context, instruction.operands[shape.registers], shape, found))
    return FALLBACK;
  const int64_t* registers = instruction.immediates + SHAPE_WORDS;
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    TensorAccess& access = *found[size_t(n)];
    access.registers = registers;
    access.operands = instruction.operands;
    access.brought = false;
    access.lost.clear();
    access.values.resize(shape.lanes.size());
    start(*sync, instruction, row, access, false);
    sync->loads[size_t(row.warp)].push_back(&access);
  }
  for (int reg = 0; reg < shape.registers; reg++)
    context.batch.unset[size_t(registers[reg])] = IN_FLIGHT;
  context.batch.view.pending |= NATIVE_PENDING;
  return CONTINUE;
}

// Operands: the address, then the registers. Immediates: the shape.
Result store(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  const TensorShape& shape = known_shape(instruction.immediates);
  thread_local std::vector<TensorAccess*> found;
  if (!places(*sync, context, instruction.operands[0], shape, found))
    return FALLBACK;
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    TensorAccess& access = *found[size_t(n)];
    access.values.resize(shape.lanes.size());
    for (int reg = 0; reg < shape.registers; reg++)
      std::copy_n(context.in<uint32_t>(row, instruction.operands[1 + reg]), LANES,
                  access.values.data() + reg * LANES);
    start(*sync, instruction, row, access, true);
    sync->stores[size_t(row.warp)].push_back({access.op, access.clock});
  }
  return CONTINUE;
}

const Handlers tensor_access_handlers{{"tcgen05.ld", load}, {"tcgen05.st", store}};

}  // namespace
}  // namespace emu

extern "C" {

// Where the words of the CTA in a slot are, and their marks of Init (null: it does not watch); the
// columns that may be accessed, a bit for 32.
void core_map_edited(emu::Core* core, int64_t flat) { core->sync->edited_maps.insert(flat); }

void core_tensor(emu::Core* core, int64_t slot, uint32_t* words, uint8_t* written,
                 uint32_t usable) {
  core->sync->tensor[size_t(slot)] = {words, written, usable};
}
}
