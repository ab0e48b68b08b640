// Warp-specialised kernels for sm_100a that are only ever disassembled: one that is right, and one
// for each thing that can be wrong with its roles. W0 loads, W1 multiplies, W2 to W5 are the
// epilogue, as in the megakernel; nothing here computes anything of use.
#include <cassert>

#include "sm100a/ptx.cuh"

enum Fault {
  NONE,
  ONE_LOOP,    // load and MMA are two branches of one loop
  BOTH_ROLES,  // the load warp goes on to the MMA warp's work
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
