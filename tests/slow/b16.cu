// A long series at many points, eight to a thread; its coefficients repeat after 32.
#include "program.cuh"

constexpr int CTAS = 132 * 16, THREADS = 256, EACH = 8, TURNS = 16, PERIOD = 32;

__host__ __device__ constexpr float coefficient(int k) {
  return static_cast<float>(k * 37 % 64 - 32) / 64.0f;
}

__global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  const size_t first = static_cast<size_t>(blockIdx.x) * THREADS * EACH + threadIdx.x;
  float x[EACH], sum[EACH] = {};
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    x[i] = __uint_as_float(in[first + i * THREADS]);
#pragma unroll 1
  for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
    for (int k = 0; k < PERIOD; ++k)
#pragma unroll
      for (int i = 0; i < EACH; ++i)
        sum[i] = fmaf(sum[i], x[i], coefficient(k));
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    out[first + i * THREADS] = __float_as_uint(sum[i]);
}

struct Program {
  static constexpr size_t OUTPUTS = static_cast<size_t>(CTAS) * THREADS * EACH, INPUTS = OUTPUTS;
  __host__ __device__ static float value(size_t i) {
    return static_cast<float>(static_cast<int>(mixed(static_cast<uint32_t>(i)) % 2047) - 1023) / 1024;
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const float x = value(i);
    uint32_t word;
    memcpy(&word, &x, 4);
    return word;
  }
  static uint32_t expected(size_t i) {
    const float x = value(i);
    float sum = 0;
    for (int k = 0; k < TURNS * PERIOD; ++k)
      sum = fmaf(sum, x, coefficient(k % PERIOD));
    uint32_t word;
    memcpy(&word, &sum, 4);
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<<<CTAS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
