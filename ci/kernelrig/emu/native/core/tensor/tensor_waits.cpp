// tcgen05.wait and commit (isa.tcgen05_load, isa.tcgen05_mma), where nothing is at fault, and what
// is written over a register that a load is to bring.
#include <algorithm>

#include "registry.hpp"
#include "sync/sync.hpp"

namespace emu {
namespace {

constexpr uint32_t UNTOUCHED = 0xFFE1DEAD;

// Copy some lanes.
void put(Mask lanes, const uint32_t* from, uint32_t* into) {
  if (lanes == ALL)
    std::copy_n(from, LANES, into);
  else
    for (int lane = 0; lane < LANES; lane++)
      into[lane] = lanes >> lane & 1 ? from[lane] : into[lane];
}

// The loads, or stores, of a warp that no wait has seen and that are not over.
std::vector<int64_t> unfinished(const Sync& sync, int warp, bool loads) {
  std::vector<int64_t> found;
  const auto add = [&](int64_t op) {
    if (!sync.is_over(op, false))
      found.push_back(op);
  };
  if (loads)
    for (const TensorAccess* one : sync.loads[size_t(warp)])
      add(one->op);
  else
    for (const auto& one : sync.stores[size_t(warp)])
      add(one.op);
  return found;
}

// Immediate: whether loads are waited for, or stores.
Answer tcgen05_may_pass(Context& context, const Instruction& instruction, uint8_t* going) {
  Sync* sync = sync_of(context);
  if (!sync)
    return ASK_PYTHON;
  for (int n = 0; n < context.count; n++)
    if (sync->python_tensor[size_t(context.rows[n].warp)])
      return ASK_PYTHON;
  std::vector<int64_t>& keys = sync->core.blocked_by;
  keys.clear();
  for (int n = 0; n < context.count; n++)
    for (int64_t op : unfinished(*sync, context.rows[n].warp, instruction.immediates[0])) {
      going[context.rows[n].row] = 0;
      keys.push_back(OP_KEYS | op);
    }
  return keys.empty() ? ALL_READY : SOME_WAIT;
}

Result tcgen05_wait(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  bool python = false;
  for (int n = 0; n < context.count; n++)
    python |= sync->python_tensor[size_t(context.rows[n].warp)] != 0;
  std::vector<uint8_t>& unset = context.batch.unset;
  thread_local std::vector<int64_t> settled, of_all;
  settled.clear();
  of_all.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    const size_t warp = size_t(row.warp);
    // Where Python has some of them too, it tells observers of all at once.
    std::vector<int64_t>& clocks = python ? sync->settled_tensor[warp] : of_all;
    if (!instruction.immediates[0]) {
      for (const auto& one : sync->stores[warp])
        clocks.push_back(one.clock);
      sync->stores[warp].clear();
      continue;
    }
    for (TensorAccess* one : sync->loads[warp]) {
      clocks.push_back(one->clock);
      if (!one->brought)  // at fault
        std::fill(one->values.begin(), one->values.end(), UNTOUCHED);
      for (size_t reg = 0; reg * LANES < one->values.size(); reg++) {
        const int64_t number = one->registers[reg];
        // Of those that Python has in flight, it may hold lanes that the core brings.
        if (unset[size_t(number)] < IN_FLIGHT)
          continue;
        uint32_t* into = context.out<uint32_t>(row, one->operands[reg]);
        const uint32_t* from = one->values.data() + reg * LANES;
        put(row.lanes & one->waiting(reg), from, into);
        if (unset[size_t(number)] == IN_FLIGHT)
          settled.push_back(number);
      }
      sync->tensor_accesses.put(one);
    }
    sync->loads[warp].clear();
  }
  for (int64_t number : settled)
    unset[size_t(number)] = 0;
  if (instruction.immediates[0])
    context.batch.view.pending &= ~NATIVE_PENDING;
  if (python)
    return FALLBACK;  // for what Python has in flight of them
  sync->tensor_waited(threads_of(context.rows, context.count), of_all);
  return CONTINUE;
}

// A commit comes behind what was issued before it; then each arrival is an event.
bool commit_step(Core& core, Op& op) {
  auto* commit = static_cast<TensorCommit*>(op.own.get());
  const auto& places = commit->places;
  const size_t stage = size_t(op.stage++);
  bool goes_on = stage < places.size();
  if (stage) {
    const auto [slot, offset] = places[stage - 1];
    goes_on |= !core.sync->op_arrive(op, slot, offset);
  }
  if (!goes_on)
    core.sync->tensor_commits.put(commit);
  return goes_on;
}

// The mbarriers that a thread's commit arrives at; false for what is not plain.
bool find_places(const Sync& sync, Context& context, const Instruction& instruction, const Row& row,
                 int lane, TensorCommit& into) {
  const int64_t ctas = sync.memory.cluster_ctas, slot = sync.core.slot_of[row.warp];
  const int64_t first = slot - sync.rank(slot);
  int64_t address = context.in<int64_t>(row, instruction.operands[0])[lane];
  if (address >= SHARED_WINDOW)
    address -= SHARED_WINDOW;
  const int64_t rank = address >> RANK_SHIFT, offset = address & OFFSET_MASK;
  if (rank < 0 || rank >= ctas)
    return false;
  into.places.clear();
  if (!instruction.immediates[1]) {
    into.places.emplace_back(first + rank, offset);
    return true;
  }
  const int64_t bits = context.in<uint16_t>(row, instruction.operands[1])[lane];
  for (int64_t one = 0; one < ctas; one++)
    if (bits >> one & 1)
      into.places.emplace_back(first + one, offset);
  return !(bits >> ctas);
}

// Operands: the address, CTAs of a multicast. Immediates: the CTA group, a multicast.
Result tcgen05_commit(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  const int64_t group = instruction.immediates[0];
  thread_local std::vector<TensorCommit*> made;
  made.clear();
  for (int n = 0; n < context.count; n++)
    for (Mask left = context.rows[n].lanes; left; left &= left - 1) {
      made.push_back(sync->tensor_commits.take());
      if (find_places(*sync, context, instruction, context.rows[n], __builtin_ctz(left),
                      *made.back()))
        continue;
      for (TensorCommit* one : made)
        sync->tensor_commits.put(one);
      return FALLBACK;
    }
  size_t next = 0;
  for (int n = 0; n < context.count; n++)
    for (Mask left = context.rows[n].lanes; left; left &= left - 1) {
      const int lane = __builtin_ctz(left), warp = context.rows[n].warp;
      Op* op = sync->issue(warp, lane, instruction.at, group == 1 ? COMMIT_1 : COMMIT_2);
      op->own = not_owned(made[next++]);
      op->step = commit_step;
      op->stream = TENSOR_STREAMS | ((warp * LANES + lane) * 2 + group - 1);
      op->leaves_stream = true;
      sync->core.issue(op);
    }
  return CONTINUE;
}

// A guarded instruction writes a register whose value may be in flight: from here on it holds what
// has come of it so far. Operand: the register; immediate: its number.
Result settle_early(Context& context, const Instruction& instruction) {
  const int64_t number = instruction.immediates[0];
  Core& core = context.core;
  Batch& batch = context.batch;
  uint8_t& flag = batch.unset[size_t(number)];
  if (flag == PYTHON_IN_FLIGHT)
    return core.failed(core.call.early(&batch, int(number), instruction.at)) ? HALT : CONTINUE;
  if (flag != IN_FLIGHT)
    return CONTINUE;
  for (size_t n = 0; n < batch.warps.size(); n++) {
    const int warp = batch.warps[n];
    const Row row{core.files + warp * core.file_bytes, batch.lanes[n], warp, int(n)};
    uint32_t* into = context.out<uint32_t>(row, instruction.operands[0]);
    uint32_t brought[LANES];
    std::copy_n(into, LANES, brought);
    core.sync->bring_early(warp, number, brought);
    put(row.lanes, brought, into);
  }
  flag = SET;
  return CONTINUE;
}

const Handlers tensor_waits_handlers{{"register.early", settle_early},
                                     {"tcgen05.wait", tcgen05_wait},
                                     {"tcgen05.commit", tcgen05_commit}};
const Conditions tensor_waits_conditions{{"tcgen05.wait", tcgen05_may_pass}};

}  // namespace

