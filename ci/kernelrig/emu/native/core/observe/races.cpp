#include "races.hpp"

#include <algorithm>

namespace emu::races {

void Races::started(const Started& wave) {
  ++wave_;
  regions_.forget_wave();
  variables_[SPACE_SHARED].clear();
  phases_.clear();
  instances_.clear();
  instance_of_.clear();
  pairs_ = wave.cluster_ctas > 1;
  const size_t count = size_t(wave.warps);
  regions_.slot_of.assign(wave.slot_of, wave.slot_of + count);
  regions_.cta_of.assign(wave.cta_of, wave.cta_of + count);
  regions_.allocations.assign(wave.allocations, wave.allocations + wave.allocated);
  regions_.shared_bytes = wave.shared_bytes;
  regions_.warps_a_cta = wave.warps_a_cta;
  regions_.warps = &warps_;
  std::map<int32_t, Cluster*> clusters;
  for (Warp* warp : warps_) warp->leave();
  warps_.clear();
  for (size_t number = 0; number < count; ++number) {
    const int rank = int(wave.rank_of[number]), slot = int(wave.slot_of[number]);
    const int32_t key = wave_ << 16 | (slot - rank);
    Cluster*& cluster = clusters[key];
    if (!cluster) {
      const int lanes = wave.cluster_ctas * wave.warps_a_cta * LANES;
      clusters_.push_back(std::make_unique<Cluster>(key, lanes));
      cluster = clusters_.back().get();
    }
    const int in_cta = int(number) % wave.warps_a_cta;
    const int column = (rank * wave.warps_a_cta + in_cta) * LANES;
    auto warp = std::make_unique<Warp>(cluster, column, wave_ << 16 | slot, int(number));
    warp->place_cta = int(wave.cta_of[number]);
    warp->place_warp = in_cta;
    warps_.push_back(warp.get());
    all_warps_.push_back(std::move(warp));
  }
  several_ |= wave_ > 1 || clusters.size() > 1;
}

// Threads that synchronise. ----------------------------------------------------------------------
// What is published in that phase; older ones cannot be acquired any more.
Sync& Races::phase(int64_t place, int64_t barrier, int64_t phase) {
  Phases& known = phases_[place];
  // Another barrier at the same place is an mbarrier that was initialised anew: nothing of the one
  // before is acquired through it.
  if (known.barrier != barrier) {
    known.barrier = barrier;
    known.syncs.clear();
  }
  auto& syncs = known.syncs;
  for (auto& [number, sync] : syncs)
    if (number == phase) return *sync;
  syncs.erase(std::remove_if(syncs.begin(), syncs.end(),
                             [phase](const auto& each) { return each.first < phase - 1; }),
              syncs.end());
  syncs.emplace_back(phase, std::make_unique<Sync>());
  return *syncs.back().second;
}

// Uses of barriers are many and short-lived: the least recently used are dropped.
Sync& Races::instance(int64_t number) {
  auto [known, fresh] = instance_of_.try_emplace(number);
  if (!fresh) {
    instances_.splice(instances_.end(), instances_, known->second);
    return known->second->sync;
  }
  instances_.push_back({number, Sync()});
  known->second = std::prev(instances_.end());
  Sync& sync = instances_.back().sync;
  if (instances_.size() > MOST_INSTANCES) {
    instance_of_.erase(instances_.front().number);
    instances_.pop_front();
  }
  return sync;
}

void Races::release_all(const Threads* threads, size_t count, Sync& sync, int sem, int level) {
  for (size_t i = 0; i < count; ++i) {
    if (!threads[i].lanes) continue;
    Warp& warp = *warps_[size_t(threads[i].warp)];
    release(warp, threads[i].lanes, sync, sem, level);
    warp.tick();
  }
}

void Races::acquire_all(const Threads* threads, size_t count, const Sync& sync, int sem,
                        int level) {
  for (size_t i = 0; i < count; ++i)
    if (threads[i].lanes)
      acquire(*warps_[size_t(threads[i].warp)], threads[i].lanes, sync, sem, level);
}

void Races::arrived(const Threads* threads, size_t count, int64_t place, int64_t barrier,
                    int64_t number, int sem, int level) {
  release_all(threads, count, phase(place, barrier, number), sem, level);
}

void Races::waited(const Threads* threads, size_t count, int64_t place, int64_t barrier,
                   int64_t number, int sem, int level) {
  acquire_all(threads, count, phase(place, barrier, number), sem, level);
}

void Races::barrier_arrived(const Threads* threads, size_t count, int64_t number, int sem,
                            int level) {
  release_all(threads, count, instance(number), sem, level);
}

void Races::barrier_passed(const Threads* threads, size_t count, int64_t number, int sem,
                           int level) {
  acquire_all(threads, count, instance(number), sem, level);
}

void Races::warp_synced(const Threads* threads, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (threads[i].lanes) sync_warp(*warps_[size_t(threads[i].warp)], threads[i].lanes);
}

// Fences. ----------------------------------------------------------------------------------------
void Races::fenced(const Threads* threads, size_t count, int sem, int level) {
  for (size_t i = 0; i < count; ++i) {
    const Mask bits = threads[i].lanes;
    if (!bits) continue;
    Warp& warp = *warps_[size_t(threads[i].warp)];
    if (sem != RELEASE) acquire_fence(warp, bits, level);
    // Of two fence.sc either may come first, unless what strong accesses saw forbids it (PTX ISA
    // 8.9.3). Within a cluster they have the order of execution instead: each is an acquire and a
    // release on one variable that all of them share.
    if (sem == SC) {
      const int near = std::min<int>(level, LEVEL_CLUSTER);
      acquire(warp, bits, sequential_, ACQUIRE, near);
      if (level > near) sequential_fence(warp, bits);
      release(warp, bits, sequential_, RELEASE, near);
      warp.tick();
    }
    if (sem != ACQUIRE) {
      release_fence(warp, bits, level, sem == SC);
      warp.tick();
    }
  }
}

void Races::proxy_fenced(const Threads* threads, size_t count, int space) {
  for (size_t i = 0; i < count; ++i) {
    if (!threads[i].lanes) continue;
    Warp& warp = *warps_[size_t(threads[i].warp)];
    proxy_fence(warp, threads[i].lanes, space);
    warp.tick();
  }
}

void Races::tensor_fenced(const Threads* threads, size_t count, bool before) {
  for (size_t i = 0; i < count; ++i) {
    if (!threads[i].lanes) continue;
    Warp& warp = *warps_[size_t(threads[i].warp)];
    if (before) {
      before_thread_sync(warp, threads[i].lanes);
      warp.tick();
    } else {
      after_thread_sync(warp, threads[i].lanes);
    }
  }
}

// Asynchronous operations. -----------------------------------------------------------------------
int64_t Races::op_issued(const int* warps, size_t count, int lane, Mask by_lanes, int at,
                         const Name* name, bool generic) {
  std::vector<Warp*> issuers;
  for (size_t i = 0; i < count; ++i) issuers.push_back(warps_[size_t(warps[i])]);
  const Warp& first = *issuers[0];
  Cluster& cluster = *first.cluster;
  if (by_lanes) cluster.add_copies();
  const int column = by_lanes ? cluster.copies + first.column : column_of(cluster);
  auto made = std::make_unique<Operation>(true, &cluster, column, first.cta, first.number);
  made->name = name;
  made->id = int(operations_.size());
  made->at = at;
  made->place_cta = first.place_cta;
  made->place_warp = first.place_warp;
  if (by_lanes) {
    issue_by_lanes(*made, *issuers[0], by_lanes);
  } else {
    issue(*made, issuers, lane, generic);
    cluster.taken.push_back(made.get());
  }
  operations_.push_back(std::move(made));
  return int64_t(operations_.size()) - 1;
}

void Races::op_arrived(int64_t op, int64_t place, int64_t barrier, int64_t number, bool bytes) {
  Operation& operation = *operations_[size_t(op)];
  Sync& sync = phase(place, barrier, number);
  if (bytes) {
    // The waiter learns of reads (time) and writes (time + 1) of this operation.
    sync.end_one(operation);
    if (operation.done) return;
    // This says nothing of what it does for another barrier.
    operation.time += 2;
    operation.records.clear();
  } else if (operation.commits) {
    // A commit stands for all products that its thread issued before (PTX ISA 9.7.16.12).
    sync.end(operation, operation.tracked, true);
    sync.pass_completions(*operation.cluster, operation.waited, operation.committed);
    sync.pass_order(*operation.cluster, operation.taken);
  }
}

// A lane waits for its copies in the order of their issue: the latest stands for all.
void Races::copies_arrived(const int64_t* ops, size_t count, Mask lanes, int64_t place,
                           int64_t barrier, int64_t number) {
  if (!count) return;
  const Operation* latest = operations_[size_t(ops[0])].get();
  for (size_t i = 1; i < count; ++i)
    if (operations_[size_t(ops[i])]->time > latest->time) latest = operations_[size_t(ops[i])].get();
  phase(place, barrier, number).end_copies(*latest, lanes);
}

void Races::tensor_waited(const Threads* threads, size_t count, const int64_t* ops,
                          size_t waited) {
  for (size_t i = 0; i < count; ++i) {
    if (!threads[i].lanes) continue;
    Warp& warp = *warps_[size_t(threads[i].warp)];
    for (size_t j = 0; j < waited; ++j) {
      Operation& operation = *operations_[size_t(ops[j])];
      if (operation.number != warp.number || !operation.waits) continue;
      for (int lane = 0; lane < LANES; ++lane)
        if (threads[i].lanes >> lane & 1) (*operation.waits)[size_t(lane)] = warp.time;
    }
    warp.tick();
  }
}

void Races::group_waited(int warp, Mask lanes, const int64_t* ops, size_t waited, bool read) {
  std::vector<Operation*> operations;
  for (size_t i = 0; i < waited; ++i) operations.push_back(operations_[size_t(ops[i])].get());
  complete(*warps_[size_t(warp)], lanes, operations, read);
}

// Strong accesses: what they carry. Lanes of some warps accessed variables by one instruction, in
// that order. An atomic takes what those before it left in the variable, and leaves its own to those
// behind it (PTX ISA 8.9.2). One whose result nobody gets is no read: it takes nothing.
void Races::synchronise(std::vector<Strong>& strong, int space, const AccessForm& how, int level,
                        int at) {
  Variables& variables = variables_[space];
  const int reads = how.sem == ACQUIRE || how.sem == ACQ_REL ? ACQUIRE : RELAXED;
  const bool releases = how.write && (how.sem == RELEASE || how.sem == ACQ_REL);
  const bool observes = how.write ? how.atomic && how.observed : true;
  const bool chained = how.atomic && level >= LEVEL_GPU && space == SPACE_GLOBAL;
  for (Strong& each : strong) {
    if (observes)
      if (const auto known = variables.find(each.flat); known != variables.end()) {
        if (reads == RELAXED && known->second.performed) relaxed_[each.warp->cta] = at;
        if (known->second.followed) flags_[each.warp->cta] = at;
        acquire(*each.warp, each.lanes, known->second, reads, level, true);
      }
    if (!how.write) continue;
    if (!how.atomic) {  // a write that is no read-modify-write ends the chain, PTX ISA 8.9.2
      variables.erase(each.flat);
      each.lanes = 1u << (31 - __builtin_clz(each.lanes));  // the memory keeps what the last wrote
    }
    if (chained)
      chains_.goes_on(*each.warp, each.flat, each.lanes, observes);
    else if (space == SPACE_GLOBAL)
      chains_.breaks(each.flat);
    if (releases || each.warp->has_fenced(each.lanes)) {
      Sync& sync = variables[each.flat];
      release(*each.warp, each.lanes, sync, releases ? RELEASE : RELAXED, level);
      if (level >= LEVEL_GPU) perform(*each.warp, each.lanes, sync, releases);
    }
    if (stores_ && level >= LEVEL_GPU && space == SPACE_GLOBAL)
      follow(*each.warp, each.lanes, variables[each.flat]);
  }
  if (!releases) return;
  std::set<Warp*> ticked;
  for (const Strong& each : strong)
    if (ticked.insert(each.warp).second) each.warp->tick();
}

}  // namespace emu::races
