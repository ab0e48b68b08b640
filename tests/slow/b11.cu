// Digests of documents, 64 to a CTA: eight of LONG words, then 56 of SHORT words. A lane takes
// every 32nd word.
#include "program.cuh"

constexpr int CTAS = 2112, DOCUMENTS = 64, THREADS = 256, LONGS = 8, LONG = 80 * 32, SHORT = 16 * 32;
constexpr int CTA_WORDS = LONGS * LONG + (DOCUMENTS - LONGS) * SHORT, ROUNDS = 12;

__host__ __device__ constexpr int start_of(int document) {
  return document < LONGS ? document * LONG : LONGS * LONG + (document - LONGS) * SHORT;
}

__host__ __device__ inline uint32_t absorbed(uint32_t h, uint32_t word) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int i = 0; i < ROUNDS; ++i) {
    h = (h ^ word) * 0x9E3779B1u;
    h ^= h >> 15;
    word = (word << 5 | word >> 27) + h;
  }
  return h;
}

template <int FORM> __global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  __shared__ uint32_t digests[DOCUMENTS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32_t *words = in + static_cast<size_t>(blockIdx.x) * CTA_WORDS;
#pragma unroll 1
  for (int i = 0; i < DOCUMENTS / 8; ++i) {
    const int document = FORM == 0 ? warp * (DOCUMENTS / 8) + i : i * 8 + warp;
    const int length = document < LONGS ? LONG : SHORT;
    const uint32_t *from = words + start_of(document);
    uint32_t h = lane, next[2] = {from[lane], from[lane + 32]};
#pragma unroll 1
    for (int k = lane; k < length; k += 64) {
      const uint32_t now[2] = {next[0], next[1]};
      if (k + 64 < length)
        next[0] = from[k + 64], next[1] = from[k + 96];
      h = absorbed(absorbed(h, now[0]), now[1]);
    }
    h = __reduce_xor_sync(~0u, h);
    if (lane == 0)
      digests[document] = h;
  }
  __syncthreads();
  if (threadIdx.x < DOCUMENTS)
    out[blockIdx.x * DOCUMENTS + threadIdx.x] = digests[threadIdx.x];
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(CTAS) * CTA_WORDS;
  static constexpr size_t OUTPUTS = static_cast<size_t>(CTAS) * DOCUMENTS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i));
  }
  static uint32_t expected(size_t i) {
    const int document = static_cast<int>(i % DOCUMENTS);
    const size_t first = i / DOCUMENTS * CTA_WORDS + start_of(document);
    uint32_t all = 0;
    for (int lane = 0; lane < 32; ++lane) {
      uint32_t h = lane;
      for (int k = lane; k < (document < LONGS ? LONG : SHORT); k += 32)
        h = absorbed(h, input<0>(first + k));
      all ^= h;
    }
    return all;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
