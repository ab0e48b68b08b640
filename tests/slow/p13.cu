// out = in, 512 MB.
#include "program.cuh"

constexpr int THREADS = 512, BLOCKS = 4, CTAS = 16384;

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  const size_t first = static_cast<size_t>(blockIdx.x) * BLOCKS * THREADS + threadIdx.x;
  uint4 blocks[BLOCKS];
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i)
    blocks[i] = __ldcs(reinterpret_cast<const uint4 *>(in) + first + i * THREADS);
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i)
    __stcs(reinterpret_cast<uint4 *>(out) + first + i * THREADS, blocks[i]);
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(CTAS) * BLOCKS * THREADS * 4;
  static constexpr size_t OUTPUTS = INPUTS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i); }
  static uint32_t expected(size_t i) { return input<0>(i); }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
