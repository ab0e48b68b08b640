// bar, barrier and barrier.cluster, where nothing is misused (isa.barrier).
//
// An arrival belongs to the condition of an instruction that waits: it is made when the instruction
// is asked first, and lanes that have arrived are only asked whether they may pass.
#include <algorithm>

#include "observe/publication.hpp"
#include "observe/races.hpp"
#include "registry.hpp"
#include "sync/sync.hpp"

namespace emu {
namespace {

// Immediates of all: what arrives (UseKind; of a cluster the semantics, races::Sem), whether all
// lanes of a warp must come together, whether a number of threads is given.
enum Immediate : int { KIND, ALIGNED, COUNTED };

constexpr int64_t BARRIERS = 16;

// Lanes of a warp that arrive at one barrier.
struct Arrival {
  const Row* row;
  Mask lanes;
  int64_t slot, barrier, wanted;
};

// The number of a use for observers: Python's stand-in says the same.
int64_t told_as(const BarrierUse& use, bool cluster) {
  return int64_t(1) << 40 | use.number << 1 | cluster;
}

// Whether all lanes of the warps are here that an aligned barrier needs.
bool whole(const Context& context, const Instruction& instruction) {
  if (!instruction.immediates[ALIGNED])
    return true;
  for (int n = 0; n < context.count; n++)
    if (context.core.alive[context.rows[n].warp] & ~context.rows[n].lanes)
      return false;
  return true;
}

// Where each warp arrives; false where an arrival is at fault or lanes of a warp differ.
bool plan(const Sync& sync, Context& context, const Instruction& instruction, bool waits,
          std::vector<Arrival>& into) {
  const int64_t kind = instruction.immediates[KIND];
  const Operand* reads = instruction.operands + instruction.outs;
  into.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    const Mask lanes = waits ? row.lanes & ~sync.of_ctas.owed(row.warp, row.lanes) : row.lanes;
    if (!lanes)
      continue;
    uint32_t barrier, wanted = 0;
    if (!uniform(context.in<uint32_t>(row, reads[0]), lanes, barrier) || barrier >= BARRIERS)
      return false;
    if (instruction.immediates[COUNTED] &&
        (!uniform(context.in<uint32_t>(row, reads[instruction.ins - 1]), lanes, wanted) ||
         wanted < LANES || wanted % LANES))
      return false;
    into.push_back({&row, lanes, context.core.slot_of[row.warp], barrier, wanted});
  }
  // All who take part give one count, and do alike.
  for (const Arrival& one : into) {
    const BarrierUse* use = sync.of_ctas.current(one.slot, one.barrier);
    if (use && use->kind && (use->kind != kind || use->wanted != one.wanted))
      return false;
    for (const Arrival* other = into.data(); other != &one; other++)
      if (other->slot == one.slot && other->barrier == one.barrier && other->wanted != one.wanted)
        return false;
  }
  return true;
}

// Let lanes arrive that have not yet; false before anything is done, where Python has to.
bool arrive(Context& context, const Instruction& instruction, bool waits) {
  Sync& sync = *context.core.sync;
  thread_local std::vector<Arrival> arrivals;
  if (sync.memory.python_listens_to_barriers || !whole(context, instruction) ||
      !plan(sync, context, instruction, waits, arrivals))
    return false;
  const int64_t kind = instruction.immediates[KIND];
  for (const Arrival& one : arrivals) {
    BarrierUse& use = sync.of_ctas.take_part(one.slot, one.barrier);
    use.kind = kind;
    use.wanted = one.wanted;
    if (waits)
      sync.of_ctas.owe(one.row->warp, one.lanes, use);
    if (kind != PLAIN_KIND) {
      const Operand predicate = instruction.operands[instruction.outs + 1];
      use.brought_true += __builtin_popcount(*context.in<Mask>(*one.row, predicate) & one.lanes);
      use.brought += __builtin_popcount(one.lanes);
    }
    // Observers first: a thread that passes must find all arrivals in the clocks.
    const Threads threads{one.row->warp, one.lanes};
    if (sync.memory.races)
      sync.memory.races->barrier_arrived(&threads, 1, told_as(use, false), races::RELEASE,
                                         LEVEL_CTA);
    if (sync.memory.publication)
      sync.memory.publication->offers(&threads, 1);
    sync.of_ctas.arrive(one.row->warp, one.lanes, use);
    sync.of_ctas.settle(use);
  }
  return true;
}

Answer blocked(const BarrierUses& uses, Context& context, uint8_t* going) {
  std::vector<int64_t>& keys = context.core.blocked_by;
  keys.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    uses.waits(row.warp, row.lanes, [&](const BarrierUse& use) {
      going[row.row] = 0;
      const int64_t key = uses.key(use);
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        keys.push_back(key);
    });
  }
  return keys.empty() ? ALL_READY : SOME_WAIT;
}

