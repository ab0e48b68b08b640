#include "sync/cta_barrier.hpp"

namespace emu {

void BarrierUses::start(int warps, int64_t warps_a_cta, int64_t ctas) {
  uses = 0;
  warps_of_slot = warps_a_cta;
  warps_of_all = cluster ? warps_a_cta * ctas : warps_a_cta;
  unfinished.clear();
  owing.assign(size_t(warps), {});
  met.assign(size_t(warps / std::max<int64_t>(warps_a_cta, 1)), 0);
  unused.clear();
  for (const auto& use : pool)
    unused.push_back(use.get());
}

BarrierUse* BarrierUses::current(int64_t slot, int64_t barrier) const {
  for (BarrierUse* use : unfinished)
    if (use->slot == slot && use->barrier == barrier)
      return use;
  return nullptr;
}

BarrierUse& BarrierUses::take_part(int64_t slot, int64_t barrier) {
  if (BarrierUse* known = current(slot, barrier))
    return *known;
  if (unused.empty()) {
    pool.push_back(std::make_unique<BarrierUse>());
    unused.push_back(pool.back().get());
  }
  BarrierUse& use = *unused.back();
  unused.pop_back();
  std::vector<Mask> arrived = std::move(use.arrived);
  arrived.assign(size_t(warps_of_all), 0);
  use = {++uses, slot, barrier, 0, NO_KIND, 0, 0, 0, 0, std::move(arrived), 0};
  unfinished.push_back(&use);
  touch();
  return use;
}

void BarrierUses::touch() {
  if (!is_used())
    used.push_back(this);
}

BarrierUse* BarrierUses::find(int64_t number) const {
  for (BarrierUse* use : unfinished)
    if (use->number == number)
      return use;
  return nullptr;
}

Mask BarrierUses::owed(int warp, Mask lanes) const {
  Mask found = 0;
  for (const Owed& one : owing[size_t(warp)])
    found |= one.lanes;
  return found & lanes;
}

void BarrierUses::owe(int warp, Mask lanes, BarrierUse& use) {
  owing[size_t(warp)].push_back({lanes, &use});
  use.owed++;
}

void BarrierUses::settle(BarrierUse& use) {
  if (use.complete)
    return;
  const int first = int(use.slot * warps_of_slot);
  const auto missing = [&](size_t n) { return core.alive[size_t(first) + n] & ~use.arrived[n]; };
  bool done = true;
  if (!use.wanted) {
    for (size_t n = 0; n < use.arrived.size() && done; n++)
      done = !missing(n);
  } else {
    // bar.sync with a count counts warps, not lanes: 32 threads each, once a warp is whole. Threads
    // that have exited do not count, of the whole CTA neither: an H100 waits for ever.
    for (size_t n = 0; n < use.arrived.size(); n++)
      if (use.arrived[n] && !missing(n)) {
        use.threads += LANES;
        use.arrived[n] = 0;
      }
    done = use.threads >= use.wanted;
  }
  if (!done)
    return;
  use.complete = 1;
  met[size_t(use.slot)] = 1;
  unfinished.erase(std::find(unfinished.begin(), unfinished.end(), &use));
  if (!use.owed)
    unused.push_back(&use);
  core.wake(key(use));
}

void BarrierUses::exited(const Batch& gone) {
  // Uses that complete leave the list, and none comes to it meanwhile.
  const std::vector<BarrierUse*> before = unfinished;
  for (BarrierUse* use : before) {
    const auto first = size_t(use->slot * warps_of_slot);
    const bool concerned =
        std::any_of(gone.warps.begin(), gone.warps.end(), [&](int32_t warp) {
          return size_t(warp) - first < size_t(warps_of_all);
        });
    const bool begun = std::any_of(use->arrived.begin(), use->arrived.end(),
                                   [](Mask lanes) { return lanes != 0; });
    if (concerned && begun)
      settle(*use);
  }
}

} // namespace emu
