// Sums of squares of the parts of a long vector of signed bytes, one part to a CTA.
#include "program.cuh"

constexpr int PARTS = 4752, THREADS = 256, LOADS = 32;
constexpr size_t PART_WORDS = size_t(THREADS) * LOADS * 4;

__global__ void __launch_bounds__(THREADS, 6) work(const uint32_t *in, uint32_t *out) {
  __shared__ int sums[THREADS / 32];
  const uint4 *from = reinterpret_cast<const uint4 *>(in + blockIdx.x * PART_WORDS) + threadIdx.x;
  int sum = 0;
#pragma unroll 8
  for (int i = 0; i < LOADS; ++i) {
    const uint4 v = __ldcs(from + i * THREADS);
    sum = __dp4a(static_cast<int>(v.x), static_cast<int>(v.x), sum);
    sum = __dp4a(static_cast<int>(v.y), static_cast<int>(v.y), sum);
    sum = __dp4a(static_cast<int>(v.z), static_cast<int>(v.z), sum);
    sum = __dp4a(static_cast<int>(v.w), static_cast<int>(v.w), sum);
  }
  sum = __reduce_add_sync(~0u, sum);
  if (threadIdx.x % 32 == 0)
    sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < THREADS / 32; ++i)
      sum += sums[i];
    out[blockIdx.x] = static_cast<uint32_t>(sum);
  }
}

struct Program {
  static constexpr size_t INPUTS = PARTS * PART_WORDS, OUTPUTS = PARTS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i));
  }
  static uint32_t expected(size_t i) {
    uint32_t sum = 0;
    for (size_t k = i * PART_WORDS; k < (i + 1) * PART_WORDS; ++k) {
      const uint32_t x = input<0>(k);
      for (int b = 0; b < 32; b += 8)
        sum += static_cast<uint32_t>(static_cast<int8_t>(x >> b) * static_cast<int8_t>(x >> b));
    }
    return sum;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<<<PARTS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
