// The best score of each query in each slab of a database of vectors of 128 signed bytes.
#include "program.cuh"

constexpr int SLABS = 2560, QUERIES = 8, VECTORS = 1024, WORDS = 32, THREADS = 256;

template <int FORM> __global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  __shared__ int best_of[THREADS / 32];
  const int slab = FORM == 0 ? blockIdx.x % SLABS : blockIdx.x / QUERIES;
  const int query = FORM == 0 ? blockIdx.x / SLABS : blockIdx.x % QUERIES;
  const int t = threadIdx.x;
  const uint4 *vectors = reinterpret_cast<const uint4 *>(in) + static_cast<size_t>(slab) * VECTORS * 8;
  const uint4 q = reinterpret_cast<const uint4 *>(
      in + static_cast<size_t>(SLABS) * VECTORS * WORDS)[query * 8 + t % 8];
  int best = INT32_MIN;
#pragma unroll 8
  for (int i = 0; i < VECTORS * 8 / THREADS; ++i) {
    const uint4 v = vectors[i * THREADS + t];
    int score = __dp4a(static_cast<int>(v.x), static_cast<int>(q.x), 0);
    score = __dp4a(static_cast<int>(v.y), static_cast<int>(q.y), score);
    score = __dp4a(static_cast<int>(v.z), static_cast<int>(q.z), score);
    score = __dp4a(static_cast<int>(v.w), static_cast<int>(q.w), score);
    score += __shfl_xor_sync(~0u, score, 1);
    score += __shfl_xor_sync(~0u, score, 2);
    score += __shfl_xor_sync(~0u, score, 4);
    best = max(best, score);
  }
  best = __reduce_max_sync(~0u, best);
  if (t % 32 == 0)
    best_of[t / 32] = best;
  __syncthreads();
  if (t == 0) {
    for (int i = 1; i < THREADS / 32; ++i)
      best = max(best, best_of[i]);
    out[slab * QUERIES + query] = static_cast<uint32_t>(best);
  }
}

struct Program {
  static constexpr size_t BASE = static_cast<size_t>(SLABS) * VECTORS * WORDS;
  static constexpr size_t INPUTS = BASE + QUERIES * WORDS, OUTPUTS = SLABS * QUERIES;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i));
  }
  static uint32_t expected(size_t i) {
    const size_t slab = i / QUERIES, query = i % QUERIES;
    int best = INT32_MIN;
    uint32_t q[WORDS];
    for (int w = 0; w < WORDS; ++w)
      q[w] = input<0>(BASE + query * WORDS + w);
    for (size_t v = 0; v < VECTORS; ++v) {
      int score = 0;
      for (int w = 0; w < WORDS; ++w) {
        const uint32_t x = input<0>((slab * VECTORS + v) * WORDS + w);
        for (int b = 0; b < 32; b += 8)
          score += static_cast<int8_t>(x >> b) * static_cast<int8_t>(q[w] >> b);
      }
      best = std::max(best, score);
    }
    return static_cast<uint32_t>(best);
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<SLABS * QUERIES, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
