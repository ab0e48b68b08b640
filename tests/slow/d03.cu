// Walsh-Hadamard transforms of 4,096 words: three passes of radix 16, values exchanged between.
#include "program.cuh"

constexpr int POINTS = 4096, THREADS = 256, TILES = 32768;

__device__ unsigned place(unsigned i, int s) { return i + i / 32 * s; }

__device__ void pass(uint32_t (&v)[16]) {
#pragma unroll
  for (int half = 1; half < 16; half *= 2)
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if ((i & half) == 0) {
        const uint32_t a = v[i], b = v[i + half];
        v[i] = a + b;
        v[i + half] = a - b;
      }
}

template <int FORM>
__global__ __launch_bounds__(THREADS) void work(const uint32_t *in, uint32_t *out, int s) {
  __shared__ uint32_t values[POINTS + POINTS / 32];
  const unsigned t = threadIdx.x;
  const size_t base = static_cast<size_t>(blockIdx.x) * POINTS;
  uint32_t v[16];
#pragma unroll
  for (int j = 0; j < 16; ++j)
    v[j] = in[base + j * 256 + t];
  pass(v);
#pragma unroll
  for (int j = 0; j < 16; ++j)
    values[place(j * 256 + t, s)] = v[j];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 16; ++j)
    v[j] = values[place(t / 16 * 256 + j * 16 + t % 16, s)];
  pass(v);
#pragma unroll
  for (int j = 0; j < 16; ++j)
    values[place(t / 16 * 256 + j * 16 + t % 16, s)] = v[j];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 16; ++j)
    v[j] = values[place(t * 16 + j, s)];
  pass(v);
#pragma unroll
  for (int j = 0; j < 16; ++j)
    values[place(t * 16 + j, s)] = v[j];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 16; ++j)
    out[base + j * 256 + t] = values[place(j * 256 + t, s)];
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(TILES) * POINTS, OUTPUTS = INPUTS;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 23);
  }

  static uint32_t expected(size_t i) {
    uint32_t sum = 0;
    for (int n = 0; n < POINTS; ++n) {
      const uint32_t value = input<0>(i / POINTS * POINTS + n);
      sum += __builtin_parity(static_cast<unsigned>(n & i)) ? 0 - value : value;
    }
    return sum;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<TILES, THREADS>>>(in, out, FORM);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
