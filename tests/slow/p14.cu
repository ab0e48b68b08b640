// Sums of 1 GB: out has a word per warp.
#include "program.cuh"

constexpr int THREADS = 512, BLOCKS = 8, CTAS = 16384, WARPS = THREADS / 32;

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  const size_t first = static_cast<size_t>(blockIdx.x) * BLOCKS * THREADS + threadIdx.x;
  uint4 blocks[BLOCKS];
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i)
    blocks[i] = __ldcs(reinterpret_cast<const uint4 *>(in) + first + i * THREADS);
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i)
    sum += blocks[i].x + blocks[i].y + blocks[i].z + blocks[i].w;
  sum = __reduce_add_sync(0xFFFFFFFF, sum);
  if (threadIdx.x % 32 == 0)
    out[blockIdx.x * WARPS + threadIdx.x / 32] = sum;
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(CTAS) * BLOCKS * THREADS * 4;
  static constexpr size_t OUTPUTS = static_cast<size_t>(CTAS) * WARPS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i); }
  static uint32_t expected(size_t at) {
    const size_t cta = at / WARPS, warp = at % WARPS;
    uint32_t sum = 0;
    for (size_t i = 0; i < BLOCKS; ++i) {
      const size_t first = ((cta * BLOCKS + i) * THREADS + warp * 32) * 4;
      for (size_t word = first; word < first + 128; ++word)
        sum += input<0>(word);
    }
    return sum;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
