// One small kernel of CTA pairs, right once and then broken in one thing at a time: what each rule
// over PTX must see, and nothing else. It only has to compile; nobody runs it.
#include "ptx.cuh"
#include "tcgen05.cuh"
#include "wait.cuh"

namespace ptx = kernelrig::ptx;
namespace tcgen05 = kernelrig::tcgen05;
using kernelrig::wait;

struct alignas(64) TensorMap {
  char bytes[128];
};

enum Fault {
  NONE,
  STORE_WITHOUT_PROXY_FENCE,
  INIT_WITHOUT_FENCE,
  REMOTE_ARRIVE_SCOPE,
  TENSOR_MEMORY_LEAK,
  LEAK_WHERE_THERE_IS_NO_TILE,
  COLUMNS_DIFFER,
  MIXED_BULK_GROUPS,
  COPY_NOT_COMMITTED,
  LOAD_NOT_WAITED,
  ALIGNED_BY_ONE_LANE,
  BYTES_NEVER_EXPECTED,
  ALLOC_AFTER_RELINQUISH,
  PEER_BEFORE_CLUSTER_BARRIER,
  DEALLOC_WITHOUT_THE_PEER,
  COPY_BEFORE_THE_OTHERS,
  ADDRESS_NOT_PUBLISHED,
  // Right as well, in other ways:
  READ_BEFORE_THE_WAIT,
  LEFT_PENDING,
  FREED_BY_ANOTHER_WARP,
  FENCED_BY_THE_COPYING_LANE,
  COUNTED_BY_ONE_LANE_OF_A_NUMBER,
  NOTED_ASIDE,
  PENDING_FLAG,
  FENCED_BEFORE_A_WEAK_ARRIVE,
};

constexpr int BARRIERS = 16384, ADDRESS = BARRIERS + 32, COLUMNS = 256;
enum Barrier { ARRIVED, READY, RELEASED, PEER };

