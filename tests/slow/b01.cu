// Sums of bags of rows of a table: each bag names BAG rows of WIDTH floats.
#include "program.cuh"

constexpr int TABLE_ROWS = 1 << 18, WIDTH = 128, BAGS = 1 << 16, BAG = 16, BAGS_PER_WARP = 4;
constexpr int WARPS = 4, NAMED = BAG * BAGS_PER_WARP;

__global__ void __launch_bounds__(WARPS * 32)
    work(const uint32_t *in, uint32_t *out, int room, int bag) {
  extern __shared__ uint32_t lists[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float4 *table = reinterpret_cast<const float4 *>(in);
  const uint32_t *names = in + static_cast<size_t>(TABLE_ROWS) * WIDTH;
  uint32_t *list = lists + warp * room;
  const int first = (blockIdx.x * WARPS + warp) * BAGS_PER_WARP;
  for (int i = lane; i < NAMED; i += 32)
    list[i] = names[static_cast<size_t>(first) * BAG + i];
  __syncwarp();
  for (int b = 0; b < BAGS_PER_WARP; ++b) {
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int i = 0; i < bag; ++i) {
      const float4 row = table[static_cast<size_t>(list[b * bag + i]) * (WIDTH / 4) + lane];
      sum.x += row.x, sum.y += row.y, sum.z += row.z, sum.w += row.w;
    }
    reinterpret_cast<float4 *>(out)[static_cast<size_t>(first + b) * (WIDTH / 4) + lane] = sum;
  }
}

struct Program {
  static constexpr size_t TABLE = static_cast<size_t>(TABLE_ROWS) * WIDTH;
  static constexpr size_t INPUTS = TABLE + static_cast<size_t>(BAGS) * BAG;
  static constexpr size_t OUTPUTS = static_cast<size_t>(BAGS) * WIDTH;
  __host__ __device__ static float value(size_t i) {
    return static_cast<float>(static_cast<int>(mixed(static_cast<uint32_t>(i)) % 255) - 127);
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    if (i >= TABLE)
      return mixed(static_cast<uint32_t>(i) + 77) % TABLE_ROWS;
    const float x = value(i);
    uint32_t word;
    memcpy(&word, &x, 4);
    return word;
  }
  static uint32_t expected(size_t i) {
    const size_t bag = i / WIDTH, column = i % WIDTH;
    float sum = 0;
    for (int k = 0; k < BAG; ++k)
      sum += value(static_cast<size_t>(input<0>(TABLE + bag * BAG + k)) * WIDTH + column);
    uint32_t word;
    memcpy(&word, &sum, 4);
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    constexpr int ROOM = FORM == 0 ? 4608 : NAMED;
    CALL(cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, WARPS * ROOM * 4));
    work<<<BAGS / BAGS_PER_WARP / WARPS, WARPS * 32, WARPS * ROOM * 4>>>(in, out, ROOM, BAG);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
