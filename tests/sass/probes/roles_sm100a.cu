// Warp-specialised kernels for sm_100a that are only ever disassembled: one that is right, and one
// for each thing that can be wrong with its roles. W0 loads, W1 multiplies, W2 to W5 are the
// epilogue, as in the megakernel; nothing here computes anything of use.
#include <cassert>
#include <cstdint>
#include <cuda.h>

namespace ptx {
__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
               : "=r"(elected));
  return elected;
}
__device__ __forceinline__ void mbarrier_init(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ bool mbarrier_try_wait(uint32_t bar, uint32_t parity) {
  uint32_t done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
               " selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(bar), "r"(parity)
               : "memory");
  return done;
}
__device__ __forceinline__ void mbarrier_arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void mbarrier_expect_tx(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void tma_load(uint32_t to, const CUtensorMap *map, int x, int y,
                                         uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global"
               ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(bar)
               : "memory");
}
__device__ __forceinline__ void tma_store(const CUtensorMap *map, int x, int y, uint32_t from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
               "cp.async.bulk.commit_group;" ::"l"(map),
               "r"(x), "r"(y), "r"(from)
               : "memory");
}
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ void tcgen05_mma(uint32_t d, uint64_t a, uint64_t b, bool add) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0;"
               " tcgen05.mma.cta_group::2.kind::f8f6f4 [%0], %1, %2, 0x10400010, p; }" ::"r"(d),
               "l"(a), "l"(b), "r"(static_cast<uint32_t>(add))
               : "memory");
}
__device__ __forceinline__ void tcgen05_commit(uint32_t bar) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
               ".multicast::cluster.b64 [%0], %1;" ::"r"(bar),
               "h"(static_cast<uint16_t>(3))
               : "memory");
}
__device__ __forceinline__ void tcgen05_alloc(uint32_t to) {
  asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 512;" ::"r"(to)
               : "memory");
}
__device__ __forceinline__ void tcgen05_dealloc(uint32_t tmem) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 512;" ::"r"(tmem) : "memory");
}
__device__ __forceinline__ void tcgen05_ld(uint32_t (&r)[8], uint32_t tmem) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]),
                 "=r"(r[6]), "=r"(r[7])
               : "r"(tmem));
}
__device__ __forceinline__ void tcgen05_wait_ld() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void store_shared(uint32_t to, uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
} // namespace ptx

enum Fault {
  NONE,
  ONE_LOOP,    // loader and product are two branches of one loop
  BOTH_ROLES,  // the loader's warp goes on to the product's work
  GATHERS,     // the epilogue holds __syncthreads
  PLAIN_STORE, // the epilogue writes without TMA
  TWICE,       // two warps of the epilogue have a copy of its code
  BY_LANE,     // the branch is on the thread, not on the warp
  UNFENCED,    // a path on which the proxy fence is left out
  STALE_FENCE, // the fence stands before the stores it is for
  WATCHDOG,    // waits that give up by __assertfail
};

constexpr int DEPTH = 4;

struct Smem {
  uint64_t inputs_arrived[DEPTH], inputs_released[DEPTH], accum_ready, accum_released;
  uint32_t tmem, staging[128];
  alignas(1024) uint8_t ring[DEPTH][1024];
};

struct Maps {
  const CUtensorMap *a, *c;
};

template <int FAULT> __device__ __forceinline__ void wait(const uint64_t &barrier, int parity) {
  int turns = 0;
  while (!ptx::mbarrier_try_wait(ptx::shared_address(&barrier), parity))
    if (FAULT == WATCHDOG && ++turns > 1000)
      __assert_fail("stuck", "probe", 1, "wait");
}

template <int FAULT> __device__ __forceinline__ void load(Smem &s, Maps maps, int tile) {
  const int stage = tile % DEPTH;
  const uint32_t arrived = ptx::shared_address(&s.inputs_arrived[stage]);
  wait<FAULT>(s.inputs_released[stage], tile / DEPTH % 2);
  ptx::mbarrier_expect_tx(arrived, 1024);
  ptx::tma_load(ptx::shared_address(s.ring[stage]), maps.a, 0, tile, arrived);
}

template <int FAULT> __device__ __forceinline__ void multiply(Smem &s, uint32_t tmem, int tile) {
  const int stage = tile % DEPTH;
  wait<FAULT>(s.accum_released, tile % 2);
  wait<FAULT>(s.inputs_arrived[stage], tile / DEPTH % 2);
  const uint64_t at = ptx::shared_address(s.ring[stage]) >> 4;
  for (int k = 0; k < 4; ++k)
    ptx::tcgen05_mma(tmem, at + 2 * k, at + 2 * k, k > 0);
  ptx::tcgen05_commit(ptx::shared_address(&s.inputs_released[stage]));
  ptx::tcgen05_commit(ptx::shared_address(&s.accum_ready));
}

