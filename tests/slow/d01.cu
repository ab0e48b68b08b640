// Local alignment scores of a long sequence against a short one, one problem per block; a thread
// owns a column and the block walks along the anti-diagonals.
#include "program.cuh"

constexpr int COLUMNS = 1024, ROWS = 5120, PROBLEMS = 132, DISTINCT = 4;
constexpr int WORDS = ROWS + COLUMNS;

template <int FORM>
__global__ __launch_bounds__(COLUMNS, 1) void work(const uint32_t *in, uint32_t *out) {
  __shared__ uint32_t letters[ROWS];
  __shared__ int border[2][COLUMNS + 1];
  const int column = threadIdx.x;
  const uint32_t *problem = in + static_cast<size_t>(blockIdx.x % DISTINCT) * WORDS;
  for (int i = column; i < ROWS; i += COLUMNS)
    letters[i] = problem[i];
  const uint32_t letter = problem[ROWS + column];
  if (column < 2)
    border[column][0] = 0;
  border[0][column + 1] = 0;
  border[1][column + 1] = 0;
  __syncthreads();

  int above = 0, corner = 0, best = 0;
  for (int step = 0; step < ROWS + COLUMNS - 1; ++step) {
    const int row = step - column;
    const int left = border[~step & 1][column];
    if constexpr (FORM == 0)
      __syncthreads();
    if (row >= 0 && row < ROWS) {
      const int along = corner + (letters[row] == letter ? 2 : -1);
      const int score = max(max(along, 0), max(above, left) - 1);
      corner = left;
      above = score;
      best = max(best, score);
    }
    if constexpr (FORM == 0)
      __syncthreads();
    border[step & 1][column + 1] = above;
    __syncthreads();
  }
  out[blockIdx.x * COLUMNS + column] = static_cast<uint32_t>(best) << 16 | above;
}

struct Program {
  static constexpr size_t INPUTS = DISTINCT * WORDS, OUTPUTS = PROBLEMS * COLUMNS;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 11) & 3;
  }

  static uint32_t expected(size_t i) {
    static std::vector<uint32_t> all;
    if (all.empty()) {
      all.resize(DISTINCT * COLUMNS);
      for (int p = 0; p < DISTINCT; ++p) {
        std::vector<int> last(ROWS, 0), now(ROWS);
        std::vector<uint32_t> letters(ROWS);
        for (int r = 0; r < ROWS; ++r)
          letters[r] = input<0>(static_cast<size_t>(p) * WORDS + r);
        for (int c = 0; c < COLUMNS; ++c) {
          const uint32_t letter = input<0>(static_cast<size_t>(p) * WORDS + ROWS + c);
          int best = 0, above = 0, corner = 0;
          for (int r = 0; r < ROWS; ++r) {
            const int along = corner + (letters[r] == letter ? 2 : -1);
            above = std::max(std::max(along, 0), std::max(above, last[r]) - 1);
            corner = last[r];
            now[r] = above;
            best = std::max(best, above);
          }
          last.swap(now);
          all[p * COLUMNS + c] = static_cast<uint32_t>(best) << 16 | above;
        }
      }
    }
    return all[i / COLUMNS % DISTINCT * COLUMNS + i % COLUMNS];
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<PROBLEMS, COLUMNS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
