// Copies for sm_90a: each CTA of a cluster of 4 loads a quarter of a tile of 32 x 32 words into all
// 4 by multicast, and stores the whole tile times its rank + 1. One stage: all four CTAs must have
// read a tile before the next one is loaded.
#include <cooperative_groups.h>
#include <cstdint>

struct alignas(64) Map {
  char bytes[128];
};

constexpr int ROWS = 32, COLUMNS = 32, RANKS = 4, QUARTER = ROWS / RANKS;

__device__ uint32_t shared(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void wait(uint32_t barrier, uint32_t parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

extern "C" __global__ void __cluster_dims__(RANKS, 1, 1) __launch_bounds__(64)
    multicast(const __grid_constant__ Map map, uint32_t *out, int tiles) {
  __shared__ alignas(128) uint32_t tile[ROWS * COLUMNS];
  __shared__ alignas(8) uint64_t barriers[2];
  auto cluster = cooperative_groups::this_cluster();
  const uint32_t rank = cluster.block_rank(), full = shared(barriers), empty = full + 8;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty), "r"(2 * RANKS) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster.sync();
  for (int i = 0; i < tiles; ++i) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full),
                   "r"(ROWS * COLUMNS * 4)
                   : "memory");
      wait(empty, i & 1 ^ 1);
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
          ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
              shared(tile + rank * QUARTER * COLUMNS)),
          "l"(&map), "r"(0), "r"(i * ROWS + int(rank) * QUARTER), "r"(full), "h"(uint16_t(0xF))
          : "memory");
    }
    __syncwarp();
    wait(full, i & 1);
    for (int at = threadIdx.x; at < ROWS * COLUMNS; at += blockDim.x)
      out[(i * RANKS + rank) * ROWS * COLUMNS + at] = tile[at] * (rank + 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 < RANKS) // one lane per CTA: its copies write here too
      asm volatile("{\n"
                   ".reg .b32 there;\n"
                   "mapa.shared::cluster.u32 there, %0, %1;\n"
                   "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
                   "}" ::"r"(empty),
                   "r"(threadIdx.x % 32)
                   : "memory");
    __syncwarp();
  }
  cluster.sync();
}
