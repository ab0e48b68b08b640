#include "sync/sync.hpp"

#include <algorithm>

#include "observe/publication.hpp"
#include "observe/races.hpp"

namespace emu {

void Sync::start(int warps) {
  barriers.clear();
  places.clear();
  barriers_made = 0;
  memory.barrier_count = 0;
  publication.reset();
  memory.publication = nullptr;
  passes.clear();
  waits.clear();
  wait_numbers.clear();
  last_wait.assign(size_t(warps), -1);
  returned.clear();
  off_pattern.clear();
  wanted.assign(size_t(warps), {});
  for (auto& kind : queues)
    kind.assign(size_t(warps), {});
  for (auto& kind : touched)
    kind.clear();
  for (const auto& left : loads)
    for (TensorAccess* one : left)
      tensor_accesses.put(one);
  loads.assign(size_t(warps), {});
  stores.assign(size_t(warps), {});
  python_tensor.assign(size_t(warps), 0);
  settled_tensor.assign(size_t(warps), {});
  lane_copies.start();
  used.clear();
  of_ctas.start(warps, memory.warps, memory.cluster_ctas);
  of_clusters.start(warps, memory.warps, memory.cluster_ctas);
  warpgroups.start(warps);
  tensor.assign(size_t(warps / std::max<int64_t>(memory.warps, 1)), {});
}

void Sync::begins(Barrier& barrier) {
  ends(barrier.flat);
  barrier.number = barriers_made++;
  barriers[barrier.flat] = &barrier;
  places.insert(std::lower_bound(places.begin(), places.end(), barrier.flat), barrier.flat);
  memory.barriers = places.data();
  memory.barrier_count = int64_t(places.size());
  if (memory.publication)
    memory.publication->begins(barrier);
}

void Sync::ends(int64_t flat) {
  const auto found = barriers.find(flat);
  if (found == barriers.end())
    return;
  if (memory.publication)
    memory.publication->ends(*found->second);
  barriers.erase(found);
  places.erase(std::lower_bound(places.begin(), places.end(), flat));
  memory.barrier_count = int64_t(places.size());
}

bool Sync::is_running(int64_t slot) const {
  const Mask* first = core.alive + slot * memory.warps;
  return std::any_of(first, first + memory.warps, [](Mask lanes) { return lanes != 0; });
}

int64_t Sync::named(int warp, int64_t address) const {
  if (address >= SHARED_WINDOW)
    address -= SHARED_WINDOW;
  const int64_t number = address >> RANK_SHIFT, offset = address & OFFSET_MASK;
  if (number < 0 || number >= memory.cluster_ctas || offset >= SLOT_BYTES)
    return -1;
  const int64_t slot = core.slot_of[warp];
  return (slot - rank(slot) + number) * SLOT_BYTES + offset;
}

int64_t Sync::in_global(int64_t address, int64_t size, int64_t align, bool write) const {
  const int64_t flat = address - GLOBAL_BASE;
  if (address % align || flat < 0)
    return -1;
  const int64_t* end = memory.starts + memory.allocations;
  const int64_t number = std::upper_bound(memory.starts, end, flat) - memory.starts - 1;
  if (number < 0 || flat >= memory.ends[number] || flat + size > memory.ends[number] ||
      (write && memory.read_only[number]))
    return -1;
  return flat;
}

int64_t Sync::in_shared(int warp, int64_t address, int64_t size, int64_t align,
                        bool cluster) const {
  const int64_t number = address >> RANK_SHIFT, offset = address & OFFSET_MASK;
  const int64_t inside = offset - RESERVED_BYTES, slot = core.slot_of[warp], own = rank(slot);
  if (address % align || inside < 0 || inside + size > memory.shared_bytes)
    return -1;
  if (number == own)
    return slot * SLOT_BYTES + offset;
  if (!cluster || number < 0 || number >= memory.cluster_ctas || !is_running(slot + number - own))
    return -1;
  return (slot + number - own) * SLOT_BYTES + offset;
}

void Sync::remember(int warp, const Barrier& barrier, int at) {
  const int64_t phase = barrier.phase;
  // Waits for one phase count once, however many there are of them.
  auto& [last, count] = passes.try_emplace({warp, barrier.flat}, -1, 0).first->second;
  count += last != phase;
  last = phase;
  const bool early = phase < count;
  // Most waits are not early, and one record of each instruction and mbarrier serves them.
  const auto made =
      wait_numbers.try_emplace({&barrier, at, early ? phase : -1}, int(waits.size()));
  if (made.second)
    waits.push_back({&barrier, at, early, phase});
  last_wait[size_t(warp)] = made.first->second;
}

// Groups.

std::vector<Queue*> Sync::queues_of(GroupKind kind, int warp, Mask lanes) {
  std::vector<Queue>& known = queues[kind][size_t(warp)];
  if (known.empty()) {
    known.emplace_back();
    touched[kind].push_back(warp);
  }
  std::vector<size_t> found;
  const size_t before = known.size();
  for (size_t n = 0; n < before; n++) {
    const Mask shared = known[n].lanes & lanes;
    if (!shared)
      continue;
    if (shared == known[n].lanes) {
      found.push_back(n);
      continue;
    }
    known[n].lanes &= ~shared;
    Queue parted = known[n];
    parted.lanes = shared;
    found.push_back(known.size());
    known.push_back(std::move(parted));
  }
  std::vector<Queue*> result;
  for (size_t n : found)
    result.push_back(&known[n]);
  return result;
}

void Sync::add(GroupKind kind, int warp, Mask lanes, const Op& op, int64_t together) {
  for (Queue* queue : queues_of(kind, warp, lanes))
    queue->uncommitted.push_back({op.id, op.lane, op.at, op.name, op.clock, together});
}

bool Sync::is_over(int64_t op, bool read) const {
  const auto found = core.ops.find(op);
  return found == core.ops.end() || (read && found->second->read);
}

void Sync::commit(GroupKind kind, int warp, Mask lanes) {
  for (Queue* queue : queues_of(kind, warp, lanes)) {
    // What is done needs no wait any more, but the race detector learns of a wait.
    const auto over = [this](const Issued& one) { return is_over(one); };
    while (!memory.races && !queue->groups.empty() &&
           std::all_of(queue->groups.front().begin(), queue->groups.front().end(), over)) {
      thread_local std::vector<int64_t> unheard;
      for (const Issued& one : queue->groups.front())
        left(one, unheard);
      unheard.clear();
      queue->groups.pop_front();
      queue->seen_read -= queue->seen_read > 0;
    }
    queue->groups.push_back(std::move(queue->uncommitted));
    queue->uncommitted.clear();
  }
}

// Operations.

std::vector<uint8_t> Sync::bytes(int64_t size) {
  std::vector<uint8_t> made;
  if (!boxes.empty()) {
    made = std::move(boxes.back());
    boxes.pop_back();
  }
  made.resize(size_t(size));
  return made;
}

Op* Sync::issue(const int* warps, size_t count, int lane, int at, int name, Mask by_lanes) {
  Op* op = core.make_op();
  op->warp = warps[0];
  op->lane = lane;
  op->lanes = by_lanes;
  op->at = at;
  op->name = name;
  op->wait = last_wait[size_t(op->warp)];
  if (memory.races)
    op->clock = memory.races->op_issued(warps, count, lane, by_lanes, at, names[size_t(name)],
                                        by_lanes != 0);
  return op;
}

bool Sync::op_tx(Op& op, int64_t slot, int64_t offset, int64_t bytes) {
  Barrier* barrier = find(slot * SLOT_BYTES + offset);
  if (!barrier || !is_running(slot) || !barrier->may_transact(-bytes))
    return !failed(op, SIGNALS_BYTES, slot, offset, bytes);
  const int64_t phase = barrier->phase;
  op_arrived(op, *barrier, true);
  barrier->transact(-bytes);
  if (barrier->phase != phase)
    wake(*barrier);
  return true;
}

bool Sync::op_arrive(Op& op, int64_t slot, int64_t offset, int64_t count) {
  Barrier* barrier = find(slot * SLOT_BYTES + offset);
  if (!barrier || !is_running(slot) || !barrier->may_arrive(count))
    return !failed(op, SIGNALS_COMMIT, slot, offset, count);
  const int64_t phase = barrier->phase;
  barrier->arrived_by = op.warp;
  op_arrived(op, *barrier, false);
  barrier->arrive(count);
  if (barrier->phase != phase)
    wake(*barrier);
  return true;
}

}  // namespace emu
