// Long series with periodic coefficients, four arguments a thread.
#include "program.cuh"

#include <cmath>

constexpr int PERIOD = 32, PERIODS = 256, CTAS = 132 * 8, THREADS = 256;
constexpr size_t ARGUMENTS = static_cast<size_t>(CTAS) * THREADS * 4;

__host__ __device__ constexpr float coefficient(int k) {
  return static_cast<float>((k * k * 5 + k * 3) % 61 - 30) / 64.0f;
}

template <int FORM>
__global__ __launch_bounds__(THREADS, 8) void work(const uint32_t *in, uint32_t *out) {
  const size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
  const float4 x = reinterpret_cast<const float4 *>(in)[i];
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
  for (int n = 0; n < PERIODS; ++n) {
#pragma unroll
    for (int k = 0; k < PERIOD; ++k) {
      sum.x = fmaf(sum.x, x.x, coefficient(k));
      sum.y = fmaf(sum.y, x.y, coefficient(k));
      sum.z = fmaf(sum.z, x.z, coefficient(k));
      sum.w = fmaf(sum.w, x.w, coefficient(k));
    }
  }
  reinterpret_cast<float4 *>(out)[i] = sum;
}

struct Program {
  static constexpr size_t INPUTS = ARGUMENTS, OUTPUTS = ARGUMENTS;

  __host__ __device__ static float argument(size_t i) {
    return (static_cast<float>(mixed(static_cast<uint32_t>(i) + 127) >> 16) + 1.0f) / 65600.0f;
  }

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    // A quotient is rounded alike on both sides.
    const float value = argument(i);
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
  }

  static uint32_t expected(size_t i) {
    const float x = argument(i);
    float sum = 0.0f;
    for (int n = 0; n < PERIODS; ++n)
      for (int k = 0; k < PERIOD; ++k)
        sum = std::fmaf(sum, x, coefficient(k));
    uint32_t word;
    std::memcpy(&word, &sum, sizeof word);
    return word;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