template <int FAULT>
__device__ __forceinline__ void read_back(Smem &s, Maps maps, uint32_t tmem, int tile, int *out) {
  const int lane = threadIdx.x % 32;
  wait<FAULT>(s.accum_ready, tile % 2);
  uint32_t r[8];
  ptx::tcgen05_ld(r, tmem + (threadIdx.x / 32 % 4 << 21));
  ptx::tcgen05_wait_ld();
  uint32_t sum = 0;
  for (int i = 0; i < 8; ++i)
    sum ^= r[i];
  if (ptx::elect_one())
    ptx::bulk_wait_read();
  __syncwarp();
  if (FAULT == STALE_FENCE)
    ptx::fence_proxy_async();
  ptx::store_shared(ptx::shared_address(&s.staging[threadIdx.x - 64]), sum);
  if (FAULT == UNFENCED ? tile % 2 == 0 : FAULT != STALE_FENCE)
    ptx::fence_proxy_async();
  if (FAULT == GATHERS)
    __syncthreads();
  __syncwarp();
  if (FAULT == PLAIN_STORE)
    out[tile * 32 + lane] = sum;
  else if (ptx::elect_one())
    ptx::tma_store(maps.c, 0, tile, ptx::shared_address(s.staging));
  if (ptx::elect_one())
    ptx::mbarrier_arrive(ptx::shared_address(&s.accum_released));
}

template <int FAULT>
__device__ __forceinline__ void roles(Smem &s, Maps maps, uint32_t tmem, int tiles, int *out) {
  const int warp = threadIdx.x / 32, first = blockIdx.x, step = gridDim.x;
  if (FAULT == ONE_LOOP && warp < 2) {
    for (int tile = first; tile < tiles; tile += step) {
      if (warp == 0 && ptx::elect_one())
        load<FAULT>(s, maps, tile);
      else if (warp == 1 && ptx::elect_one())
        multiply<FAULT>(s, tmem, tile);
      __syncwarp();
    }
  } else if (FAULT == BY_LANE ? threadIdx.x == 0 : warp == 0) {
    if (ptx::elect_one())
      for (int tile = first; tile < tiles; tile += step)
        load<FAULT>(s, maps, tile);
    if (FAULT == BOTH_ROLES && ptx::elect_one())
      for (int tile = first; tile < tiles; tile += step)
        multiply<FAULT>(s, tmem, tile);
  } else if (FAULT == BY_LANE ? threadIdx.x == 32 : warp == 1) {
    if (FAULT != BOTH_ROLES && ptx::elect_one())
      for (int tile = first; tile < tiles; tile += step)
        multiply<FAULT>(s, tmem, tile);
  } else if (FAULT == TWICE && warp > 3) {
    for (int tile = first; tile < tiles; tile += step)
      read_back<FAULT>(s, maps, tmem + 256, tile + 7, out);
  } else {
    for (int tile = first; tile < tiles; tile += step)
      read_back<FAULT>(s, maps, tmem, tile, out);
  }
}

#define PROBE(NAME, FAULT)                                                                         \
  extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192, 1)                   \
      NAME(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap c,           \
           int tiles, int *out) {                                                                  \
    __shared__ Smem s;                                                                             \
    if (threadIdx.x < 2 * DEPTH + 2)                                                               \
      ptx::mbarrier_init(ptx::shared_address(&s.inputs_arrived[threadIdx.x]), 1);                  \
    ptx::cluster_sync();                                                                           \
    if (threadIdx.x / 32 == 1)                                                                     \
      ptx::tcgen05_alloc(ptx::shared_address(&s.tmem));                                            \
    __syncthreads();                                                                               \
    const uint32_t tmem = s.tmem;                                                                  \
    roles<FAULT>(s, {&a, &c}, tmem, tiles, out);                                                   \
    __syncthreads();                                                                               \
    ptx::cluster_sync();                                                                           \
    if (threadIdx.x / 32 == 1)                                                                     \
      ptx::tcgen05_dealloc(tmem);                                                                  \
  }

PROBE(right, NONE)
PROBE(one_loop, ONE_LOOP)
PROBE(both_roles, BOTH_ROLES)
PROBE(gathers, GATHERS)
PROBE(plain_store, PLAIN_STORE)
PROBE(twice, TWICE)
PROBE(by_lane, BY_LANE)
PROBE(unfenced, UNFENCED)
PROBE(stale_fence, STALE_FENCE)
PROBE(watchdog, WATCHDOG)
