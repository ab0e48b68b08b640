// Correlations of signals with the templates of a band beside each, four by four a block.
#include "program.cuh"

constexpr int GROUPS = 136, BAND = 64, WORDS = 32768, THREADS = 1024;
constexpr int CTAS = GROUPS * BAND, ROWS = 8, COLUMNS = 16, BLOCK = ROWS * COLUMNS;

template <int FORM>
__global__ __launch_bounds__(THREADS, 1) void work(const uint32_t *in, uint32_t *out) {
  __shared__ int totals[16];
  const int t = threadIdx.x, n = blockIdx.x;
  int i, offset;
  if constexpr (FORM == 0) {
    i = n % GROUPS;
    offset = n / GROUPS;
  } else {
    constexpr int BLOCKS = BAND / COLUMNS;
    i = n / BLOCK / BLOCKS * ROWS + n % ROWS;
    offset = n / BLOCK % BLOCKS * COLUMNS + n % BLOCK / ROWS;
  }
  const int j = (i + offset) % GROUPS;
  if (t < 16)
    totals[t] = 0;
  __syncthreads();
  const uint4 *a = reinterpret_cast<const uint4 *>(in) + static_cast<size_t>(i) * WORDS + t;
  const uint4 *b =
      reinterpret_cast<const uint4 *>(in) + static_cast<size_t>(GROUPS + j) * WORDS + t;
  int sum[4][4] = {};
#pragma unroll 1
  for (int k = 0; k < WORDS / 4; k += THREADS) {
    uint4 x[4], y[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      x[p] = a[p * (WORDS / 4) + k];
      y[p] = b[p * (WORDS / 4) + k];
    }
#pragma unroll
    for (int p = 0; p < 4; ++p)
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        sum[p][q] = __dp4a(static_cast<int>(x[p].x), static_cast<int>(y[q].x), sum[p][q]);
        sum[p][q] = __dp4a(static_cast<int>(x[p].y), static_cast<int>(y[q].y), sum[p][q]);
        sum[p][q] = __dp4a(static_cast<int>(x[p].z), static_cast<int>(y[q].z), sum[p][q]);
        sum[p][q] = __dp4a(static_cast<int>(x[p].w), static_cast<int>(y[q].w), sum[p][q]);
      }
  }
#pragma unroll
  for (int p = 0; p < 4; ++p)
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int total = __reduce_add_sync(~0u, sum[p][q]);
      if (t % 32 == 0)
        atomicAdd(totals + p * 4 + q, total);
    }
  __syncthreads();
  if (t < 16)
    out[(i * 4 + t / 4) * (BAND * 4) + offset * 4 + t % 4] = totals[t];
}

struct Program {
  static constexpr size_t INPUTS = 2ull * GROUPS * 4 * WORDS, OUTPUTS = CTAS * 16;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 97);
  }

  static uint32_t expected(size_t i) {
    const size_t row = i / (BAND * 4), column = i % (BAND * 4);
    const size_t group = (row / 4 + column / 4) % GROUPS;
    const size_t a = row * WORDS, b = ((GROUPS + group) * 4 + column % 4) * WORDS;
    int sum = 0;
    for (size_t k = 0; k < WORDS; ++k) {
      const uint32_t x = input<0>(a + k), y = input<0>(b + k);
      for (int byte = 0; byte < 32; byte += 8)
        sum += static_cast<int8_t>(x >> byte) * static_cast<int8_t>(y >> byte);
    }
    return sum;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
