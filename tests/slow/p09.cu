// Products of blocks of 64 KB, summed: 128 groups have 16 blocks of A and 16 of B each, and every
// block of A meets every block of B of its group. A CTA has a pair; out has a word per warp.
#include "program.cuh"

constexpr int GROUPS = 128, SIDE = 16, PAIRS = SIDE * SIDE, THREADS = 256, WARPS = THREADS / 32;
constexpr int BLOCK = 4096; // of 16 bytes
constexpr size_t BLOCKS = static_cast<size_t>(GROUPS) * SIDE;

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  const int group = FORM == 0 ? blockIdx.x % GROUPS : blockIdx.x / PAIRS;
  const int pair = FORM == 0 ? blockIdx.x / GROUPS : blockIdx.x % PAIRS;
  const int a_block = pair % SIDE, b_block = (pair / SIDE + pair) % SIDE;
  const uint4 *const words = reinterpret_cast<const uint4 *>(in);
  const uint4 *const a = words + (static_cast<size_t>(group) * SIDE + a_block) * BLOCK;
  const uint4 *const b = words + (BLOCKS + static_cast<size_t>(group) * SIDE + b_block) * BLOCK;
  uint32_t sum = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < BLOCK; i += THREADS) {
    const uint4 x = a[i], y = b[i];
    sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
  }
  sum = __reduce_add_sync(0xFFFFFFFF, sum);
  if (threadIdx.x % 32 == 0)
    out[((group * SIDE + a_block) * SIDE + b_block) * WARPS + threadIdx.x / 32] = sum;
}

struct Program {
  static constexpr size_t INPUTS = 2 * BLOCKS * BLOCK * 4;
  static constexpr size_t OUTPUTS = static_cast<size_t>(GROUPS) * PAIRS * WARPS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i); }
  static uint32_t expected(size_t at) {
    const size_t warp = at % WARPS, b_block = at / WARPS % SIDE, a_block = at / WARPS / SIDE % SIDE;
    const size_t group = at / WARPS / PAIRS;
    const size_t a = (group * SIDE + a_block) * BLOCK * 4;
    const size_t b = (BLOCKS + group * SIDE + b_block) * BLOCK * 4;
    uint32_t sum = 0;
    for (size_t i = warp * 32; i < BLOCK; i += THREADS)
      for (size_t word = i * 4; word < (i + 32) * 4; ++word)
        sum += input<0>(a + word) * input<0>(b + word);
    return sum;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<GROUPS * PAIRS, THREADS>>>(in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
