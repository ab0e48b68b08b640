// C = A B^T, bf16 in, fp32 out: a tile of 16 x 16 a CTA, through shared memory. It is to start
// from: right, checked on the host, and not fast.  PROGRAM [N [LAUNCHES]]
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int TILE = 16;

// A [m, k] and B [n, k], both K-major; C [m, n].
__global__ void gemm(int m, int n, int k, const __nv_bfloat16 *a, const __nv_bfloat16 *b,
                     float *c) {
  __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE + 1]; // + 1: columns in banks of their own
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  const int row_b = blockIdx.x * TILE + threadIdx.y;
  float sum = 0;
  for (int at = 0; at < k; at += TILE) {
    const int own = at + threadIdx.x;
    tile_a[threadIdx.y][threadIdx.x] =
        row < m && own < k ? __bfloat162float(a[size_t(row) * k + own]) : 0;
    tile_b[threadIdx.y][threadIdx.x] =
        row_b < n && own < k ? __bfloat162float(b[size_t(row_b) * k + own]) : 0;
    __syncthreads(); // both tiles are whole
    for (int i = 0; i < TILE; ++i)
      sum += tile_a[threadIdx.y][i] * tile_b[threadIdx.x][i];
    __syncthreads(); // everyone has read them
  }
  if (row < m && column < n)
    c[size_t(row) * n + column] = sum;
}

static void require(cudaError_t code, const char *what) {
  if (code == cudaSuccess)
    return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

int main(int argc, char **argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 40, launches = argc > 2 ? std::atoi(argv[2]) : 1;
  const size_t count = size_t(n) * n;
  std::vector<__nv_bfloat16> a(count), b(count);
  std::vector<int> whole_a(count), whole_b(count);
  std::vector<float> c(count);
  for (size_t i = 0; i < count; ++i) { // small whole numbers: products and sums are exact
    whole_a[i] = int(i * 2654435761u >> 7 & 7) - 3;
    whole_b[i] = int(i * 2246822519u >> 9 & 7) - 4;
    a[i] = __float2bfloat16(float(whole_a[i]));
    b[i] = __float2bfloat16(float(whole_b[i]));
  }
  __nv_bfloat16 *device_a, *device_b;
  float *device_c;
  require(cudaMalloc(&device_a, count * sizeof(a[0])), "cudaMalloc a");
  require(cudaMalloc(&device_b, count * sizeof(b[0])), "cudaMalloc b");
  require(cudaMalloc(&device_c, count * sizeof(c[0])), "cudaMalloc c");
  require(cudaMemcpy(device_a, a.data(), count * sizeof(a[0]), cudaMemcpyHostToDevice), "a");
  require(cudaMemcpy(device_b, b.data(), count * sizeof(b[0]), cudaMemcpyHostToDevice), "b");
  cudaEvent_t began, ended;
  require(cudaEventCreate(&began), "cudaEventCreate");
  require(cudaEventCreate(&ended), "cudaEventCreate");
  const dim3 grid((n + TILE - 1) / TILE, (n + TILE - 1) / TILE), block(TILE, TILE);
  gemm<<<grid, block>>>(n, n, n, device_a, device_b, device_c); // warms up
  require(cudaGetLastError(), "launch of gemm");
  require(cudaEventRecord(began), "cudaEventRecord");
  for (int i = 0; i < launches; ++i)
    gemm<<<grid, block>>>(n, n, n, device_a, device_b, device_c);
  require(cudaEventRecord(ended), "cudaEventRecord");
  require(cudaMemcpy(c.data(), device_c, count * sizeof(c[0]), cudaMemcpyDeviceToHost), "gemm");
  size_t wrong = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      long sum = 0;
      for (int l = 0; l < n; ++l)
        sum += whole_a[size_t(i) * n + l] * whole_b[size_t(j) * n + l];
      wrong += c[size_t(i) * n + j] != float(sum);
    }
  float ms = 0;
  require(cudaEventElapsedTime(&ms, began, ended), "cudaEventElapsedTime");
  ms /= float(launches);
  std::printf("avg %.6f ms, %.4f TFLOP/s\n", ms, 2.0 * double(count) * n / ms / 1e9);
  std::printf("%zu of %zu elements are wrong\n", wrong, count);
  require(cudaFree(device_a), "cudaFree a");
  require(cudaFree(device_b), "cudaFree b");
  require(cudaFree(device_c), "cudaFree c");
  return wrong == 0 ? 0 : 1;
}
