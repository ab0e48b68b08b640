// What an mbarrier counts, phase after phase: kernelrig.emu.machine.phase.
#pragma once

#include <cstdint>

namespace emu {

constexpr int64_t COUNT_LIMIT = (1 << 20) - 1;
constexpr int PHASE_BIT = 63;
constexpr int PENDING_BIT = 43;

// An mbarrier. It lies in memory of Python (native/sync.py has the same fields), which makes
// it and says when it is live; the misuse that Python reports is what `may_*` says no to.
struct Barrier {
  int64_t flat;  // in the arena of shared memory
  int64_t slot, offset;
  int64_t expected, pending, tx, phase, announced;
  int64_t made_by_warp, made_by_lane, arrived_by;
  int64_t observed;
  int64_t number;  // of all that were made in the wave

  bool has_completed(int64_t parity) const { return (phase & 1) != parity; }

  uint64_t state(int64_t before) const {
    return uint64_t(phase & 1) << PHASE_BIT | uint64_t((1 << 20) - before) << PENDING_BIT;
  }

  bool may_arrive(int64_t count) const { return count >= 1 && observed && count <= pending; }
  void arrive(int64_t count) {
    pending -= count;
    advance();
  }

  bool may_transact(int64_t count) const {
    const int64_t sum = tx + count;
    return sum <= COUNT_LIMIT && sum >= -COUNT_LIMIT;
  }
  void transact(int64_t count) {
    tx += count;
    announced += count > 0 ? count : 0;
    advance();
  }

private:
  // Both conditions, in either order: bytes may arrive before the last thread does.
  void advance() {
    if (pending || tx)
      return;
    phase++;
    pending = expected;
    observed = 0;
    announced = 0;
  }
};

}  // namespace emu
