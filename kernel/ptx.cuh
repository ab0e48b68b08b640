// Inline PTX, one function per instruction; with tcgen05.cuh and wgmma.cuh the only asm of the
// project. The instructions: PTX ISA 9.1, sections named where they are not obvious.
//
// Shared addresses are 32-bit. A CTA's own shared address is also its shared::cluster address: bits
// 24 and up hold the rank in the cluster. The caller is responsible for the order: every function
// with an effect on memory or state is volatile, and volatile asm keeps its order, so that nothing
// moves across a wait.
#pragma once

#include <cstdint>

namespace kernelrig::ptx {

__device__ __forceinline__ uint32_t shared_address(const void *shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// One lane of the warp, the same at every call, so that a later call may wait for what an earlier
// one committed. A test of the lane number costs a loop of ~18 instructions around each bulk
// operation.
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile("{\n"
               ".reg .pred elected;\n"
               "elect.sync _|elected, 0xffffffff;\n"
               "selp.b32 %0, 1, 0, elected;\n"
               "}"
               : "=r"(elected));
  return elected != 0;
}

__device__ __forceinline__ uint32_t clock() {
  uint32_t cycles;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles));
  return cycles;
}

__device__ __forceinline__ uint64_t global_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__device__ __forceinline__ uint32_t sm() {
  uint32_t number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

// ---- clusters -----------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Orders nothing but the arrival itself, tcgen05 operations, and fence.mbarrier_init.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_arrive_release() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The same address in another CTA of the cluster.
__device__ __forceinline__ uint32_t in_cta(uint32_t address, uint32_t rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// The same address in the even CTA of the pair: bit 24 is the lowest bit of the rank (CUTLASS:
// Sm100MmaPeerBitMask; not documented in the PTX ISA).
__device__ __forceinline__ uint32_t in_even_cta(uint32_t address) { return address & 0xFEFFFFFFu; }

// ---- mbarriers ----------------------------------------------------------------------------------

__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// After the inits and before the cluster barrier that publishes them.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Orders tcgen05 operations, and data of shared memory behind fence_release_shared:
// .release.cluster would cost a MEMBAR.ALL.GPU.
__device__ __forceinline__ void mbarrier_arrive_relaxed_cluster(uint32_t barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

// May return false before the phase ends: wait() loops. On a fresh barrier the phase of parity 1 is
// complete and that of parity 0 is not.
__device__ __forceinline__ bool mbarrier_try_wait(uint32_t barrier, uint32_t parity) {
  uint32_t over;
  asm volatile("{\n"
               ".reg .pred over;\n"
               "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
               "selp.b32 %0, 1, 0, over;\n"
               "}"
               : "=r"(over)
               : "r"(barrier), "r"(parity)
               : "memory");
  return over != 0;
}

// For relaxed arrivals; .acquire.cluster would invalidate the L1 at every success.
__device__ __forceinline__ bool mbarrier_try_wait_relaxed_cluster(uint32_t barrier,
                                                                  uint32_t parity) {
  uint32_t over;
  asm volatile("{\n"
               ".reg .pred over;\n"
               "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 over, [%1], %2;\n"
               "selp.b32 %0, 1, 0, over;\n"
               "}"
               : "=r"(over)
               : "r"(barrier), "r"(parity)
               : "memory");
  return over != 0;
}

// Between accesses to this CTA's shared memory and a relaxed arrival in another CTA: a release of
// the cluster's scope that leaves global memory alone (MEMBAR.ALL.CTA).
__device__ __forceinline__ void fence_release_shared() {
  asm volatile("fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");
}

// Its counterpart behind a relaxed wait, before accesses to shared memory of the cluster; no
// instruction on sm_90a, where .acquire.cluster would invalidate the L1 at every success.
__device__ __forceinline__ void fence_acquire_shared() {
  asm volatile("fence.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
}

// ---- proxies and bulk copies --------------------------------------------------------------------

// Orders generic writes of this thread before asynchronous reads by the threads that it
// synchronises with afterwards. Without .shared::cta it costs a MEMBAR.ALL.GPU.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void prefetch_tensor_map(const void *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ uint64_t l2_evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ uint64_t l2_evict_last() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// The box of `map` at (x, y), x fastest, from global to shared memory; its bytes count on
// `barrier`.
__device__ __forceinline__ void tma_load_2d(uint32_t to, const void *map, int x, int y,
                                            uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void tma_load_2d(uint32_t to, const void *map, int x, int y,
                                            uint32_t barrier, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(policy)
               : "memory");
}

// The box into every CTA of the cluster whose bit of `ctas` is set, at the same address; its bytes
// count on the barrier at that address in each.
__device__ __forceinline__ void tma_load_2d_multicast(uint32_t to, const void *map, int x, int y,
                                                      uint32_t barrier, uint16_t ctas) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(ctas)
               : "memory");
}

__device__ __forceinline__ void tma_load_2d_multicast(uint32_t to, const void *map, int x, int y,
                                                      uint32_t barrier, uint16_t ctas,
                                                      uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(ctas), "l"(policy)
               : "memory");
}

__device__ __forceinline__ void tma_load_3d(uint32_t to, const void *map, int x, int y, int z,
                                            uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
               : "memory");
}

