#include "copies/lane_copies.hpp"

#include <algorithm>
#include <cstring>

#include "observe/races.hpp"
#include "registry.hpp"
#include "sync/sync.hpp"

namespace emu {
namespace {

constexpr int64_t BARRIER_BYTES = 8;

} // namespace

LaneCopy* LaneCopies::make() {
  LaneCopy* copy = copies.take();
  copy->sources.clear();
  copy->targets.clear();
  return copy;
}

void LaneCopies::issue(int warp, Mask lanes, int at, LaneCopy* copy) {
  Op* op = sync.issue(&warp, 1, -1, at, LANE_COPY, lanes);
  op->own = not_owned(copy);
  op->step = copy_step;
  sync.core.issue(op);
  sync.add(COPY_GROUPS, warp, lanes, *op);
}

bool LaneCopies::copy_step(Core& core, Op& op) {
  Sync& sync = *core.sync;
  LaneCopy& copy = *static_cast<LaneCopy*>(op.own.get());
  const Memory& memory = sync.memory;
  const auto size = size_t(copy.size), amount = size_t(copy.amount);
  if (!op.stage) {
    copy.data.assign(copy.targets.size() * size, 0);
    if (amount) {
      sync.accessed(op, GLOBAL, copy.sources, copy.amount, false);
      for (size_t n = 0; n < copy.sources.size(); n++)
        std::memcpy(&copy.data[n * size], memory.bytes[GLOBAL] + copy.sources[n], amount);
    }
    op.read = true;
    op.stage = 1;
    return true;
  }
  sync.accessed(op, SHARED, copy.targets, copy.size, true);
  for (size_t n = 0; n < copy.targets.size(); n++) {
    std::memcpy(memory.bytes[SHARED] + copy.targets[n], &copy.data[n * size], size);
    std::memset(memory.written[SHARED] + copy.targets[n], 1, size);
  }
  sync.lane_copies.put(&copy);
  sync.lane_copies.ended(op.id);
  return false;
}

void LaneCopies::arrive_later(int warp, Mask lanes, int at, int64_t slot, int64_t offset) {
  for (const Queue* queue : sync.queues_of(COPY_GROUPS, warp, lanes)) {
    CopyArrival* arrival = arrivals.take();
    arrival->slot = slot;
    arrival->offset = offset;
    arrival->clocks.clear();
    arrival->missing = 0;
    Op* op = sync.issue(&warp, 1, -1, at, COPY_ARRIVAL, queue->lanes);
    op->wait = -1;
    const auto each = [&](const Issued& copy) {
      arrival->clocks.push_back(copy.clock);
      if (sync.is_over(copy.op, false))
        return;
      behind[copy.op].push_back(op);
      arrival->missing++;
    };
    for (const std::vector<Issued>& group : queue->groups)
      std::for_each(group.begin(), group.end(), each);
    std::for_each(queue->uncommitted.begin(), queue->uncommitted.end(), each);
    op->own = not_owned(arrival);
    op->step = arrival_step;
    if (!arrival->missing)
      sync.core.issue(op);
  }
}

void LaneCopies::ended(int64_t op) {
  const auto found = behind.find(op);
  if (found == behind.end())
    return;
  const std::vector<Op*> waiting = std::move(found->second);
  behind.erase(found);
  for (Op* arrival : waiting)
    if (!--static_cast<CopyArrival*>(arrival->own.get())->missing)
      sync.core.issue(arrival);
}

bool LaneCopies::arrival_step(Core& core, Op& op) {
  Sync& sync = *core.sync;
  CopyArrival& arrival = *static_cast<CopyArrival*>(op.own.get());
  const Barrier* barrier = sync.find(arrival.slot * SLOT_BYTES + arrival.offset);
  // Arrivals that complete the phase on their way are of two phases: one by one.
  const bool together = !barrier || __builtin_popcount(op.lanes) <= barrier->pending;
  for (Mask left = op.lanes; left;) {
    const Mask some = together ? left : left & -left;
    left &= ~some;
    if (barrier && sync.memory.races)
      sync.memory.races->copies_arrived(arrival.clocks.data(), arrival.clocks.size(), some,
                                        barrier->flat, barrier->number, barrier->phase);
    if (!sync.op_arrive(op, arrival.slot, arrival.offset, __builtin_popcount(some)))
      return true;
  }
  sync.lane_copies.arrivals.put(&arrival);
  return false;
}

namespace {

enum Limit : int { WHOLE, GIVEN, IGNORED };

// What a lane copies. Immediates: bytes, and what limits them: nothing, how many there are, or a
// predicate that ignores the source.
int64_t amount_of(const Context& context, const Instruction& instruction, const Row& row,
                  int lane) {
  const int64_t size = instruction.immediates[0];
  switch (Limit(instruction.immediates[1])) {
  case GIVEN:
    return context.in<uint32_t>(row, instruction.operands[2])[lane];
  case IGNORED:
    return *context.in<Mask>(row, instruction.operands[2]) >> lane & 1 ? 0 : size;
  default:
    return size;
  }
}

// Lanes of a warp that copy as much.
struct Part {
  Row row;
  int64_t amount;
};

Result copy(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  Memory& memory = sync->memory;
  const int64_t size = instruction.immediates[0];
  ThreadAccess access{context.rows, context.count, instruction.at};
  access.size = int(size);
  access.write = true;
  if (!memory.locate(access, context, instruction.operands[0], IN_SHARED, int(size)))
    return FALLBACK;
  thread_local std::vector<int64_t> targets;
  targets.assign(access.flat, access.flat + size_t(context.count) * LANES);
  // By warp and amount, ascending.
  thread_local std::vector<Part> parts;
  parts.clear();
  for (int n = 0; n < context.count; n++) {
    const size_t first = parts.size();
    for (Mask left = context.rows[n].lanes; left; left &= left - 1) {
      const int lane = __builtin_ctz(left);
      const int64_t amount = amount_of(context, instruction, context.rows[n], lane);
      if (amount > size)
        return FALLBACK;
      auto part = std::find_if(parts.begin() + long(first), parts.end(),
                               [&](const Part& one) { return one.amount >= amount; });
      if (part == parts.end() || part->amount != amount) {
        part = parts.insert(part, {context.rows[n], amount});
        part->row.lanes = 0;
        part->row.row = n;
      }
      part->row.lanes |= Mask(1) << lane;
    }
  }
  thread_local std::vector<LaneCopy*> made;
  made.clear();
  for (const Part& part : parts) {
    const int64_t* flat = nullptr;
    if (part.amount) {  // else the source is not read: any address will do
      ThreadAccess source{&part.row, 1, instruction.at};
      source.size = int(part.amount);
      if (!memory.locate(source, context, instruction.operands[1], IN_GLOBAL, int(size))) {
        for (LaneCopy* one : made)
          sync->lane_copies.put(one);
        return FALLBACK;
      }
      flat = source.flat;
    }
    LaneCopy* one = sync->lane_copies.make();
    one->amount = part.amount;
    one->size = size;
    each_lane(part.row.lanes, [&](int lane) {
      one->sources.push_back(flat ? flat[lane] : 0);
      one->targets.push_back(targets[size_t(part.row.row * LANES + lane)]);
    });
    made.push_back(one);
  }
  for (size_t n = 0; n < parts.size(); n++)
    sync->lane_copies.issue(parts[n].row.warp, parts[n].row.lanes, instruction.at, made[n]);
  return CONTINUE;
}

// Immediates: whether the arrivals are added to those that are pending, and the space.
Result arrive(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  ThreadAccess access{context.rows, context.count, instruction.at};
  access.size = int(BARRIER_BYTES);
  if (!sync || !sync->memory.locate(access, context, instruction.operands[0],
                                    Space(instruction.immediates[1]), int(BARRIER_BYTES)))
    return FALLBACK;
  if (access.arena != SHARED)
    return FALLBACK;
  // Lanes by the place that they name, in the order of the first one; then by warp.
  struct Named {
    int64_t flat;
    std::vector<Row> rows;
  };
  thread_local std::vector<Named> named;
  named.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    for (Mask left = row.lanes; left;) {
      const int64_t flat = access.flat[n * LANES + __builtin_ctz(left)];
      Mask lanes = 0;
      each_lane(left, [&](int lane) {
        lanes |= Mask(access.flat[n * LANES + lane] == flat) << lane;
      });
      left &= ~lanes;
      auto known = std::find_if(named.begin(), named.end(),
                                [&](const Named& one) { return one.flat == flat; });
      if (known == named.end())
        known = named.insert(known, {flat, {}});
      known->rows.push_back({row.file, lanes, row.warp, row.row});
    }
  }
  for (const Named& one : named)
    if (!sync->find(one.flat))
      return FALLBACK;
  for (const Named& one : named) {
    if (instruction.immediates[0])
      for (const Row& row : one.rows)
        sync->find(one.flat)->pending += __builtin_popcount(row.lanes);
    for (const Row& row : one.rows)
      sync->lane_copies.arrive_later(row.warp, row.lanes, instruction.at, one.flat / SLOT_BYTES,
                                     one.flat % SLOT_BYTES);
  }
  return CONTINUE;
}

const Handlers lane_copies_handlers{{"cp.async", copy}, {"cp.async.mbarrier.arrive", arrive}};

} // namespace
} // namespace emu

extern "C" {

void core_copy_arrives(emu::Core* core, int warp, uint32_t lanes, int at, int64_t slot,
                       int64_t offset) {
  core->sync->lane_copies.arrive_later(warp, lanes, at, slot, offset);
}

// A copy of Python's has written.
void core_copy_ended(emu::Core* core, int64_t op) { core->sync->lane_copies.ended(op); }
}
