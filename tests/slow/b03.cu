// Product of two matrices of floats, both with k as the outer dimension: C[m][n].
#include "program.cuh"

constexpr int M = 2048, N = 2048, K = 1024, TILE = 128, DEEP = 8, THREADS = 256;

template <int FORM>
__global__ void __launch_bounds__(THREADS, FORM == 0 ? 3 : 2)
    work(const uint32_t *in, uint32_t *out) {
  __shared__ __align__(16) float a[2][DEEP][TILE], b[2][DEEP][TILE];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const int m0 = blockIdx.x % (M / TILE) * TILE, n0 = blockIdx.x / (M / TILE) * TILE;
  const float4 *from_a = reinterpret_cast<const float4 *>(in) + ((t / 32) * M + m0) / 4 + t % 32;
  const float4 *from_b = reinterpret_cast<const float4 *>(in + static_cast<size_t>(M) * K) +
                         ((t / 32) * N + n0) / 4 + t % 32;
  float sum[8][8] = {};
  float4 next_a = *from_a, next_b = *from_b;
  *reinterpret_cast<float4 *>(&a[0][t / 32][t % 32 * 4]) = next_a;
  *reinterpret_cast<float4 *>(&b[0][t / 32][t % 32 * 4]) = next_b;
  __syncthreads();
#pragma unroll 1
  for (int k = 0; k < K / DEEP; ++k) {
    const int slot = k & 1;
    if (k + 1 < K / DEEP) {
      next_a = from_a[(k + 1) * (DEEP * M / 4)];
      next_b = from_b[(k + 1) * (DEEP * N / 4)];
    }
#pragma unroll
    for (int d = 0; d < DEEP; ++d) {
      float x[8], y[8];
      *reinterpret_cast<float4 *>(x) = *reinterpret_cast<const float4 *>(&a[slot][d][ty * 4]);
      *reinterpret_cast<float4 *>(x + 4) = *reinterpret_cast<const float4 *>(&a[slot][d][64 + ty * 4]);
      *reinterpret_cast<float4 *>(y) = *reinterpret_cast<const float4 *>(&b[slot][d][tx * 4]);
      *reinterpret_cast<float4 *>(y + 4) = *reinterpret_cast<const float4 *>(&b[slot][d][64 + tx * 4]);
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
    }
    if (k + 1 < K / DEEP) {
      *reinterpret_cast<float4 *>(&a[slot ^ 1][t / 32][t % 32 * 4]) = next_a;
      *reinterpret_cast<float4 *>(&b[slot ^ 1][t / 32][t % 32 * 4]) = next_b;
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int m = m0 + (i / 4) * 64 + ty * 4 + i % 4;
    float4 *to = reinterpret_cast<float4 *>(out) + (static_cast<size_t>(m) * N + n0) / 4 + tx;
    to[0] = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
    to[16] = make_float4(sum[i][4], sum[i][5], sum[i][6], sum[i][7]);
  }
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(M) * K + static_cast<size_t>(N) * K;
  static constexpr size_t OUTPUTS = static_cast<size_t>(M) * N;
  __host__ __device__ static float value(size_t i) {
    return static_cast<float>(static_cast<int>(mixed(static_cast<uint32_t>(i)) % 15) - 7);
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const float x = value(i);
    uint32_t word;
    memcpy(&word, &x, 4);
    return word;
  }
  static uint32_t expected(size_t i) {
    const size_t m = i / N, n = i % N;
    float sum = 0;
    for (size_t k = 0; k < K; ++k)
      sum += value(k * M + m) * value(static_cast<size_t>(M) * K + k * N + n);
    uint32_t word;
    memcpy(&word, &sum, 4);
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<(M / TILE) * (N / TILE), THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
