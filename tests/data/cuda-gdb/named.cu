// Waits that are named: by a literal, by a literal two calls up, by an argument, and not at all.
#include "wait.cuh"

using namespace kernelrig;

__device__ __forceinline__ void wait_for(uint32_t barrier, uint32_t parity, const char *name) {
  wait(barrier, parity, name);
}

__device__ __forceinline__ void acquire(uint32_t full_barrier, uint32_t parity) {
  while (!ptx::mbarrier_try_wait(full_barrier, parity)) {
  }
}

extern "C" __global__ void named(uint32_t smem, uint32_t parity) {
  wait(smem + 8 * parity, parity,
       "inputs_arrived");
  wait_for(smem + 16, parity, "inputs_released");
  acquire(smem + 24, parity);
  while (!ptx::mbarrier_try_wait(smem + 32, parity)) {
  }
}
