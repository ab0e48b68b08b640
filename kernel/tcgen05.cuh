// Inline PTX of the fifth-generation tensor core (sm_100a): tensor memory, the MMA of a CTA pair,
// and the loads that signal the even CTA's barrier. PTX ISA 9.1, section 9.7.16.
//
// Tensor memory is 128 lanes x 512 columns of 32 bits per CTA; an address is lane << 16 | column. A
// kernel uses one cta_group for all its instructions: 2 here, 1 in the namespace `single`.
#pragma once

#include <cstdint>

namespace kernelrig::tcgen05 {

// ---- descriptors --------------------------------------------------------------------------------

// kind::f8f6f4, E4M3 x E4M3 -> F32, both K-major (table 42): bit 4 D = F32, 17.. N / 8, 24.. M
// / 16.
__host__ __device__ constexpr uint32_t instruction_descriptor(uint32_t m, uint32_t n) {
  return 1u << 4 | (n / 8) << 17 | (m / 16) << 24;
}

// K-major, 128B swizzle, 8 rows of 128 bytes a swizzle atom (table 40): bit 32.. the 1024 bytes to
// the next 8 rows, 46 version 1, 61.. swizzle code 2. The pattern starts at the 1024-byte boundary,
// so the base offset stays 0. Each CTA of the pair reads its own shared memory at that address,
// which is in units of 16 bytes; it is the low word alone, so that steps are 32-bit additions.
constexpr int DESCRIPTOR_UNIT = 16;

__device__ __forceinline__ uint32_t descriptor_address(uint32_t shared_address) {
  return (shared_address & 0x3FFFF) / DESCRIPTOR_UNIT;
}

__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t descriptor_address) {
  constexpr uint64_t STRIDE = 1024 / DESCRIPTOR_UNIT, VERSION = 1, SWIZZLE_128B = 2;
  return SWIZZLE_128B << 61 | VERSION << 46 | STRIDE << 32 | descriptor_address;
}

// ---- tensor memory: whole warps, one in each CTA of the pair ------------------------------------

// Writes the address to shared memory, at the same offset in both CTAs.
template <int COLUMNS> __device__ __forceinline__ void alloc(uint32_t to_shared) {
  asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to_shared),
               "n"(COLUMNS)
               : "memory");
}

__device__ __forceinline__ void relinquish_alloc_permit() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}

template <int COLUMNS> __device__ __forceinline__ void dealloc(uint32_t address) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(COLUMNS)
               : "memory");
}

// ---- order --------------------------------------------------------------------------------------

// Before and after the barrier that orders tensor memory accesses of two threads; neither is an
// instruction in SASS.
__device__ __forceinline__ void fence_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

__device__ __forceinline__ void fence_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// The registers of every earlier load are valid, and their tensor memory may be released.
__device__ __forceinline__ void wait_load() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

// ---- loads of the pair --------------------------------------------------------------------------

// As any TMA load, but the barrier may be the even CTA's.
__device__ __forceinline__ void tma_load_2d(uint32_t to, const void *map, int x, int y,
                                            uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile"
               ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void tma_load_2d(uint32_t to, const void *map, int x, int y,
                                            uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(policy)
      : "memory");
}

// ---- the MMA: one thread of the even CTA, for both ----------------------------------------------

// D[256, N] (+)= A[256, 32] x B[N, 32]^T; D is overwritten where `accumulate` is false.
__device__ __forceinline__ void mma_fp8(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                                        bool accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %4, 0;\n"
               "tcgen05.mma.cta_group::2.kind::f8f6f4 [%0], %1, %2, %3, accumulate;\n"
               "}" ::"r"(d),
               "l"(a), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(accumulate))
               : "memory");
}

// One arrival on the barrier at this offset in each CTA whose rank is in the mask, once all earlier
// MMAs of this thread are complete, including their reads of shared memory.
__device__ __forceinline__ void commit_multicast(uint32_t barrier, uint16_t cta_mask) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
               ".multicast::cluster.b64 [%0], %1;" ::"r"(barrier),
               "h"(cta_mask)
               : "memory");
}

// ---- reading accumulators -----------------------------------------------------------------------

// Lane i of the warp gets row (lane of tensor memory) i of its group, register j column j. The
// registers are valid after wait_load() only.
__device__ __forceinline__ void load_columns(uint32_t (&r)[16], uint32_t address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
                 "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]),
                 "=r"(r[13]), "=r"(r[14]), "=r"(r[15])
               : "r"(address));
}

__device__ __forceinline__ void load_columns(uint32_t (&r)[32], uint32_t address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
               "%30, %31}, [%32];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
                 "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]),
                 "=r"(r[13]), "=r"(r[14]), "=r"(r[15]), "=r"(r[16]), "=r"(r[17]), "=r"(r[18]),
                 "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]),
                 "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]), "=r"(r[30]),
                 "=r"(r[31])
               : "r"(address));
}

__device__ __forceinline__ void load_columns(uint32_t (&r)[64], uint32_t address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x64.b32 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
               "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
               "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "
               "%58, %59, %60, %61, %62, %63}, [%64];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
                 "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]),
                 "=r"(r[13]), "=r"(r[14]), "=r"(r[15]), "=r"(r[16]), "=r"(r[17]), "=r"(r[18]),
                 "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]),
                 "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]), "=r"(r[30]),
                 "=r"(r[31]), "=r"(r[32]), "=r"(r[33]), "=r"(r[34]), "=r"(r[35]), "=r"(r[36]),
                 "=r"(r[37]), "=r"(r[38]), "=r"(r[39]), "=r"(r[40]), "=r"(r[41]), "=r"(r[42]),
                 "=r"(r[43]), "=r"(r[44]), "=r"(r[45]), "=r"(r[46]), "=r"(r[47]), "=r"(r[48]),
                 "=r"(r[49]), "=r"(r[50]), "=r"(r[51]), "=r"(r[52]), "=r"(r[53]), "=r"(r[54]),
                 "=r"(r[55]), "=r"(r[56]), "=r"(r[57]), "=r"(r[58]), "=r"(r[59]), "=r"(r[60]),
                 "=r"(r[61]), "=r"(r[62]), "=r"(r[63])
               : "r"(address));
}

// ---- cta_group::1: one CTA by itself ------------------------------------------------------------

namespace single {

// kind::f16, BF16 x BF16 -> F32, both K-major (table 42): bit 4 D = F32, 7 and 10 BF16, 17.. N / 8,
// 24.. M / 16.
__host__ __device__ constexpr uint32_t instruction_descriptor_bf16(uint32_t m, uint32_t n) {
  return 1u << 4 | 1u << 7 | 1u << 10 | (n / 8) << 17 | (m / 16) << 24;
}

template <int COLUMNS> __device__ __forceinline__ void alloc(uint32_t to_shared) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to_shared),
               "n"(COLUMNS)
               : "memory");
}

__device__ __forceinline__ void relinquish_alloc_permit() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

template <int COLUMNS> __device__ __forceinline__ void dealloc(uint32_t address) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(COLUMNS)
               : "memory");
}

// D[128, N] (+)= A[128, 16] x B[N, 16]^T; D is overwritten where `accumulate` is false.
__device__ __forceinline__ void mma_bf16(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                                         bool accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %4, 0;\n"
               "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, accumulate;\n"
               "}" ::"r"(d),
               "l"(a), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(accumulate))
               : "memory");
}

// One arrival once all earlier MMAs of this thread are complete, including their reads of shared
// memory.
__device__ __forceinline__ void commit(uint32_t barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   barrier)
               : "memory");
}

} // namespace single

} // namespace kernelrig::tcgen05
