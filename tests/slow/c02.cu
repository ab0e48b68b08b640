// Distances by the sum of absolute differences, between all of two sets of points of 128 dimensions.
#include "program.cuh"

namespace {

constexpr int POINTS = 4096, DIMENSIONS = 128, TILE = 128, DEPTH = 16, THREADS = 256;

template <int FORM>
__global__ void __maxnreg__(FORM == 0 ? 72 : 128)
    work(const uint32_t *__restrict__ in, uint32_t *__restrict__ out) {
  __shared__ float4 left[DEPTH][TILE / 4], right[DEPTH][TILE / 4];
  const float4 *const p = reinterpret_cast<const float4 *>(in);
  const float4 *const q = p + POINTS * DIMENSIONS / 4;
  const int tile_x = blockIdx.x % (POINTS / TILE), tile_y = blockIdx.x / (POINTS / TILE);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[8][8] = {};
  for (int d0 = 0; d0 < DIMENSIONS; d0 += DEPTH) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int d = threadIdx.x / 32 + 8 * i, c = threadIdx.x % 32;
      left[d][c] = p[(d0 + d) * (POINTS / 4) + tile_y * (TILE / 4) + c];
      right[d][c] = q[(d0 + d) * (POINTS / 4) + tile_x * (TILE / 4) + c];
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
      const float4 a0 = left[d][ty], a1 = left[d][ty + 16];
      const float4 b0 = right[d][tx], b1 = right[d][tx + 16];
      const float a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
      const float b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
      for (int y = 0; y < 8; ++y)
#pragma unroll
        for (int x = 0; x < 8; ++x)
          sum[y][x] += fabsf(a[y] - b[x]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int y = 0; y < 8; ++y) {
    const int row = tile_y * TILE + (y / 4) * 64 + ty * 4 + y % 4;
    float4 *const to = reinterpret_cast<float4 *>(out) + row * (POINTS / 4) + tile_x * (TILE / 4);
    to[tx] = make_float4(sum[y][0], sum[y][1], sum[y][2], sum[y][3]);
    to[tx + 16] = make_float4(sum[y][4], sum[y][5], sum[y][6], sum[y][7]);
  }
}

struct Program {
  static constexpr size_t INPUTS = 2ull * POINTS * DIMENSIONS;
  static constexpr size_t OUTPUTS = 1ull * POINTS * POINTS;
  __host__ __device__ static int coordinate(size_t i) {
    return static_cast<int>(mixed(static_cast<uint32_t>(i) * 3u + 1u) & 63u);
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const float value = static_cast<float>(coordinate(i));
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
  }
  static uint32_t expected(size_t i) {
    const size_t y = i / POINTS, x = i % POINTS;
    int sum = 0;
    for (size_t d = 0; d < DIMENSIONS; ++d)
      sum += std::abs(coordinate(d * POINTS + y) - coordinate((DIMENSIONS + d) * POINTS + x));
    const float value = static_cast<float>(sum);
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<(POINTS / TILE) * (POINTS / TILE), THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
