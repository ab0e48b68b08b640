// Half a sweep over a periodic grid of 4,096 by 8,192 cells: the cells of one colour react with
// their four neighbours, the others stay.
#include "program.cuh"

constexpr int HEIGHT = 4096, WIDTH = 8192, ROUNDS = 20, THREADS = 256;

__host__ __device__ constexpr uint32_t reacted(uint32_t own, uint32_t around) {
  uint32_t state = own ^ around;
  for (int i = 0; i < ROUNDS; ++i) {
    state = (state >> 4 | state << 28) ^ (around + i);
    state = state * 5 + (own & state);
    around ^= state >> 11;
  }
  return state;
}

__device__ __forceinline__ uint32_t relaxed(const uint32_t *in, int x, int y) {
  const uint32_t *row = in + static_cast<size_t>(y) * WIDTH;
  const uint32_t around = row[(x + 1) % WIDTH] + row[(x + WIDTH - 1) % WIDTH] +
                          in[static_cast<size_t>((y + 1) % HEIGHT) * WIDTH + x] +
                          in[static_cast<size_t>((y + HEIGHT - 1) % HEIGHT) * WIDTH + x];
  return reacted(row[x], around);
}

template <int FORM>
__global__ __launch_bounds__(THREADS) void work(const uint32_t *in, uint32_t *out) {
  const int y = blockIdx.y;
  uint32_t *row = out + static_cast<size_t>(y) * WIDTH;
  if constexpr (FORM == 0) {
    const int x = blockIdx.x * THREADS + threadIdx.x;
    if ((x + y) % 2 == 0)
      row[x] = relaxed(in, x, y);
    else
      row[x] = in[static_cast<size_t>(y) * WIDTH + x];
  } else {
    const int x = (blockIdx.x * THREADS + threadIdx.x) * 2 + y % 2;
    row[x] = relaxed(in, x, y);
    row[x ^ 1] = in[static_cast<size_t>(y) * WIDTH + (x ^ 1)];
  }
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(HEIGHT) * WIDTH, OUTPUTS = INPUTS;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 103);
  }

  static uint32_t expected(size_t i) {
    const size_t x = i % WIDTH, y = i / WIDTH;
    if ((x + y) % 2 == 1)
      return input<0>(i);
    const uint32_t around =
        input<0>(y * WIDTH + (x + 1) % WIDTH) + input<0>(y * WIDTH + (x + WIDTH - 1) % WIDTH) +
        input<0>((y + 1) % HEIGHT * WIDTH + x) + input<0>((y + HEIGHT - 1) % HEIGHT * WIDTH + x);
    return reacted(input<0>(i), around);
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<dim3(WIDTH / THREADS / (FORM + 1), HEIGHT), THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
