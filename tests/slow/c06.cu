// For each level of a grey image, per part of the image: the sum of the right neighbours (within a
// word of four pixels, cyclic) of the pixels of that level.
#include "program.cuh"

namespace {

constexpr int LEVELS = 256, CTAS = 264, THREADS = 512, ROUNDS = 60;
constexpr size_t QUADS = static_cast<size_t>(CTAS) * THREADS * ROUNDS;

// Sums kept of one level.
template <int FORM> constexpr int WAYS = FORM == 0 ? 1 : 32;

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *__restrict__ in,
                                                uint32_t *__restrict__ out) {
  constexpr int W = WAYS<FORM>;
  __shared__ uint32_t sums[LEVELS * W];
  for (int i = threadIdx.x; i < LEVELS * W; i += THREADS)
    sums[i] = 0;
  __syncthreads();
  uint32_t *const own = sums + threadIdx.x % W;
  const uint4 *const quads =
      reinterpret_cast<const uint4 *>(in) + static_cast<size_t>(blockIdx.x) * THREADS * ROUNDS;
#pragma unroll 2
  for (int round = 0; round < ROUNDS; ++round) {
    const uint4 quad = quads[round * THREADS + threadIdx.x];
    const uint32_t words[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = words[i];
      const uint32_t p0 = word & 255, p1 = word >> 8 & 255, p2 = word >> 16 & 255, p3 = word >> 24;
      atomicAdd(own + p0 * W, p1);
      atomicAdd(own + p1 * W, p2);
      atomicAdd(own + p2 * W, p3);
      atomicAdd(own + p3 * W, p0);
    }
  }
  __syncthreads();
  if (threadIdx.x < LEVELS) {
    uint32_t total = 0;
#pragma unroll
    for (int i = 0; i < W; ++i)
      total += sums[threadIdx.x * W + (threadIdx.x + i) % W];
    out[blockIdx.x * LEVELS + threadIdx.x] = total;
  }
}

struct Program {
  static constexpr size_t INPUTS = QUADS * 4, OUTPUTS = static_cast<size_t>(CTAS) * LEVELS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const uint32_t a = mixed(static_cast<uint32_t>(i) + 3u), b = mixed(a + 11u);
    return (a & 0x0F0F0F0Fu) + (b & 0x0F0F0F0Fu) + 0x60606060u;
  }
  static uint32_t expected(size_t i) {
    static std::vector<uint32_t> all;
    if (all.empty()) {
      all.resize(OUTPUTS);
      constexpr size_t WORDS = static_cast<size_t>(THREADS) * ROUNDS * 4;
      for (size_t w = 0; w < INPUTS; ++w) {
        const uint32_t word = input<0>(w);
        for (int p = 0; p < 4; ++p)
          all[w / WORDS * LEVELS + (word >> 8 * p & 255)] += word >> 8 * ((p + 1) % 4) & 255;
      }
    }
    return all[i];
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
