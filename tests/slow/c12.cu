// Bags of an embedding: each bag names 32 rows of the table, whose sum is its output; one warp a bag.
#include "program.cuh"

namespace {

constexpr size_t TABLE_ROWS = 1 << 20, BAGS = 1 << 16;
constexpr int WIDTH = 64, BAG = 32, WARPS = 4;

// Indices that a warp has room for.
template <int FORM> constexpr int ROOM = FORM == 0 ? 4608 : 64;

template <int FORM>
__global__ void __launch_bounds__(WARPS * 32, 16) work(const uint32_t *__restrict__ in,
                                                       uint32_t *__restrict__ out) {
  extern __shared__ uint32_t indices[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const size_t bag = static_cast<size_t>(blockIdx.x) * WARPS + warp;
  uint32_t *const own = indices + warp * ROOM<FORM>;
  const uint32_t *const names = in + TABLE_ROWS * WIDTH + bag * BAG;
  for (int i = lane; i < BAG; i += 32)
    own[i] = names[i];
  __syncwarp();
  const uint2 *const table = reinterpret_cast<const uint2 *>(in) + lane;
  uint2 sum = {0, 0};
#pragma unroll 2
  for (int i = 0; i < BAG; ++i) {
    const uint2 row = table[static_cast<size_t>(own[i]) * (WIDTH / 2)];
    sum.x += row.x;
    sum.y += row.y;
  }
  reinterpret_cast<uint2 *>(out)[bag * (WIDTH / 2) + lane] = sum;
}

struct Program {
  static constexpr size_t INPUTS = TABLE_ROWS * WIDTH + BAGS * BAG, OUTPUTS = BAGS * WIDTH;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const uint32_t word = mixed(static_cast<uint32_t>(i) + 99u);
    return i < TABLE_ROWS * WIDTH ? word : word % TABLE_ROWS;
  }
  static uint32_t expected(size_t i) {
    uint32_t sum = 0;
    for (size_t k = 0; k < BAG; ++k)
      sum += input<0>(input<0>(TABLE_ROWS * WIDTH + i / WIDTH * BAG + k) * size_t{WIDTH} + i % WIDTH);
    return sum;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, BAGS / WARPS, WARPS * 32, WARPS * ROOM<FORM> * 4, in, out);
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
