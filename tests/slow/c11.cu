// Decodes product-quantised vectors: 32 dimensions in eight parts of four, for each part a byte that
// names one of 256 entries of the part's codebook.
#include "program.cuh"

namespace {

constexpr int PARTS = 8, PART = 4, WIDTH = PARTS * PART, ENTRIES = 256;
constexpr int CTAS = 792, WARPS = 8, AT_ONCE = 16, ROUNDS = 20;
constexpr size_t VECTORS = static_cast<size_t>(CTAS) * WARPS * AT_ONCE * ROUNDS;
constexpr size_t BOOK_WORDS = static_cast<size_t>(ENTRIES) * WIDTH, CODE_WORDS = VECTORS * 2;

template <int FORM>
__global__ void __launch_bounds__(WARPS * 32) work(const uint32_t *__restrict__ in,
                                                   uint32_t *__restrict__ out) {
  __shared__ uint32_t book[ENTRIES][WIDTH]; // [entry][part, word]
  for (int i = threadIdx.x; i < ENTRIES * WIDTH; i += WARPS * 32)
    (&book[0][0])[i] = in[i];
  __syncthreads();
  const int lane = threadIdx.x % 32, part = lane / PART, word = lane % PART;
  const uint32_t *const codes = in + BOOK_WORDS;
  size_t first = (static_cast<size_t>(blockIdx.x) * WARPS + threadIdx.x / 32) * AT_ONCE;
  for (int round = 0; round < ROUNDS; ++round) {
    const uint32_t own = codes[first * 2 + lane];
#pragma unroll 4
    for (int v = 0; v < AT_ONCE; ++v) {
      const uint32_t four = __shfl_sync(0xFFFFFFFFu, own, v * 2 + part / 4);
      const uint32_t entry = four >> part % 4 * 8 & 255;
      uint32_t *const to = out + (first + v) * WIDTH + part * PART;
      if constexpr (FORM == 0) {
        if (word == 0)
#pragma unroll
          for (int i = 0; i < PART; ++i)
            to[i] = book[entry][part * PART + i];
      } else {
        to[word] = book[entry][part * PART + word];
      }
    }
    first += static_cast<size_t>(CTAS) * WARPS * AT_ONCE;
  }
}

struct Program {
  static constexpr size_t INPUTS = BOOK_WORDS + CODE_WORDS, OUTPUTS = VECTORS * WIDTH;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 404u);
  }
  static uint32_t expected(size_t i) {
    const size_t vector = i / WIDTH, part = i % WIDTH / PART;
    const uint32_t four = input<0>(BOOK_WORDS + vector * 2 + part / 4);
    return input<0>((four >> part % 4 * 8 & 255) * size_t{WIDTH} + i % WIDTH);
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, WARPS * 32>>>(in, out);
    CALL(cudaGetLastError());
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
