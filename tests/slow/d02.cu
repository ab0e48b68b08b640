// Weighted sums of table rows, one bag of row numbers per warp at a time.
#include "program.cuh"

constexpr int WIDTH = 64, LENGTH = 32, BAGS_PER_WARP = 4, WARPS = 8, CTAS = 5280;
constexpr int BAGS = CTAS * WARPS * BAGS_PER_WARP;
constexpr int SCALES = 256;
constexpr size_t ROWS = 1 << 20, TABLE = ROWS * WIDTH;

template <int FORM> constexpr int SLAB_BYTES = FORM == 0 ? 72 << 10 : 8 << 10;

template <int FORM> __global__ __launch_bounds__(256) void work(const uint32_t *in, uint32_t *out) {
  extern __shared__ uint32_t slab[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t *const scales = slab, *const list = slab + SCALES + warp * LENGTH;
  scales[threadIdx.x] = in[TABLE + static_cast<size_t>(BAGS) * LENGTH + threadIdx.x];
  __syncthreads();
  for (int n = 0; n < BAGS_PER_WARP; ++n) {
    const int bag = (blockIdx.x * BAGS_PER_WARP + n) * WARPS + warp;
    list[lane] = in[TABLE + static_cast<size_t>(bag) * LENGTH + lane];
    __syncwarp();
    uint2 sum = make_uint2(0, 0);
#pragma unroll 1
    for (int k = 0; k < LENGTH; ++k) {
      const uint32_t row = list[k];
      const uint32_t scale = scales[row % SCALES];
      const uint2 value =
          reinterpret_cast<const uint2 *>(in + static_cast<size_t>(row) * WIDTH)[lane];
      sum.x += value.x * scale;
      sum.y += value.y * scale;
    }
    reinterpret_cast<uint2 *>(out + static_cast<size_t>(bag) * WIDTH)[lane] = sum;
    __syncwarp();
  }
}

struct Program {
  static constexpr size_t INPUTS = TABLE + static_cast<size_t>(BAGS) * LENGTH + SCALES,
                          OUTPUTS = static_cast<size_t>(BAGS) * WIDTH;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const uint32_t value = mixed(static_cast<uint32_t>(i) + 5);
    return i < TABLE ? value : i < INPUTS - SCALES ? value % ROWS : value % 1000;
  }

  static uint32_t expected(size_t i) {
    const size_t bag = i / WIDTH;
    uint32_t sum = 0;
    for (int k = 0; k < LENGTH; ++k) {
      const uint32_t row = input<0>(TABLE + bag * LENGTH + k);
      sum += input<0>(static_cast<size_t>(row) * WIDTH + i % WIDTH) *
             input<0>(INPUTS - SCALES + row % SCALES);
    }
    return sum;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, CTAS, 256, SLAB_BYTES<FORM>, in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