// Uses that were passed, with who has passed them.
struct Passed {
  int64_t told_as;
  std::vector<Threads> threads;
};

// Let lanes go, and tell observers. `each(row, use)` for what a warp has passed last.
template <class Each>
void pass(Context& context, BarrierUses& uses, bool cluster, Each each) {
  const Memory& memory = context.core.sync->memory;
  thread_local std::vector<Passed> passed;
  passed.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    uses.pass(row.warp, row.lanes, [&](Mask lanes, const BarrierUse& use) {
      each(row, use);
      if (!memory.races && !memory.publication)
        return;
      const int64_t number = told_as(use, cluster);
      auto known = std::find_if(passed.begin(), passed.end(),
                                [&](const Passed& one) { return one.told_as == number; });
      if (known == passed.end())
        known = passed.insert(known, {number, {}});
      if (!known->threads.empty() && known->threads.back().warp == row.warp)
        known->threads.back().lanes |= lanes;
      else
        known->threads.push_back({row.warp, lanes});
    });
  }
  for (const Passed& one : passed) {
    if (memory.races)
      memory.races->barrier_passed(one.threads.data(), one.threads.size(), one.told_as,
                                   races::ACQUIRE, cluster ? LEVEL_CLUSTER : LEVEL_CTA);
    if (!memory.publication)
      continue;
    if (cluster)
      memory.publication->barrier_passed(one.threads.data(), one.threads.size(), one.told_as);
    else
      memory.publication->takes(one.threads.data(), one.threads.size());
  }
}

Answer may_pass(Context& context, const Instruction& instruction, uint8_t* going) {
  if (!arrive(context, instruction, true))
    return ASK_PYTHON;
  return blocked(context.core.sync->of_ctas, context, going);
}

Result only_arrive(Context& context, const Instruction& instruction) {
  return arrive(context, instruction, false) ? CONTINUE : FALLBACK;
}

Result wait(Context& context, const Instruction&) {
  Sync& sync = *context.core.sync;
  if (sync.memory.python_listens_to_barriers)
    return FALLBACK;
  pass(context, sync.of_ctas, false, [](const Row&, const BarrierUse&) {});
  return CONTINUE;
}

// red: every thread gets what all of them brought. `Put(context, row, result, true, brought)`.
template <class Put> Result reduce(Context& context, const Instruction& instruction, Put put) {
  Sync& sync = *context.core.sync;
  if (sync.memory.python_listens_to_barriers)
    return FALLBACK;
  const Operand result = instruction.operands[0];
  pass(context, sync.of_ctas, false, [&](const Row& row, const BarrierUse& use) {
    if (result != NO_RESULT)
      put(row, result, use.brought_true, use.brought);
  });
  return CONTINUE;
}

Result count(Context& context, const Instruction& instruction) {
  return reduce(context, instruction, [&](const Row& row, Operand result, int64_t held, int64_t) {
    uint32_t* lanes = context.out<uint32_t>(row, result);
    for (Mask left = row.lanes; left; left &= left - 1)
      lanes[__builtin_ctz(left)] = uint32_t(held);
  });
}

