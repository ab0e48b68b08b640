// A convolution of 3 by 3 with padding: each weight's pixels by one copy of im2col, and its result
// stored by another.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "mbarrier.cuh"

constexpr int C = 8, W = 7, H = 6, N = 3, PIXELS = 32, S = 3;

__global__ void convolve(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out,
                         const float* weights) {
  __shared__ __align__(128) float column[PIXELS][C], sums[PIXELS][C];
  __shared__ __align__(8) uint64_t arrived;
  const int pixel = blockIdx.x * PIXELS, w = pixel % W, h = pixel / W % H, n = pixel / W / H;
  if (threadIdx.x == 0) {
    init(&arrived);
  }
  float sum[C] = {};
  for (int tap = 0; tap < S * S; tap++) {
    __syncthreads();
    if (threadIdx.x == 0) {
      const uint16_t s = tap % S, r = tap / S;
      asm volatile("fence.proxy.async.shared::cta;");
      expect(&arrived, sizeof column);
      asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
                   ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(
                       shared_address(column)),
                   "l"(&in), "r"(0), "r"(w - 1), "r"(h - 1), "r"(n),
                   "r"(shared_address(&arrived)), "h"(s), "h"(r)
                   : "memory");
    }
    wait(&arrived, tap & 1);
    for (int c = 0; c < C; c++)
      sum[c] += weights[tap] * column[threadIdx.x][c];
  }
  for (int c = 0; c < C; c++)
    sums[threadIdx.x][c] = sum[c];
  asm volatile("fence.proxy.async.shared::cta;");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group"
                 " [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&out),
                 "r"(0), "r"(w), "r"(h), "r"(n), "r"(shared_address(sums))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

static CUresult encode(CUtensorMap* map, float* base, int lower, int upper, int pixels) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &entry, 12000, 0, &found);
  cuuint64_t dims[4] = {C, W, H, N}, strides[3] = {C * 4, C * W * 4, C * W * H * 4};
  int low[2] = {lower, lower}, up[2] = {upper, upper};
  cuuint32_t steps[4] = {1, 1, 1, 1};
  return reinterpret_cast<decltype(&cuTensorMapEncodeIm2col)>(entry)(
      map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, base, dims, strides, low, up, C, pixels, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  constexpr int COUNT = C * W * H * N, CTAS = (W * H * N + PIXELS - 1) / PIXELS;
  std::vector<float> host(COUNT), back(COUNT), weights(S * S);
  for (int i = 0; i < COUNT; i++)
    host[i] = i % 17 - 8;
  for (int i = 0; i < S * S; i++)
    weights[i] = i + 1;
  float *in, *out, *taps;
  cudaMalloc(&in, COUNT * 4), cudaMalloc(&out, COUNT * 4), cudaMalloc(&taps, S * S * 4);
  cudaMemcpy(in, host.data(), COUNT * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(taps, weights.data(), S * S * 4, cudaMemcpyHostToDevice);
  CUtensorMap of_in, of_out;
  if (CUresult made = encode(&of_in, in, !strcmp(what, "corner") ? -129 : -1, -1, PIXELS))
    return printf("refused: %d\n", made) ? 5 : 0;
  encode(&of_out, out, !strcmp(what, "store") ? -1 : 0, 0, PIXELS);
  convolve<<<CTAS, PIXELS>>>(of_in, of_out, taps);
  cudaDeviceSynchronize();
  cudaMemcpy(back.data(), out, COUNT * 4, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < COUNT; i++) {
    const int c = i % C, w = i / C % W, h = i / C / W % H, n = i / C / W / H;
    float sum = 0;
    for (int r = 0; r < S; r++)
      for (int s = 0; s < S; s++)
        if (w + s >= 1 && w + s - 1 < W && h + r >= 1 && h + r - 1 < H)
          sum += weights[r * S + s] * host[((n * H + h + r - 1) * W + w + s - 1) * C + c];
    wrong += back[i] != sum;
  }
  printf("%d wrong\n", wrong);
  return wrong != 0;
}
