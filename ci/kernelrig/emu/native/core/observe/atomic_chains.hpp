// Chains of atomics on one variable: kernelrig.emu.observe.atomic_chains.
#pragma once

#include <unordered_map>

#include "order_check.hpp"

namespace emu::races {

class AtomicChains {
 public:
  explicit AtomicChains(const Records& records) : records_(records) {}
  // Lanes of a warp used a variable by an atomic, which has observed those before, or not.
  void goes_on(const Warp& warp, int64_t flat, Mask lanes, bool observed) {
    Chain& chain = chains_[flat];
    if (observed)
      chain.blind = false;
    else
      chain.blind |= (chain.last.warp && !knows(warp, lanes, chain.last)) || lanes & (lanes - 1);
    chain.last = chain.blind ? Use{} : Use{&warp, lanes, warp.time};
  }
  // A strong store, which observes nothing, wrote the variable.
  void breaks(int64_t flat) {
    const auto known = chains_.find(flat);
    if (known != chains_.end()) known->second = {int(records_.all.size()), {}, false};
  }
  // Whether `access`, by one lane, comes behind an atomic that observed that one.
  bool is_observed(const Access& access, int64_t flat, Code code) const {
    const Record& record = records_.of(code);
    const auto known = chains_.find(flat);
    if (known == chains_.end() || record.write != ATOMIC || record.level < LEVEL_GPU ||
        record.size != access.size || code >> LANE_BITS < known->second.first)
      return false;
    const Use& last = known->second.last;
    if (!last.warp) return false;
    // What is known of the own cluster stands by itself.
    const Cluster* cluster = last.warp->cluster;
    return is_behind(access.who, access.bits,
                     cluster == access.who->cluster ? access.clock
                     : access.known                 ? access.known->find(cluster->number)
                                                    : nullptr,
                     last);
  }

 private:
  // Lanes of a warp that used a variable, and its time.
  struct Use {
    const Warp* warp = nullptr;
    Mask lanes = 0;
    Time time = 0;
  };
  struct Chain {
    int first = 0;  // the record from which on atomics are in it
    // The last of them, none where nobody is behind all: red that came last have observed nothing.
    Use last;
    bool blind = false;
  };
  static bool knows(const Warp& warp, Mask lanes, const Use& use) {
    bool all = true;
    for_parts(warp, lanes, [&](Mask bits, const ViewRef& view) {
      all = all && is_behind(&warp, bits, view->known->find(use.warp->cluster->number), use);
    });
    return all;
  }
  static bool is_behind(const Actor* who, Mask bits, const Clock* known, const Use& use) {
    if (who == use.warp && bits & use.lanes) return true;
    if (!known) return false;
    for (Mask left = use.lanes; left; left &= left - 1)
      if (time_at(known->rows[SAME], use.warp->column + __builtin_ctz(left)) >= use.time)
        return true;
    return false;
  }
  const Records& records_;
  std::unordered_map<int64_t, Chain> chains_;
};

}  // namespace emu::races
