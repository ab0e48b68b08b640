// Barriers of a CTA and of a cluster: which warps have arrived, and when all may go on.
// kernelrig.emu.machine.cta_barrier for the core.
//
// How it works. The uses of the barriers lie here whoever arrives: a handler of the core
// (barrier_steps.cpp), or a Python step, whose stand-in (native/barrier_uses.py) reads and writes
// the same uses. A use lives in a pool: it is taken anew once it is complete and all have passed.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "machine.hpp"

namespace emu {

// What arrives at a barrier: threads that wait or not, or a reduction.
enum UseKind : int64_t { NO_KIND, PLAIN_KIND, POPC_KIND, AND_KIND, OR_KIND };

// One use of a barrier (cta_barrier.Instance); Python has its fields too, but for the last ones.
struct BarrierUse {
  int64_t number;  // of all uses of such barriers, from 1
  int64_t slot, barrier;  // the CTA, or the cluster's first one; which of its barriers
  int64_t wanted;         // threads, 0 for all
  int64_t kind;
  int64_t threads, brought_true, brought;
  int64_t complete;
  std::vector<Mask> arrived;  // by warp of the CTA or cluster
  int owed;                   // how often it stands in `owing`
};

// All barriers of CTAs, or all of clusters. Either puts itself into `used` when it is used first.
class BarrierUses {
public:
  BarrierUses(Core& core, bool cluster, std::vector<BarrierUses*>& used)
      : core(core), cluster(cluster), used(used) {}

  // `ctas` of a cluster, `warps_a_cta` of each.
  void start(int warps, int64_t warps_a_cta, int64_t ctas);
  void touch();
  bool is_used() const { return std::find(used.begin(), used.end(), this) != used.end(); }

  // The use that an arrival now takes part in; null for none so far.
  BarrierUse* current(int64_t slot, int64_t barrier) const;
  BarrierUse& take_part(int64_t slot, int64_t barrier);
  BarrierUse* find(int64_t number) const;  // of those that are not complete
  // Those of `lanes` that have arrived at a use and not passed it.
  Mask owed(int warp, Mask lanes) const;
  void owe(int warp, Mask lanes, BarrierUse& use);
  void arrive(int warp, Mask lanes, BarrierUse& use) { use.arrived[place(warp, use)] |= lanes; }
  // Completes a use if no warp is missing any more.
  void settle(BarrierUse& use);
  // Calls `each(use)` for what keeps `lanes`.
  template <class Each> void waits(int warp, Mask lanes, Each each) const {
    for (const Owed& one : owing[size_t(warp)])
      if (one.lanes & lanes && !one.use->complete)
        each(*one.use);
  }
  // Lets lanes go, and calls `each(lanes, use)` for what they have passed.
  template <class Each> void pass(int warp, Mask lanes, Each each) {
    std::vector<Owed>& list = owing[size_t(warp)];
    size_t kept = 0;
    for (size_t n = 0; n < list.size(); n++) {
      Owed one = list[n];
      if (one.lanes & lanes)
        each(one.lanes & lanes, *one.use);
      one.lanes &= ~lanes;
      if (one.lanes)
        list[kept++] = one;
      else if (!--one.use->owed && one.use->complete)
        unused.push_back(one.use);
    }
    list.resize(kept);
  }
  // Lanes have exited: they are not waited for.
  void exited(const Batch& gone);
  bool has_met(int64_t slot) const { return met[size_t(slot)]; }
  // What batches that wait for a use wait for.
  int64_t key(const BarrierUse& use) const { return USE_KEYS | use.number << 1 | cluster; }
  // The lanes of a warp that have arrived; those that were counted may come again.
  Mask arrived(int warp, const BarrierUse& use) const { return use.arrived[place(warp, use)]; }

private:
  struct Owed {
    Mask lanes;
    BarrierUse* use;
  };

  size_t place(int warp, const BarrierUse& use) const {
    return size_t(warp - use.slot * warps_of_slot);
  }

  Core& core;
  bool cluster;
  std::vector<BarrierUses*>& used;
  int64_t uses = 0;
  int64_t warps_of_slot = 1, warps_of_all = 1;  // of a CTA; of all that take part
  std::vector<BarrierUse*> unfinished;          // in the order of their first arrivals
  std::vector<std::vector<Owed>> owing;         // by warp
  std::vector<uint8_t> met;                     // by slot: whether a use has completed
  std::vector<std::unique_ptr<BarrierUse>> pool;
  std::vector<BarrierUse*> unused;
};

} // namespace emu
