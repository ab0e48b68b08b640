// Quantises FP32 to int8 with one scale, four values a word of output.
#include "program.cuh"

namespace {

constexpr int THREADS = 256, OWN = 4;
constexpr size_t OUT_WORDS = 1 << 24;

__device__ __forceinline__ int rounded(float x) {
  return min(max(__float2int_rn(x * 0.25f), -127), 127);
}

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *__restrict__ in,
                                                uint32_t *__restrict__ out) {
  const size_t first = static_cast<size_t>(blockIdx.x) * THREADS * OWN + threadIdx.x;
  float4 values[OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i)
    values[i] = reinterpret_cast<const float4 *>(in)[first + i * THREADS];
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    const uint32_t a = rounded(values[i].x), b = rounded(values[i].y);
    const uint32_t c = rounded(values[i].z), d = rounded(values[i].w);
    out[first + i * THREADS] =
        __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
  }
}

struct Program {
  static constexpr size_t INPUTS = OUT_WORDS * 4, OUTPUTS = OUT_WORDS;
  // In eighths.
  __host__ __device__ static int eighths(size_t i) {
    return static_cast<int>(mixed(static_cast<uint32_t>(i) + 7u) & 0x3FFFu) - 0x2000;
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const float value = static_cast<float>(eighths(i)) * 0.125f;
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
  }
  static uint32_t expected(size_t i) {
    uint32_t word = 0;
    for (int k = 0; k < 4; ++k) {
      const int n = eighths(i * 4 + k), low = n >> 5, rest = n & 31;
      const int q = low + (rest > 16 || (rest == 16 && (low & 1)) ? 1 : 0);
      word |= (static_cast<uint32_t>(std::min(std::max(q, -127), 127)) & 255u) << 8 * k;
    }
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<OUT_WORDS / (THREADS * OWN), THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
