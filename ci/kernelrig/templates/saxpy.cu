// y = a x + y, checked on the host: exit code 0 if every element is right.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void saxpy(int n, float a, const float *x, float *y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = a * x[i] + y[i];
}

static bool failed(cudaError_t code, const char *what) {
  if (code != cudaSuccess)
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  return code != cudaSuccess;
}

int main() {
  const int n = 1000;
  const size_t bytes = n * sizeof(float);
  std::vector<float> x(n), y(n, 1.0f);
  for (int i = 0; i < n; ++i)
    x[i] = static_cast<float>(i);
  float *device_x = nullptr, *device_y = nullptr;
  if (failed(cudaMalloc(&device_x, bytes), "cudaMalloc x") ||
      failed(cudaMalloc(&device_y, bytes), "cudaMalloc y") ||
      failed(cudaMemcpy(device_x, x.data(), bytes, cudaMemcpyHostToDevice), "copy of x") ||
      failed(cudaMemcpy(device_y, y.data(), bytes, cudaMemcpyHostToDevice), "copy of y"))
    return 1;
  saxpy<<<(n + 255) / 256, 256>>>(n, 2.0f, device_x, device_y);
  if (failed(cudaGetLastError(), "launch of saxpy") ||
      failed(cudaMemcpy(y.data(), device_y, bytes, cudaMemcpyDeviceToHost), "saxpy"))
    return 1;
  int wrong = 0;
  for (int i = 0; i < n; ++i)
    wrong += y[i] != 2.0f * static_cast<float>(i) + 1.0f; // exact: whole numbers below 2^24
  std::printf("saxpy: %d of %d elements are wrong\n", wrong, n);
  if (failed(cudaFree(device_x), "cudaFree x") || failed(cudaFree(device_y), "cudaFree y"))
    return 1;
  return wrong == 0 ? 0 : 1;
}
