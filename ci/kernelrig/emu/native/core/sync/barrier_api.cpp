// What Python calls of the barriers of CTAs and clusters: native/barrier_uses.py.
#include "sync/sync.hpp"

using namespace emu;

static BarrierUses& uses_of(Core* core, int cluster) {
  return cluster ? core->sync->of_clusters : core->sync->of_ctas;
}

extern "C" {

int core_uses(Core* core, int cluster) { return uses_of(core, cluster).is_used(); }

// Barriers of that kind are used from here on.
void core_uses_touch(Core* core, int cluster) { uses_of(core, cluster).touch(); }

BarrierUse* core_use(Core* core, int cluster, int64_t slot, int64_t barrier) {
  return &uses_of(core, cluster).take_part(slot, barrier);
}

BarrierUse* core_use_of(Core* core, int cluster, int64_t number) {
  return uses_of(core, cluster).find(number);
}

uint32_t core_use_owed(Core* core, int cluster, int warp, uint32_t lanes) {
  return uses_of(core, cluster).owed(warp, lanes);
}

void core_use_owe(Core* core, int cluster, int warp, uint32_t lanes, BarrierUse* use) {
  uses_of(core, cluster).owe(warp, lanes, *use);
}

void core_use_arrive(Core* core, int cluster, int warp, uint32_t lanes, BarrierUse* use) {
  uses_of(core, cluster).arrive(warp, lanes, *use);
}

uint32_t core_use_arrived(Core* core, int cluster, int warp, const BarrierUse* use) {
  return uses_of(core, cluster).arrived(warp, *use);
}

void core_use_settle(Core* core, int cluster, BarrierUse* use) {
  uses_of(core, cluster).settle(*use);
}

// The uses that keep lanes, at most one a lane.
int core_use_waits(Core* core, int cluster, int warp, uint32_t lanes, BarrierUse** into) {
  int count = 0;
  uses_of(core, cluster).waits(warp, lanes, [&](BarrierUse& use) { into[count++] = &use; });
  return count;
}

// Let lanes go: the uses that they have passed, with those lanes.
int core_use_pass(Core* core, int cluster, int warp, uint32_t lanes, BarrierUse** into,
                  uint32_t* passed) {
  int count = 0;
  uses_of(core, cluster).pass(warp, lanes, [&](Mask some, BarrierUse& use) {
    into[count] = &use;
    passed[count++] = some;
  });
  return count;
}

int core_has_met(Core* core, int64_t slot) { return core->sync->of_clusters.has_met(slot); }
}
