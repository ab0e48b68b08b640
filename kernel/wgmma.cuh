// Inline PTX of wgmma (sm_90a), the MMA of a warpgroup: operands in shared memory, accumulators in
// the registers of its four warps. PTX ISA 9.1, section 9.7.15.
#pragma once

#include <cstdint>

namespace kernelrig::wgmma {

// K-major, 128B swizzle: bit 32.. the 1024 bytes to the next 8 rows, 62.. swizzle code 1 (other
// field and codes than on sm_100). The pattern starts at a 1024-byte boundary: no base offset.
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t shared_address) {
  constexpr uint64_t STRIDE = 1024 / 16, SWIZZLE_128B = 1;
  return SWIZZLE_128B << 62 | STRIDE << 32 | (shared_address & 0x3FFFF) >> 4;
}

// Before the first MMA, and after other instructions accessed its registers.
__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// All but the PENDING newest groups of this warp are complete: their registers may be read, and the
// shared memory that they read may be written.
template <int PENDING> __device__ __forceinline__ void wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Accumulators as an instruction lists them, and as asm takes them: N of them are ranges 0 to N.
// clang-format off
#define KERNELRIG_NAMES_0_31 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
  "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define KERNELRIG_NAMES_32_95 \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define KERNELRIG_NAMES_96_127 \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, " \
  "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, " \
  "%124, %125, %126, %127"
#define KERNELRIG_ACCUMULATORS_0_31 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), \
  "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), \
  "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), \
  "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
  "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define KERNELRIG_ACCUMULATORS_32_95 \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), \
  "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), \
  "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), \
  "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), \
  "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), \
  "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), \
  "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), \
  "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
  "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), \
  "+f"(d[95])
#define KERNELRIG_ACCUMULATORS_96_127 \
  "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), \
  "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), \
  "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), \
  "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
  "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), \
  "+f"(d[126]), "+f"(d[127])
// clang-format on

// D[64, 256] (+)= A[64, 32] x B[256, 32]^T in E4M3; D is overwritten where `accumulate` is false.
// Thread t holds in d[4 j + 2 h + e] row 16 (t / 32) + t % 32 / 4 + 8 h, column 8 j + 2 (t % 4) +
// e.
__device__ __forceinline__ void mma_k32_fp8(float (&d)[128], uint64_t a, uint64_t b,
                                            bool accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %130, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 "
               "{" KERNELRIG_NAMES_0_31 ", " KERNELRIG_NAMES_32_95 ", " KERNELRIG_NAMES_96_127 "}, "
               "%128, %129, accumulate, 1, 1;\n"
               "}"
               : KERNELRIG_ACCUMULATORS_0_31, KERNELRIG_ACCUMULATORS_32_95,
                 KERNELRIG_ACCUMULATORS_96_127
               : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
}

// The same with 192 columns.
__device__ __forceinline__ void mma_k32_fp8(float (&d)[96], uint64_t a, uint64_t b,
                                            bool accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %98, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3 "
               "{" KERNELRIG_NAMES_0_31 ", " KERNELRIG_NAMES_32_95 "}, "
               "%96, %97, accumulate, 1, 1;\n"
               "}"
               : KERNELRIG_ACCUMULATORS_0_31, KERNELRIG_ACCUMULATORS_32_95
               : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
}

// Registers per thread of a warpgroup, 24 to 240 in steps of 8; take_registers waits until they are
// free.
template <int REGISTERS> __device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS> __device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// D[64, 64] (+)= A[64, 16] x B[64, 16]^T in BF16; D is overwritten where `accumulate` is false.
// Thread t holds in d[4 j + 2 h + e] row 16 (t / 32) + t % 32 / 4 + 8 h, column 8 j + 2 (t % 4) +
// e.
__device__ __forceinline__ void mma_m64n64k16_bf16(float (&d)[32], uint64_t a, uint64_t b,
                                                   bool accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %34, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
               "{" KERNELRIG_NAMES_0_31 "}, "
               "%32, %33, accumulate, 1, 1, 0, 0;\n"
               "}"
               : KERNELRIG_ACCUMULATORS_0_31
               : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
}

#undef KERNELRIG_NAMES_0_31
#undef KERNELRIG_NAMES_32_95
#undef KERNELRIG_NAMES_96_127
#undef KERNELRIG_ACCUMULATORS_0_31
#undef KERNELRIG_ACCUMULATORS_32_95
#undef KERNELRIG_ACCUMULATORS_96_127

} // namespace kernelrig::wgmma