// The box into L2, without completion mechanism.
__device__ __forceinline__ void tma_prefetch_2d(const void *map, int x, int y) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(x),
               "r"(y)
               : "memory");
}

// The box of `map` at (x, y), x fastest, from shared to global memory. Part of the thread's current
// bulk group.
__device__ __forceinline__ void tma_store_2d(const void *map, int x, int y, uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(x), "r"(y), "r"(from)
      : "memory");
}

__device__ __forceinline__ void tma_store_2d(const void *map, int x, int y, uint32_t from,
                                             uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint "
               "[%0, {%1, %2}], [%3], %4;" ::"l"(map),
               "r"(x), "r"(y), "r"(from), "l"(policy)
               : "memory");
}

// Groups are the thread's own: commit and wait in the same elected lane.
__device__ __forceinline__ void bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Wait until all but the PENDING newest groups have read their sources, which may then be reused.
template <int PENDING> __device__ __forceinline__ void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// ---- loads, stores, BF16 ------------------------------------------------------------------------

__device__ __forceinline__ uint32_t load_shared(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

__device__ __forceinline__ void store_shared(uint32_t address, const uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// Without allocation in L1: nothing reads C again.
__device__ __forceinline__ void store_global(void *address, const uint32_t (&words)[4]) {
  asm volatile("st.global.L1::no_allocate.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

__device__ __forceinline__ void store_global(void *address, const uint32_t (&words)[4],
                                             uint64_t policy) {
  asm volatile(
      "st.global.L1::no_allocate.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(address),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void load_read_only(uint32_t (&words)[4], const void *address) {
  asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(address));
}

// 32 bytes at once, sm_100 and later.
__device__ __forceinline__ void load_read_only(uint32_t (&words)[8], const void *address) {
  asm volatile("ld.global.nc.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]), "=r"(words[4]),
                 "=r"(words[5]), "=r"(words[6]), "=r"(words[7])
               : "l"(address));
}

// {low, high} as BF16, nearest even. PTX names the upper half first. Volatile, so that it stays
// after the wait for the asynchronous MMA or load that wrote its operands.
__device__ __forceinline__ uint32_t pack_bf16(uint32_t low, uint32_t high) {
  uint32_t pair;
  asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;"
               : "=r"(pair)
               : "f"(__uint_as_float(high)), "f"(__uint_as_float(low)));
  return pair;
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  return pack_bf16(__float_as_uint(low), __float_as_uint(high));
}

__device__ __forceinline__ uint32_t add_bf16(uint32_t a, uint32_t b) {
  uint32_t sum;
  asm volatile("add.rn.bf16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}

} // namespace kernelrig::ptx
