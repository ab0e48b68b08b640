// out[i] = mixed(in[i]), 66 Mi words in blocks of 16 bytes, 128 blocks per thread.
#include "program.cuh"

constexpr int THREADS = 256, BLOCKS = 128, CTAS = 132 * 4;

template <int FORM>
__global__ void __launch_bounds__(THREADS)
    work(const uint32_t *__restrict__ in, uint32_t *__restrict__ out) {
  const size_t first = static_cast<size_t>(blockIdx.x) * BLOCKS * THREADS + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < BLOCKS; ++i) {
    const uint4 block = reinterpret_cast<const uint4 *>(in)[first + i * THREADS];
    reinterpret_cast<uint4 *>(out)[first + i * THREADS] =
        make_uint4(mixed(block.x), mixed(block.y), mixed(block.z), mixed(block.w));
    if (FORM == 0)
      __threadfence();
  }
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(CTAS) * BLOCKS * THREADS * 4;
  static constexpr size_t OUTPUTS = INPUTS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i); }
  static uint32_t expected(size_t i) { return mixed(input<0>(i)); }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