__device__ __forceinline__ uint32_t in_peer(uint32_t address, uint32_t rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

__device__ __forceinline__ void store_in_peer(uint32_t address, uint32_t word) {
  asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

template <int FAULT> __device__ __forceinline__ void arrive_at_peer(uint32_t barrier) {
  if constexpr (FAULT == FENCED_BEFORE_A_WEAK_ARRIVE)
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
  if constexpr (FAULT == REMOTE_ARRIVE_SCOPE || FAULT == FENCED_BEFORE_A_WEAK_ARRIVE)
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
  else
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void meet() {
  ptx::cluster_arrive_relaxed();
  ptx::cluster_wait();
}

template <int FAULT> __device__ __forceinline__ void initialise(uint32_t smem) {
  for (int i = 0; i < 4; ++i)
    ptx::mbarrier_init(smem + BARRIERS + 8 * i, 1);
  if constexpr (FAULT != INIT_WITHOUT_FENCE)
    ptx::fence_mbarrier_init();
}

template <int FAULT>
__device__ __forceinline__ void epilogue(uint32_t smem, uint32_t tmem, const TensorMap &map,
                                         int tiles) {
  bool pending = false;
  for (int tile = 0; tile < tiles; ++tile) {
    wait(smem + BARRIERS + 8 * READY, tile & 1, "ready");
    tcgen05::fence_after_thread_sync();
    uint32_t columns[16];
    tcgen05::load_columns(columns, tmem);
    if constexpr (FAULT != READ_BEFORE_THE_WAIT && FAULT != LOAD_NOT_WAITED)
      tcgen05::wait_load();
    uint32_t words[4] = {};
    if constexpr (FAULT != LOAD_NOT_WAITED)
      for (int i = 0; i < 16; ++i)
        words[i % 4] ^= columns[i];
    if constexpr (FAULT == READ_BEFORE_THE_WAIT)
      tcgen05::wait_load();
    ptx::store_shared(smem + threadIdx.x % 32 * 16, words);
    __shared__ int noted;
    if constexpr (FAULT != STORE_WITHOUT_PROXY_FENCE && FAULT != FENCED_BY_THE_COPYING_LANE)
      ptx::fence_proxy_async_shared();
    if constexpr (FAULT == NOTED_ASIDE)
      *(volatile int *)&noted = tile;
    if constexpr (FAULT != COPY_BEFORE_THE_OTHERS)
      __syncwarp();
    const bool numbered = FAULT == COUNTED_BY_ONE_LANE_OF_A_NUMBER;
    if (numbered ? threadIdx.x % 32 == 3 : ptx::elect_one()) {
      if constexpr (FAULT == FENCED_BY_THE_COPYING_LANE)
        ptx::fence_proxy_async_shared();
      ptx::tma_store_2d(&map, 0, tile, smem);
      if constexpr (FAULT != COPY_NOT_COMMITTED)
        ptx::bulk_commit_group();
      if constexpr (FAULT == ALIGNED_BY_ONE_LANE)
        __syncthreads();
      pending = true;
    }
    if (FAULT == MIXED_BULK_GROUPS || numbered ? threadIdx.x % 32 == 3 : ptx::elect_one())
      ptx::bulk_wait_group_read<1>();
    tcgen05::fence_before_thread_sync();
    __syncwarp();
    if (ptx::elect_one())
      ptx::mbarrier_arrive_relaxed_cluster(ptx::in_even_cta(smem + BARRIERS + 8 * RELEASED));
    if constexpr (FAULT == LOAD_NOT_WAITED) {
      tcgen05::wait_load();
      ptx::store_shared(smem + 8192, {columns[0], columns[1], columns[2], columns[3]});
    }
  }
  if constexpr (FAULT == PENDING_FLAG) {
    if (pending)
      ptx::bulk_wait_group_read<0>();
  } else if constexpr (FAULT == LEFT_PENDING) {
    if (ptx::elect_one())
      ptx::bulk_wait_group_read<1>();
  } else if constexpr (FAULT == COUNTED_BY_ONE_LANE_OF_A_NUMBER || FAULT == MIXED_BULK_GROUPS) {
    ptx::bulk_wait_group_read<0>(); // every lane its own
  } else {
    if (ptx::elect_one())
      ptx::bulk_wait_group_read<0>();
  }
}

template <int FAULT>
__device__ __forceinline__ void body(const TensorMap &map, int tiles, uint32_t *out) {
  extern __shared__ __align__(1024) uint8_t dynamic_smem[];
  const uint32_t smem = ptx::shared_address(dynamic_smem);
  const uint32_t rank = ptx::cluster_rank();
  const int warp = threadIdx.x / 32;
  constexpr bool apart = FAULT == DEALLOC_WITHOUT_THE_PEER;

  if (warp == 0 && ptx::elect_one())
    initialise<FAULT>(smem);
  __syncwarp();
  if constexpr (FAULT == PEER_BEFORE_CLUSTER_BARRIER) {
    __syncthreads();
    if (warp == 0 && ptx::elect_one())
      arrive_at_peer<FAULT>(in_peer(smem + BARRIERS + 8 * RELEASED, rank ^ 1));
  } else {
    meet();
  }
  if (warp == 1) {
    if constexpr (FAULT == ALLOC_AFTER_RELINQUISH)
      tcgen05::relinquish_alloc_permit();
    tcgen05::alloc<COLUMNS>(smem + ADDRESS);
    if constexpr (FAULT != ALLOC_AFTER_RELINQUISH)
      tcgen05::relinquish_alloc_permit();
  }
  tcgen05::fence_before_thread_sync();
  if constexpr (FAULT == ADDRESS_NOT_PUBLISHED) {
    meet();
  } else if constexpr (apart) {
    __syncthreads();
  } else {
    ptx::cluster_arrive_release();
    ptx::cluster_wait();
  }
  tcgen05::fence_after_thread_sync();
  const uint32_t tmem = ptx::load_shared(smem + ADDRESS);

  if (warp == 0) {
    if (ptx::elect_one()) {
      if constexpr (FAULT != BYTES_NEVER_EXPECTED)
        ptx::mbarrier_arrive_expect_tx(smem + BARRIERS + 8 * ARRIVED, 4096);
      tcgen05::tma_load_2d(smem + 4096, &map, 0, 0, smem + BARRIERS + 8 * ARRIVED);
      if constexpr (!apart) {
        store_in_peer(in_peer(smem + 12288, rank ^ 1), tiles);
        arrive_at_peer<FAULT>(in_peer(smem + BARRIERS + 8 * PEER, rank ^ 1));
      }
    }
  } else if (warp == 1) {
    if constexpr (FAULT == LEAK_WHERE_THERE_IS_NO_TILE)
      if (tiles == 0)
        return;
    if (!apart && rank == 0 && ptx::elect_one()) {
      wait(smem + BARRIERS + 8 * ARRIVED, 0, "arrived");
      tcgen05::fence_after_thread_sync();
      const uint64_t a = tcgen05::matrix_descriptor(smem + 4096);
      tcgen05::mma_fp8(tmem, a, a, tcgen05::instruction_descriptor(256, 256), false);
      tcgen05::commit_multicast(smem + BARRIERS + 8 * READY, 3);
    }
  } else {
    epilogue<FAULT>(smem, tmem, map, tiles);
  }

  __syncwarp();
  if constexpr (apart)
    __syncthreads();
  else
    meet();
  if (warp == (FAULT == FREED_BY_ANOTHER_WARP ? 0 : 1)) {
    if constexpr (FAULT == COLUMNS_DIFFER)
      tcgen05::dealloc<COLUMNS / 2>(tmem);
    else if constexpr (FAULT != TENSOR_MEMORY_LEAK)
      tcgen05::dealloc<COLUMNS>(tmem);
  }
  meet();
  *out = tmem;
}

#define ENTRY(name, FAULT)                                                                         \
  extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(96, 1)                    \
      name(const __grid_constant__ TensorMap map, int tiles, uint32_t *out) {                      \
    body<FAULT>(map, tiles, out);                                                                  \
  }
ENTRY(good, NONE)
ENTRY(store_without_proxy_fence, STORE_WITHOUT_PROXY_FENCE)
ENTRY(init_without_fence, INIT_WITHOUT_FENCE)
ENTRY(remote_arrive_scope, REMOTE_ARRIVE_SCOPE)
ENTRY(tensor_memory_leak, TENSOR_MEMORY_LEAK)
ENTRY(leak_where_there_is_no_tile, LEAK_WHERE_THERE_IS_NO_TILE)
ENTRY(columns_differ, COLUMNS_DIFFER)
ENTRY(mixed_bulk_groups, MIXED_BULK_GROUPS)
ENTRY(copy_not_committed, COPY_NOT_COMMITTED)
ENTRY(load_not_waited, LOAD_NOT_WAITED)
ENTRY(aligned_by_one_lane, ALIGNED_BY_ONE_LANE)
ENTRY(bytes_never_expected, BYTES_NEVER_EXPECTED)
ENTRY(alloc_after_relinquish, ALLOC_AFTER_RELINQUISH)
ENTRY(peer_before_cluster_barrier, PEER_BEFORE_CLUSTER_BARRIER)
ENTRY(dealloc_without_the_peer, DEALLOC_WITHOUT_THE_PEER)
ENTRY(copy_before_the_others, COPY_BEFORE_THE_OTHERS)
ENTRY(address_not_published, ADDRESS_NOT_PUBLISHED)
ENTRY(read_before_the_wait, READ_BEFORE_THE_WAIT)
ENTRY(left_pending, LEFT_PENDING)
ENTRY(freed_by_another_warp, FREED_BY_ANOTHER_WARP)
ENTRY(fenced_by_the_copying_lane, FENCED_BY_THE_COPYING_LANE)
ENTRY(counted_by_one_lane_of_a_number, COUNTED_BY_ONE_LANE_OF_A_NUMBER)
ENTRY(noted_aside, NOTED_ASIDE)
ENTRY(pending_flag, PENDING_FLAG)
ENTRY(fenced_before_a_weak_arrive, FENCED_BEFORE_A_WEAK_ARRIVE)
