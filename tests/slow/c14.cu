// A polynomial of degree 512 with 16 recurring coefficients, at eight places a thread.
#include <cmath>

#include "program.cuh"

namespace {

constexpr int THREADS = 256, OWN = 8, PERIODS = 32, COEFFICIENTS = 16;
constexpr size_t PLACES = 1 << 23;

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *__restrict__ in,
                                                uint32_t *__restrict__ out) {
  const size_t first = static_cast<size_t>(blockIdx.x) * THREADS * OWN + threadIdx.x;
  float x[OWN], y[OWN], c[COEFFICIENTS];
#pragma unroll
  for (int k = 0; k < COEFFICIENTS; ++k)
    c[k] = __uint_as_float(in[PLACES + k]);
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    x[i] = __uint_as_float(in[first + i * THREADS]);
    y[i] = 0.f;
  }
#pragma unroll 1
  for (int period = 0; period < PERIODS; ++period)
#pragma unroll
    for (int k = 0; k < COEFFICIENTS; ++k)
#pragma unroll
      for (int i = 0; i < OWN; ++i)
        y[i] = fmaf(y[i], x[i], c[k]);
#pragma unroll
  for (int i = 0; i < OWN; ++i)
    out[first + i * THREADS] = __float_as_uint(y[i]);
}

struct Program {
  static constexpr size_t INPUTS = PLACES + COEFFICIENTS, OUTPUTS = PLACES;
  // From 1/4 to 3/4, both signs.
  __host__ __device__ static float value(size_t i) {
    const uint32_t word = mixed(static_cast<uint32_t>(i) + 17u);
    const float part = 0.25f + static_cast<float>(word & 0xFFFFu) * (1.f / 131072.f);
    return word >> 31 ? -part : part;
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const float v = value(i);
    uint32_t word;
    memcpy(&word, &v, sizeof word);
    return word;
  }
  static uint32_t expected(size_t i) {
    const float x = value(i);
    float y = 0.f;
    for (int k = 0; k < PERIODS * COEFFICIENTS; ++k)
      y = std::fmaf(y, x, value(PLACES + k % COEFFICIENTS));
    uint32_t word;
    std::memcpy(&word, &y, sizeof word);
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<PLACES / (THREADS * OWN), THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
