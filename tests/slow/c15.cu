// Cyclic correlation of blocks of 16 columns: C = sum over shifts s of A (columns moved by 16 s) B^T,
// BF16 in, FP32 out, by wgmma; A of 128 rows a CTA and B of 256 rows lie in shared memory.
#include "program.cuh"

namespace {

constexpr int CTAS = 132, M = 128, N = 256, K = 256, SHIFTS = 64, THREADS = 256;
constexpr int A_BYTES = M * K * 2, B_BYTES = N * K * 2, SHARED_BYTES = A_BYTES + B_BYTES + 1024;
constexpr size_t A_WORDS = 1ull * CTAS * M * K / 2, B_WORDS = 1ull * N * K / 2;

// Rows of 128 bytes, swizzled over 128 bytes, groups of eight rows 1,024 bytes apart.
__device__ __forceinline__ uint64_t descriptor(uint32_t address) {
  return (address & 0x3FFFFu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ __forceinline__ void wgmma(float (&c)[128], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, "
               "%8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, "
               "%24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, "
               "%40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, "
               "%56, %57, %58, %59, %60, %61, %62, %63, "
               "%64, %65, %66, %67, %68, %69, %70, %71, "
               "%72, %73, %74, %75, %76, %77, %78, %79, "
               "%80, %81, %82, %83, %84, %85, %86, %87, "
               "%88, %89, %90, %91, %92, %93, %94, %95, "
               "%96, %97, %98, %99, %100, %101, %102, %103, "
               "%104, %105, %106, %107, %108, %109, %110, %111, "
               "%112, %113, %114, %115, %116, %117, %118, %119, "
               "%120, %121, %122, %123, %124, %125, %126, %127}, "
               "%128, %129, 1, 1, 1, 0, 0;"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]),
                 "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                 "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                 "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                 "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]),
                 "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                 "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
                 "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
                 "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
                 "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
                 "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]),
                 "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
                 "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]),
                 "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
                 "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]),
                 "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]),
                 "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]),
                 "+f"(c[68]), "+f"(c[69]), "+f"(c[70]), "+f"(c[71]),
                 "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]),
                 "+f"(c[76]), "+f"(c[77]), "+f"(c[78]), "+f"(c[79]),
                 "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]),
                 "+f"(c[84]), "+f"(c[85]), "+f"(c[86]), "+f"(c[87]),
                 "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]),
                 "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]),
                 "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]),
                 "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]),
                 "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]),
                 "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]),
                 "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]),
                 "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]),
                 "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]),
                 "+f"(c[124]), "+f"(c[125]), "+f"(c[126]), "+f"(c[127])
               : "l"(a), "l"(b)
               : "memory");
}

// [K / 64][rows][64 halves]
__device__ __forceinline__ void fill(unsigned char *to, const uint4 *from, int rows) {
  for (int i = threadIdx.x; i < rows * (K / 8); i += THREADS) {
    const int row = i / (K / 8), chunk = i % (K / 8);
    *reinterpret_cast<uint4 *>(to + (chunk / 8 * rows + row) * 128 +
                               ((chunk % 8 ^ row % 8) << 4)) = from[i];
  }
}

template <int FORM>
__global__ void __launch_bounds__(THREADS, 1) work(const uint32_t *__restrict__ in,
                                                   uint32_t *__restrict__ out) {
  extern __shared__ unsigned char raw[];
  const uint32_t start = static_cast<uint32_t>(__cvta_generic_to_shared(raw));
  unsigned char *const shared = raw + ((1024 - start % 1024) % 1024);
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  fill(shared, reinterpret_cast<const uint4 *>(in) + 1ull * blockIdx.x * M * K / 8, M);
  fill(shared + A_BYTES, reinterpret_cast<const uint4 *>(in + A_WORDS), N);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  float c[128] = {};
  const uint64_t a = descriptor(base + group * 64 * 128), b = descriptor(base + A_BYTES);
#pragma unroll 1
  for (int shift = 0; shift < SHIFTS; ++shift) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < K / 16; ++k) {
      const int from = (k + shift) % (K / 16);
      wgmma(c, a + from / 4 * (M * 128 / 16) + from % 4 * 2, b + k / 4 * (N * 128 / 16) + k % 4 * 2);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  const size_t row = 1ull * blockIdx.x * M + group * 64 + warp * 16 + lane / 4;
  float *const to = reinterpret_cast<float *>(out) + row * N + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < N / 8; ++j) {
    *reinterpret_cast<float2 *>(to + j * 8) = make_float2(c[4 * j], c[4 * j + 1]);
    *reinterpret_cast<float2 *>(to + 8 * N + j * 8) = make_float2(c[4 * j + 2], c[4 * j + 3]);
  }
}

struct Program {
  static constexpr size_t INPUTS = A_WORDS + B_WORDS, OUTPUTS = 1ull * CTAS * M * N;
  // Half i of the inputs: -1, 0, 1 or 2.
  __host__ __device__ static int value(size_t i) {
    return static_cast<int>(mixed(static_cast<uint32_t>(i) + 41u) >> 9 & 3u) - 1;
  }
  __host__ __device__ static uint32_t bf16(int v) {
    return v == -1 ? 0xBF80u : v == 0 ? 0u : v == 1 ? 0x3F80u : 0x4000u;
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return bf16(value(2 * i)) | bf16(value(2 * i + 1)) << 16;
  }
  static uint32_t expected(size_t i) {
    const size_t row = i / N, column = i % N;
    int sum = 0;
    for (size_t shift = 0; shift < SHIFTS; ++shift)
      for (size_t k = 0; k < K; ++k)
        sum += value(row * K + (k + 16 * shift) % K) * value(A_WORDS * 2 + column * K + k);
    const float f = static_cast<float>(sum);
    uint32_t word;
    std::memcpy(&word, &f, sizeof word);
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, CTAS, THREADS, SHARED_BYTES, in, out);
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
