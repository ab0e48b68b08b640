// out[row][column] = in[row][column] + table[row % 196][column], 131,072 rows of 768 words.
#include "program.cuh"

constexpr int ROWS = 131072, COLUMNS = 768, CLASSES = 196, ROWS_PER_CTA = 4, THREADS = 256;
constexpr size_t TABLE = static_cast<size_t>(ROWS) * COLUMNS;

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  const uint32_t *const table = in + TABLE;
#pragma unroll
  for (int r = 0; r < ROWS_PER_CTA; ++r) {
    const int row = blockIdx.x * ROWS_PER_CTA + r;
#pragma unroll
    for (int column = threadIdx.x; column < COLUMNS; column += THREADS) {
      const int entry =
          FORM == 0 ? column * CLASSES + row % CLASSES : row % CLASSES * COLUMNS + column;
      out[row * COLUMNS + column] = in[row * COLUMNS + column] + table[entry];
    }
  }
}

struct Program {
  static constexpr size_t INPUTS = TABLE + CLASSES * COLUMNS, OUTPUTS = TABLE;
  __host__ __device__ static uint32_t entry(size_t row, size_t column) {
    return mixed(TABLE + row * COLUMNS + column);
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    if (i < TABLE)
      return mixed(i);
    const size_t at = i - TABLE;
    return FORM == 0 ? entry(at % CLASSES, at / CLASSES) : entry(at / COLUMNS, at % COLUMNS);
  }
  static uint32_t expected(size_t i) {
    return input<0>(i) + entry(i / COLUMNS % CLASSES, i % COLUMNS);
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<ROWS / ROWS_PER_CTA, THREADS>>>(in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
