// Each thread folds eight blocks of 16 bytes of 512 MB into a word, with a table of 1 KB.
#include "program.cuh"

constexpr int THREADS = 256, BLOCKS = 8, TABLE = 256, CTAS = 16384;
constexpr size_t TABLE_AT = static_cast<size_t>(CTAS) * BLOCKS * THREADS * 4;

__host__ __device__ constexpr int smem_bytes(int form) { return form == 0 ? 112 << 10 : TABLE * 4; }

__host__ __device__ uint32_t fold(uint32_t x, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return (x ^ a) * 0x7FEB352Du + (b ^ c) * 0x846CA68Bu + d;
}

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  extern __shared__ uint32_t table[];
  table[threadIdx.x] = in[TABLE_AT + threadIdx.x];
  __syncthreads();
  const uint4 *const blocks =
      reinterpret_cast<const uint4 *>(in) + static_cast<size_t>(blockIdx.x) * BLOCKS * THREADS;
  uint32_t x = 0;
#pragma unroll 1
  for (int i = 0; i < BLOCKS; ++i) {
    const uint4 block = blocks[i * THREADS + threadIdx.x];
    x = fold(x + table[(threadIdx.x + i) % TABLE], block.x, block.y, block.z, block.w);
  }
  out[blockIdx.x * THREADS + threadIdx.x] = x;
}

struct Program {
  static constexpr size_t INPUTS = TABLE_AT + TABLE, OUTPUTS = static_cast<size_t>(CTAS) * THREADS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i); }
  static uint32_t expected(size_t i) {
    const size_t cta = i / THREADS, thread = i % THREADS;
    uint32_t x = 0;
    for (size_t block = 0; block < BLOCKS; ++block) {
      const size_t at = ((cta * BLOCKS + block) * THREADS + thread) * 4;
      x = fold(x + input<0>(TABLE_AT + (thread + block) % TABLE), input<0>(at), input<0>(at + 1),
               input<0>(at + 2), input<0>(at + 3));
    }
    return x;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, CTAS, THREADS, smem_bytes(FORM), in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
