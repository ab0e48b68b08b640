// A recursive filter along time: every thread carries the state of two channels through all steps.
#include "program.cuh"

constexpr int STEPS = 192, CTAS = 132 * 8, THREADS = 256;
constexpr size_t CHANNELS = static_cast<size_t>(CTAS) * THREADS * 2;

__host__ __device__ constexpr uint32_t filtered(uint32_t state, uint32_t sample) {
  return (state >> 3) * 7 + (sample ^ state >> 9);
}

template <int FORM>
__global__ __launch_bounds__(THREADS) void work(const uint32_t *in, uint32_t *out) {
  const size_t own = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
  const uint2 *from = reinterpret_cast<const uint2 *>(in) + own;
  uint2 *to = reinterpret_cast<uint2 *>(out) + own;
  uint2 state = make_uint2(1, 1);
#pragma unroll 1
  for (int step = 0; step < STEPS; ++step) {
    const uint2 sample = *from;
    state.x = filtered(state.x, sample.x);
    state.y = filtered(state.y, sample.y);
    *to = state;
    if constexpr (FORM == 0)
      __threadfence();
    from += CHANNELS / 2;
    to += CHANNELS / 2;
  }
}

struct Program {
  static constexpr size_t INPUTS = CHANNELS * STEPS, OUTPUTS = INPUTS;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 41);
  }

  static uint32_t expected(size_t i) {
    uint32_t state = 1;
    for (size_t k = i % CHANNELS; k <= i; k += CHANNELS)
      state = filtered(state, input<0>(k));
    return state;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
