// Sums of 64 rows of a table of 12 MB, chosen by a list: features of a vocabulary of tokens.
#include "program.cuh"

constexpr int WIDTH = 128, LENGTH = 64, WARPS = 8, CTAS = 132 * 8 * 10;
constexpr size_t ROWS = 24576, TABLE = ROWS * WIDTH;
constexpr size_t BAGS = static_cast<size_t>(CTAS) * WARPS;

template <int FORM>
__global__ __launch_bounds__(WARPS * 32, 8) void work(const uint32_t *in, uint32_t *out) {
  const size_t bag = static_cast<size_t>(blockIdx.x) * WARPS + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const uint32_t *list = in + TABLE + bag * LENGTH + lane;
  const uint4 *table = reinterpret_cast<const uint4 *>(in) + lane;
  uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll 1
  for (int part = 0; part < LENGTH; part += 32) {
    const uint32_t row = __ldcs(list + part);
#pragma unroll 4
    for (int k = 0; k < 32; ++k) {
      const uint4 value = table[__shfl_sync(~0u, row, k) * (WIDTH / 4)];
      sum.x += value.x;
      sum.y += value.y;
      sum.z += value.z;
      sum.w += value.w;
    }
  }
  __stcs(reinterpret_cast<uint4 *>(out) + bag * (WIDTH / 4) + lane, sum);
}

struct Program {
  static constexpr size_t INPUTS = TABLE + BAGS * LENGTH, OUTPUTS = BAGS * WIDTH;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const uint32_t value = mixed(static_cast<uint32_t>(i) + 113);
    return i < TABLE ? value : value % ROWS;
  }

  static uint32_t expected(size_t i) {
    uint32_t sum = 0;
    for (size_t k = 0; k < LENGTH; ++k)
      sum += input<0>(input<0>(TABLE + i / WIDTH * LENGTH + k) * WIDTH + i % WIDTH);
    return sum;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, WARPS * 32>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
