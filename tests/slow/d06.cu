// City-block distances between all rows of two matrices, in tiles of 128 by 128.
#include "program.cuh"

constexpr int COUNT = 4096, LENGTH = 256, TILE = 128, DEPTH = 8, THREADS = 256;

template <int FORM>
__global__ __launch_bounds__(THREADS, FORM == 0 ? 3 : 2) void work(const uint32_t *in,
                                                                   uint32_t *out) {
  __shared__ __align__(16) float a[2][DEPTH][TILE], b[2][DEPTH][TILE];
  const float *points = reinterpret_cast<const float *>(in);
  const int t = threadIdx.x, row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
  // Both matrices lie with the coordinate as their outer index.
  const float *next_a = points + (t / 32) * COUNT + row0 + t % 32 * 4;
  const float *next_b = points + (LENGTH + t / 32) * COUNT + column0 + t % 32 * 4;
  float sum[8][8] = {};
  float4 ahead_a = *reinterpret_cast<const float4 *>(next_a);
  float4 ahead_b = *reinterpret_cast<const float4 *>(next_b);
  const int ty = t / 16 * 4, tx = t % 16 * 4;
  for (int k = 0; k < LENGTH; k += DEPTH) {
    const int side = k / DEPTH & 1;
    *reinterpret_cast<float4 *>(&a[side][t / 32][t % 32 * 4]) = ahead_a;
    *reinterpret_cast<float4 *>(&b[side][t / 32][t % 32 * 4]) = ahead_b;
    __syncthreads();
    if (k + DEPTH < LENGTH) {
      next_a += DEPTH * COUNT;
      next_b += DEPTH * COUNT;
      ahead_a = *reinterpret_cast<const float4 *>(next_a);
      ahead_b = *reinterpret_cast<const float4 *>(next_b);
    }
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
      float x[8], y[8];
      *reinterpret_cast<float4 *>(x) = *reinterpret_cast<const float4 *>(&a[side][d][ty]);
      *reinterpret_cast<float4 *>(x + 4) = *reinterpret_cast<const float4 *>(&a[side][d][ty + 64]);
      *reinterpret_cast<float4 *>(y) = *reinterpret_cast<const float4 *>(&b[side][d][tx]);
      *reinterpret_cast<float4 *>(y + 4) = *reinterpret_cast<const float4 *>(&b[side][d][tx + 64]);
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          sum[i][j] += fabsf(x[i] - y[j]);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; j += 4)
      *reinterpret_cast<float4 *>(
          out + static_cast<size_t>(row0 + ty + i % 4 + i / 4 * 64) * COUNT + column0 + tx +
          j * 16) = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
}

struct Program {
  static constexpr size_t INPUTS = 2ull * COUNT * LENGTH,
                          OUTPUTS = static_cast<size_t>(COUNT) * COUNT;

  __host__ __device__ static constexpr uint32_t coordinate(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 61) & 255;
  }

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const float value = static_cast<float>(coordinate(i));
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
  }

  static uint32_t expected(size_t i) {
    int sum = 0;
    for (size_t k = 0; k < LENGTH; ++k)
      sum += std::abs(static_cast<int>(coordinate(k * COUNT + i / COUNT)) -
                      static_cast<int>(coordinate((LENGTH + k) * COUNT + i % COUNT)));
    const float value = static_cast<float>(sum);
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<dim3(COUNT / TILE, COUNT / TILE), THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