void Sync::brings_no_more(int warp, int64_t reg, Mask lanes) {
  warpgroups.forget(warp, size_t(reg), lanes);
  for (TensorAccess* one : loads[size_t(warp)])
    for (size_t n = 0; n * LANES < one->values.size(); n++)
      if (one->registers[n] == reg) {
        one->lost.resize(one->values.size() / LANES);
        one->lost[n] |= lanes;
      }
}

int Sync::bring_early(int warp, int64_t reg, uint32_t* into) const {
  uint32_t bits[LANES];
  if (const HeldRegister* held = warpgroups.find(warp, reg)) {
    held->of->fragment(held->row, held->number, bits);
    put(~held->lost, bits, into);
    return 2;
  }
  int found = 0;
  for (const TensorAccess* one : loads[size_t(warp)])
    for (size_t n = 0; n * LANES < one->values.size(); n++)
      if (one->registers[n] == reg) {
        std::fill_n(bits, LANES, UNTOUCHED);
        put(one->waiting(n), one->brought ? one->values.data() + n * LANES : bits, into);
        found = 1;
      }
  return found;
}

}  // namespace emu

extern "C" {

// What a warp has in flight of the core's: numbers of operations, up to `limit` of them; how many
// there are is returned.
int64_t core_tensor_unfinished(emu::Core* core, int warp, int loads, int64_t* out, int64_t limit) {
  const std::vector<int64_t> found = emu::unfinished(*core->sync, warp, loads);
  std::copy_n(found.begin(), std::min(limit, int64_t(found.size())), out);
  return int64_t(found.size());
}

// The numbers in the race detector of what a wait has just settled of a warp; it forgets them. There
// are no more than `limit`.
int64_t core_tensor_settled(emu::Core* core, int warp, int64_t* out, int64_t limit) {
  std::vector<int64_t>& clocks = core->sync->settled_tensor[size_t(warp)];
  const int64_t count = int64_t(clocks.size());
  if (count > limit)
    return count;
  std::copy(clocks.begin(), clocks.end(), out);
  clocks.clear();
  return count;
}

// Puts what loads (1) or a product (2) is to bring to a register of some warps into the lanes that
// wait for it, of 32 words a warp; 0 for nothing. `into` may be null.
int core_pending(emu::Core* core, const int32_t* warps, int count, int64_t reg, uint32_t* into) {
  uint32_t unused[emu::LANES];
  int kind = 0;
  for (int row = 0; row < count; row++)
    kind = std::max(kind, core->sync->bring_early(warps[row], reg,
                                                  into ? into + row * emu::LANES : unused));
  return kind;
}
}
