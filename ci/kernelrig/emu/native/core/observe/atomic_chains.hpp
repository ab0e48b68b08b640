// Chains of atomics on one variable: kernelrig.emu.observe.atomic_chains.
#pragma once

#include <unordered_map>

#include "order_check.hpp"

namespace emu::races {

class AtomicChains {
 public:
  explicit AtomicChains(const Records& records) : records_(records) {}
  // Lanes of a warp used a variable by an atomic; `first` of those that the instruction has used it.
  void goes_on(const Warp& warp, int64_t flat, Mask lanes, bool first) {
    Chain& chain = chains_[flat];
    if (first) chain.last.clear();
    chain.last.push_back({&warp, lanes, warp.time});
  }
  // A strong store, which observes nothing, wrote the variable.
  void breaks(int64_t flat) {
    const auto known = chains_.find(flat);
    if (known != chains_.end()) known->second = {int(records_.all.size()), {}};
  }
  // Whether `access`, by one lane, comes behind an atomic that observed that one.
  bool is_observed(const Access& access, int64_t flat, Code code) const {
    const Record& record = records_.of(code);
    const auto known = chains_.find(flat);
    if (known == chains_.end() || record.write != ATOMIC || record.level < LEVEL_GPU ||
        record.size != access.size || code >> LANE_BITS < known->second.first)
      return false;
    for (const Use& use : known->second.last)
      if (is_behind(access, use)) return true;
    return false;
  }

 private:
  struct Use {
    const Warp* warp;
    Mask lanes;
    Time time;
  };
  struct Chain {
    int first = 0;  // the record from which on atomics are in it
    std::vector<Use> last;  // those that came last, together: each may have been the very last
  };
  static bool is_behind(const Access& access, const Use& use) {
    if (access.who == use.warp && access.bits & use.lanes) return true;
    const Cluster* cluster = use.warp->cluster;
    const Clock* clock = cluster == access.who->cluster ? access.clock
                         : access.known                 ? access.known->find(cluster->number)
                                                        : nullptr;
    if (!clock) return false;
    for (Mask left = use.lanes; left; left &= left - 1)
      if (time_at(clock->rows[SAME], use.warp->column + __builtin_ctz(left)) >= use.time)
        return true;
    return false;
  }
  const Records& records_;
  std::unordered_map<int64_t, Chain> chains_;
};

}  // namespace emu::races