template <bool all> Result vote(Context& context, const Instruction& instruction) {
  return reduce(context, instruction,
                [&](const Row& row, Operand result, int64_t held, int64_t brought) {
                  Mask& lanes = *context.out<Mask>(row, result);
                  const bool holds = all ? held == brought : held > 0;
                  lanes = (lanes & ~row.lanes) | (holds ? row.lanes : 0);
                });
}

// Clusters.

Result cluster_arrive(Context& context, const Instruction& instruction) {
  Sync& sync = *context.core.sync;
  if (sync.memory.python_listens_to_barriers || !whole(context, instruction))
    return FALLBACK;
  BarrierUses& uses = sync.of_clusters;
  for (int n = 0; n < context.count; n++)
    if (uses.owed(context.rows[n].warp, context.rows[n].lanes))
      return FALLBACK;
  struct Part {
    BarrierUse* use;
    std::vector<Threads> threads;
  };
  thread_local std::vector<Part> parts;
  parts.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    const int64_t slot = context.core.slot_of[row.warp];
    BarrierUse& use = uses.take_part(slot - sync.rank(slot), 0);
    uses.owe(row.warp, row.lanes, use);
    uses.arrive(row.warp, row.lanes, use);
    if (parts.empty() || parts.back().use != &use)  // warps ascend
      parts.push_back({&use, {}});
    parts.back().threads.push_back({row.warp, row.lanes});
  }
  const int sem = int(instruction.immediates[KIND]);
  for (const Part& part : parts) {
    const int64_t number = told_as(*part.use, true);
    if (sync.memory.races)
      sync.memory.races->barrier_arrived(part.threads.data(), part.threads.size(), number, sem,
                                         LEVEL_CLUSTER);
    if (sync.memory.publication)
      sync.memory.publication->barrier_arrived(part.threads.data(), part.threads.size(), number,
                                               sem);
  }
  for (const Part& part : parts)
    uses.settle(*part.use);
  return CONTINUE;
}

Answer cluster_may_pass(Context& context, const Instruction& instruction, uint8_t* going) {
  Sync& sync = *context.core.sync;
  if (!whole(context, instruction))
    return ASK_PYTHON;
  const Answer answer = blocked(sync.of_clusters, context, going);
  if (!sync.in_turn)
    return answer;
  // Under the late schedule the CTAs of a cluster leave one after the other, which is allowed and
  // shows code that relies on its peer being past the barrier too.
  const Batch& batch = context.batch;
  const auto slot_of = [&](int row) { return context.core.slot_of[batch.warps[size_t(row)]]; };
  int first = 0;
  while (first < batch.size() && !going[first])
    first++;
  bool others = false;
  for (int row = first; row < batch.size(); row++)
    if (going[row] && slot_of(row) != slot_of(first)) {
      going[row] = 0;
      others = true;
    }
  if (others)
    context.core.blocked_by.push_back(TURN_KEY);
  return others ? SOME_WAIT : answer;
}

Result cluster_wait(Context& context, const Instruction&) {
  Sync& sync = *context.core.sync;
  if (sync.memory.python_listens_to_barriers)
    return FALLBACK;
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    if (row.lanes & ~sync.of_clusters.owed(row.warp, row.lanes))
      return FALLBACK;  // a wait without an arrival before it
  }
  context.core.wake(TURN_KEY);
  pass(context, sync.of_clusters, true, [](const Row&, const BarrierUse&) {});
  return CONTINUE;
}

const Handlers barrier_steps_handlers{{"bar.sync", wait},
                        {"bar.arrive", only_arrive},
                        {"bar.red.popc", count},
                        {"bar.red.and", vote<true>},
                        {"bar.red.or", vote<false>},
                        {"barrier.cluster.arrive", cluster_arrive},
                        {"barrier.cluster.wait", cluster_wait}};
const Conditions barrier_steps_conditions{{"bar.sync", may_pass},
                            {"bar.red.popc", may_pass},
                            {"bar.red.and", may_pass},
                            {"bar.red.or", may_pass},
                            {"barrier.cluster.wait", cluster_may_pass}};

} // namespace
} // namespace emu
