// Waiting for a phase of an mbarrier. In a debug build (KERNELRIG_WATCHDOG_NS) a wait that lasts
// longer ends the kernel with a failed assertion: the driver prints the barrier's name, block and
// thread, and the program fails with cudaErrorAssert.
#pragma once

#include <cassert>
#include <cstdint>

#include "ptx.cuh"

namespace kernelrig {

template <class TryWait>
__device__ __forceinline__ void wait_until(TryWait try_wait, [[maybe_unused]] const char *barrier) {
#ifdef KERNELRIG_WATCHDOG_NS
  const uint64_t begin = ptx::global_ns();
  while (!try_wait()) {
    if (ptx::global_ns() - begin > KERNELRIG_WATCHDOG_NS)
      __assert_fail(barrier, "mbarrier", 0, "wait_until"); // prints the barrier, not a line
  }
#else
  while (!try_wait()) {
  }
#endif
}

// Until the phase of this parity is complete; what was written before its arrivals is then visible.
__device__ __forceinline__ void wait(uint32_t barrier, uint32_t parity, const char *name) {
  wait_until([=] { return ptx::mbarrier_try_wait(barrier, parity); }, name);
}

// The same for relaxed arrivals, which order tcgen05 operations only.
__device__ __forceinline__ void wait_relaxed(uint32_t barrier, uint32_t parity, const char *name) {
  wait_until([=] { return ptx::mbarrier_try_wait_relaxed_cluster(barrier, parity); }, name);
}

// The same for relaxed arrivals of other CTAs of the cluster behind fence_release_shared.
__device__ __forceinline__ void wait_in_cluster(uint32_t barrier, uint32_t parity,
                                                const char *name) {
  wait_relaxed(barrier, parity, name);
  ptx::fence_acquire_shared();
}

// The current stage of a ring and the parity of its phase. Every stage is used in order and none is
// skipped: a wait distinguishes phases by parity only, so two phases off looks like none.
template <int DEPTH> struct PipelineState {
  int index = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++index == DEPTH) {
      index = 0;
      parity ^= 1;
    }
  }
};

} // namespace kernelrig
