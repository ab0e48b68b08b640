// Product of two bf16 matrices, C[m][n] in bf16. Both lie in tiles of 64 of k, as the tensor cores
// read them.
#include "program.cuh"

#ifndef DEPTH
#define DEPTH 4096
#endif
constexpr int M = 4096, N = 4096, K = DEPTH, TILE_M = 128, TILE_N = 256, TILE_K = 64;
constexpr int A_WORDS = TILE_M * TILE_K / 2, B_WORDS = TILE_N * TILE_K / 2, SLOTS = 4;
constexpr int SLOT_BYTES = (A_WORDS + B_WORDS) * 4, SMEM = SLOTS * SLOT_BYTES + 1024 + 2 * SLOTS * 8;
constexpr int STEPS = K / TILE_K, THREADS = 384;

__device__ __forceinline__ uint32_t at(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void wait(uint32_t bar, uint32_t parity) {
  asm volatile("{\n.reg .pred p;\nagain:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@!p bra again;\n}" ::"r"(bar), "r"(parity) : "memory");
}

__device__ __forceinline__ void load(uint32_t to, const uint32_t *from, uint32_t bytes, uint32_t bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1], %2, [%3];" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes),
               "r"(bar) : "memory");
}

__device__ __forceinline__ uint64_t described(uint32_t address) {
  return (address >> 4 & 0x3FFF) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
               "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
               "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
               "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
               "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
               "%128, %129, p, 1, 1, 0, 0;\n}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
                 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
                 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
                 "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
                 "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
                 "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
                 "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
                 "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
                 "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
                 "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
                 "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
               : "l"(a), "l"(b), "r"(add));
}

__device__ __forceinline__ uint32_t packed(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// Of the 4 x 4 words of four lanes, each gets a column.
__device__ __forceinline__ void turned(uint32_t (&v)[4], int q) {
#pragma unroll
  for (int s = 1; s < 4; s *= 2)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (!(i & s)) {
        const uint32_t got = __shfl_xor_sync(~0u, q & s ? v[i] : v[i | s], s);
        if (q & s)
          v[i] = got;
        else
          v[i | s] = got;
      }
}

__global__ void __launch_bounds__(THREADS, 1) work(const uint32_t *in, uint32_t *out) {
  extern __shared__ uint8_t raw[];
  const uint32_t base = (at(raw) + 1023) / 1024 * 1024;
  const uint32_t full = base + SLOTS * SLOT_BYTES, empty = full + SLOTS * 8;
  const int t = threadIdx.x, group = t / 128;
  const int set = blockIdx.x / 256, rest = blockIdx.x % 256;
  const int tile_m = set * 16 + rest % 16, tile_n = rest / 16;
  if (t == 0) {
    for (int s = 0; s < SLOTS; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + s * 8) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(empty + s * 8) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (t == 256) {
      const uint32_t *a = in + static_cast<size_t>(tile_m) * STEPS * A_WORDS;
      const uint32_t *b = in + static_cast<size_t>(M) * K / 2 + static_cast<size_t>(tile_n) * STEPS * B_WORDS;
#pragma unroll 1
      for (int k = 0; k < STEPS; ++k) {
        const int s = k % SLOTS;
        if (k >= SLOTS)
          wait(empty + s * 8, (k / SLOTS + 1) & 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full + s * 8),
                     "n"(SLOT_BYTES) : "memory");
        load(base + s * SLOT_BYTES, a + static_cast<size_t>(k) * A_WORDS, A_WORDS * 4, full + s * 8);
        load(base + s * SLOT_BYTES + A_WORDS * 4, b + static_cast<size_t>(k) * B_WORDS, B_WORDS * 4,
             full + s * 8);
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  float d[128];
#pragma unroll
  for (int i = 0; i < 128; ++i)
    d[i] = 0;
#pragma unroll 1
  for (int k = 0; k < STEPS; ++k) {
    const int s = k % SLOTS;
    wait(full + s * 8, k / SLOTS & 1);
    const uint64_t a = described(base + s * SLOT_BYTES + group * (A_WORDS * 2));
    const uint64_t b = described(base + s * SLOT_BYTES + A_WORDS * 4);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < TILE_K / 16; ++i)
      multiply(d, a + i * 2, b + i * 2, 1);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (k > 0 && t % 128 == 0)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + (k - 1) % SLOTS * 8)
                   : "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < 128; ++i)
    asm volatile("" : "+f"(d[i])::"memory");
  const int lane = t % 32, q = lane % 4;
  const int m = tile_m * TILE_M + group * 64 + t % 128 / 32 * 16 + lane / 4;
  uint4 *to = reinterpret_cast<uint4 *>(out) + (static_cast<size_t>(m) * N + tile_n * TILE_N) / 8 + q;
#pragma unroll
  for (int j = 0; j < 32; j += 4)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        v[i] = packed(d[(j + i) * 4 + half * 2], d[(j + i) * 4 + half * 2 + 1]);
      turned(v, q);
      to[half * N + j] = make_uint4(v[0], v[1], v[2], v[3]);
    }
}

struct Program {
  static constexpr size_t OF_A = static_cast<size_t>(M) * K / 2;
  static constexpr size_t INPUTS = OF_A + static_cast<size_t>(N) * K / 2;
  static constexpr size_t OUTPUTS = static_cast<size_t>(M) * N / 2;
  __host__ __device__ static uint32_t bits(float x) {
    uint32_t word;
    memcpy(&word, &x, 4);
    return word;
  }
  __host__ __device__ static float value(size_t i, int half) {
    return static_cast<float>(
        static_cast<int>((mixed(static_cast<uint32_t>(i)) >> 16 * half & 0xFFFF) % 5) - 2);
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return bits(value(i, 0)) >> 16 | (bits(value(i, 1)) & 0xFFFF0000u);
  }
  static float element(size_t first, int tile, size_t row, size_t k) {
    const size_t r = row % tile, chunk = k % TILE_K / 8 ^ r % 8;
    return value(first + (row / tile * STEPS + k / TILE_K) * (tile * TILE_K / 2) + r * 32 + chunk * 4 +
                     k % 8 / 2, k % 2);
  }
  static uint32_t expected(size_t i) {
    const size_t m = i / (N / 2);
    uint32_t word = 0;
    for (int half = 0; half < 2; ++half) {
      const size_t n = i % (N / 2) * 2 + half;
      float sum = 0;
      for (size_t k = 0; k < K; ++k)
        sum += element(0, TILE_M, m, k) * element(OF_A, TILE_N, n, k);
      const uint32_t u = bits(sum == 0 ? 0.0f : sum);
      word |= (u + 0x7FFF + (u >> 16 & 1)) >> 16 << 16 * half;
    }
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work, (M / TILE_M) * (N / TILE_N), THREADS, SMEM, in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
