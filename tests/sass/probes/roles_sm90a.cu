// A warp-specialised kernel for sm_90a that is only ever disassembled: a warpgroup loads by TMA, one
// or two multiply by wgmma and store by TMA. With SHARED both do their work in one loop.
#include <cstdint>
#include <cuda.h>

namespace ptx {
__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void wait(uint32_t bar, uint32_t parity) {
  asm volatile("{ .reg .pred p; again%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;"
               " @!p bra again%=; }" ::"r"(bar),
               "r"(parity)
               : "memory");
}
__device__ __forceinline__ void arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void expect_tx(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void tma_load(uint32_t to, const CUtensorMap *map, int y, uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(map), "r"(0), "r"(y), "r"(bar)
               : "memory");
}
__device__ __forceinline__ void tma_store(const CUtensorMap *map, int y, uint32_t from) {
  asm volatile("fence.proxy.async.shared::cta;\n"
               "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
               "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::"l"(map),
               "r"(0), "r"(y), "r"(from)
               : "memory");
}
// m64n8k32, E4M3: four accumulator registers a thread
__device__ __forceinline__ void wgmma(float (&d)[4], uint64_t a, uint64_t b) {
  asm volatile("wgmma.fence.sync.aligned;\n"
               "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0, %1, %2, %3}, %4, %5, 1, 1,"
               " 1;\n"
               "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "l"(a), "l"(b)
               : "memory");
}
} // namespace ptx

struct Smem {
  uint64_t inputs_arrived, inputs_released;
  alignas(128) float staging[256][4];
  alignas(1024) uint8_t ring[4096];
};

__device__ __forceinline__ void load(Smem &s, const CUtensorMap *map, int tile) {
  const uint32_t arrived = ptx::shared_address(&s.inputs_arrived);
  ptx::wait(ptx::shared_address(&s.inputs_released), tile & 1);
  ptx::expect_tx(arrived, 4096);
  ptx::tma_load(ptx::shared_address(s.ring), map, tile, arrived);
}

__device__ __forceinline__ void multiply(Smem &s, const CUtensorMap *map, int tile) {
  ptx::wait(ptx::shared_address(&s.inputs_arrived), tile & 1);
  const uint64_t at = 0x4000004000000000ull | ptx::shared_address(s.ring) >> 4;
  float d[4] = {};
  for (int k = 0; k < 4; ++k)
    ptx::wgmma(d, at + 2 * k, at + 2 * k);
  ptx::arrive(ptx::shared_address(&s.inputs_released));
  for (int i = 0; i < 4; ++i)
    s.staging[threadIdx.x - 128][i] = d[i];
  asm volatile("bar.sync 1, 256;" ::: "memory");
  if (threadIdx.x == 128)
    ptx::tma_store(map, tile, ptx::shared_address(s.staging));
}

template <bool SHARED>
__device__ __forceinline__ void roles(Smem &s, const CUtensorMap *a, const CUtensorMap *c,
                                      int tiles) {
  const bool loads = threadIdx.x < 128;
  if (SHARED) {
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      if (!loads)
        multiply(s, c, tile);
      else if (threadIdx.x == 0)
        load(s, a, tile);
      __syncwarp();
    }
  } else if (loads) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0)
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
        load(s, a, tile);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
      multiply(s, c, tile);
  }
}

#define PROBE(NAME, SHARED)                                                                        \
  extern "C" __global__ void __launch_bounds__(384, 1)                                             \
      NAME(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap c,           \
           int tiles) {                                                                            \
    __shared__ Smem s;                                                                             \
    if (threadIdx.x < 2)                                                                           \
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(                                 \
          ptx::shared_address(&s.inputs_arrived + threadIdx.x)));                                  \
    __syncthreads();                                                                               \
    roles<SHARED>(s, &a, &c, tiles);                                                               \
  }

PROBE(right, false)
PROBE(one_loop, true)
