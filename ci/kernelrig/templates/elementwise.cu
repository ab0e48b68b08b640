// y = gelu(x + bias): a float4 a thread, checked on the host.  PROGRAM [ROWS [LAUNCHES]]
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int COLUMNS = 1024;
constexpr float TOLERANCE = 2e-6f; // of |y| + 1: tanhf and the host's tanh differ by a few ulp

__device__ float gelu(float v) {
  return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

__global__ void bias_gelu(int n, const float4 *x, const float4 *bias, float4 *y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  const float4 a = x[i], b = bias[i % (COLUMNS / 4)];
  y[i] = {gelu(a.x + b.x), gelu(a.y + b.y), gelu(a.z + b.z), gelu(a.w + b.w)};
}

static void require(cudaError_t code, const char *what) {
  if (code == cudaSuccess)
    return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

int main(int argc, char **argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 1, launches = argc > 2 ? std::atoi(argv[2]) : 1;
  const size_t count = size_t(rows) * COLUMNS, bytes = count * sizeof(float);
  std::vector<float> x(count), bias(COLUMNS), y(count);
  for (size_t i = 0; i < count; ++i)
    x[i] = float(int(i * 2654435761u % 8001) - 4000) / 1000; // -4 to 4
  for (int i = 0; i < COLUMNS; ++i)
    bias[i] = float(i % 7) / 10;
  float4 *device_x, *device_bias, *device_y;
  require(cudaMalloc(&device_x, bytes), "cudaMalloc x");
  require(cudaMalloc(&device_bias, COLUMNS * sizeof(float)), "cudaMalloc bias");
  require(cudaMalloc(&device_y, bytes), "cudaMalloc y");
  require(cudaMemcpy(device_x, x.data(), bytes, cudaMemcpyHostToDevice), "copy of x");
  require(cudaMemcpy(device_bias, bias.data(), COLUMNS * sizeof(float), cudaMemcpyHostToDevice),
          "copy of bias");
  cudaEvent_t began, ended;
  require(cudaEventCreate(&began), "cudaEventCreate");
  require(cudaEventCreate(&ended), "cudaEventCreate");
  const int vectors = int(count / 4);
  bias_gelu<<<(vectors + 255) / 256, 256>>>(vectors, device_x, device_bias, device_y); // warms up
  require(cudaGetLastError(), "launch of bias_gelu");
  require(cudaEventRecord(began), "cudaEventRecord");
  for (int i = 0; i < launches; ++i)
    bias_gelu<<<(vectors + 255) / 256, 256>>>(vectors, device_x, device_bias, device_y);
  require(cudaEventRecord(ended), "cudaEventRecord");
  require(cudaMemcpy(y.data(), device_y, bytes, cudaMemcpyDeviceToHost), "bias_gelu");
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    const double v = double(x[i]) + bias[i % COLUMNS];
    const double wanted = 0.5 * v * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
    wrong += !(std::fabs(y[i] - wanted) <= TOLERANCE * (std::fabs(wanted) + 1)); // NaN is wrong
  }
  float ms = 0;
  require(cudaEventElapsedTime(&ms, began, ended), "cudaEventElapsedTime");
  ms /= float(launches);
  std::printf("avg %.6f ms, %.3f GB/s\n", ms, 2.0 * double(bytes) / ms / 1e6);
  std::printf("%zu of %zu elements are wrong\n", wrong, count);
  require(cudaFree(device_x), "cudaFree x");
  require(cudaFree(device_bias), "cudaFree bias");
  require(cudaFree(device_y), "cudaFree y");
  return wrong == 0 ? 0 : 1;
}
