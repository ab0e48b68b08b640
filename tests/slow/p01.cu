// out = in^T, 8192 x 8192 words, by tiles of 32 x 32 through shared memory.
#include "program.cuh"

constexpr int SIDE = 8192, TILE = 32, ROWS = 8;

template <int FORM>
__global__ void __launch_bounds__(TILE *ROWS) work(const uint32_t *in, uint32_t *out) {
  __shared__ uint32_t tile[TILE][FORM == 0 ? TILE : TILE + 1];
  const int column = threadIdx.x % TILE, row = threadIdx.x / TILE;
  const int x = blockIdx.x % (SIDE / TILE) * TILE, y = blockIdx.x / (SIDE / TILE) * TILE;
#pragma unroll
  for (int i = row; i < TILE; i += ROWS)
    tile[i][column] = in[(y + i) * SIDE + x + column];
  __syncthreads();
#pragma unroll
  for (int i = row; i < TILE; i += ROWS)
    out[(x + i) * SIDE + y + column] = tile[column][i];
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(SIDE) * SIDE, OUTPUTS = INPUTS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i); }
  static uint32_t expected(size_t i) { return input<0>(i % SIDE * SIDE + i / SIDE); }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<(SIDE / TILE) * (SIDE / TILE), TILE * ROWS>>>(in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
