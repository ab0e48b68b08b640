// 44 sums per thread over 256 steps, all of them kept until the last step.
#include "program.cuh"

constexpr int SUMS = 44, STEPS = 256, THREADS = 256, CTAS = 132 * 24;

__host__ __device__ uint32_t added(uint32_t sum, uint32_t x, int i) {
  return sum * (2 * i + 3) + (x ^ sum >> 7);
}

template <int FORM>
__global__ void __launch_bounds__(THREADS, FORM == 0 ? 7 : 3)
    work(const uint32_t *in, uint32_t *out) {
  const uint32_t thread = blockIdx.x * THREADS + threadIdx.x;
  uint32_t sums[SUMS];
  uint32_t x = in[thread];
#pragma unroll
  for (int i = 0; i < SUMS; ++i)
    sums[i] = x + i;
#pragma unroll 1
  for (int s = 0; s < STEPS; ++s) {
    x = x * 0x7FEB352Du + s;
#pragma unroll
    for (int i = 0; i < SUMS; ++i)
      sums[i] = added(sums[i], x, i);
  }
  uint32_t total = 0;
#pragma unroll
  for (int i = 0; i < SUMS; ++i)
    total = total * 31 + sums[i];
  out[thread] = total;
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(CTAS) * THREADS, OUTPUTS = INPUTS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i); }
  static uint32_t expected(size_t at) {
    uint32_t x = input<0>(at), total = 0, sums[SUMS];
    for (int i = 0; i < SUMS; ++i)
      sums[i] = x + i;
    for (int s = 0; s < STEPS; ++s) {
      x = x * 0x7FEB352Du + s;
      for (int i = 0; i < SUMS; ++i)
        sums[i] = added(sums[i], x, i);
    }
    for (int i = 0; i < SUMS; ++i)
      total = total * 31 + sums[i];
    return total;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
