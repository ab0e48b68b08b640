// A kernel that may begin while the one before it still runs: program WAITS TRIGGERS APART, 0 or 1 each.
#include <cstdio>

#include <cuda_runtime.h>

__global__ void first(int *a) { a[threadIdx.x] = threadIdx.x; }

__global__ void first_early(int *a) {
  asm volatile("griddepcontrol.launch_dependents;");
  a[threadIdx.x] = threadIdx.x;
}

__global__ void second(const int *a, int *b) { b[threadIdx.x] = a[threadIdx.x]; }

__global__ void second_waits(const int *a, int *b) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  b[threadIdx.x] = a[threadIdx.x];
}

int main(int, char **argv) {
  int *a, *b;
  cudaMalloc(&a, 128);
  cudaMalloc(&b, 128);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(32);
  cudaLaunchAttribute early[1];
  early[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early[0].val.programmaticStreamSerializationAllowed = 1;
  if (argv[2][0] == '1')
    first_early<<<1, 32>>>(a);
  else
    first<<<1, 32>>>(a);
  config.attrs = early;
  config.numAttrs = 1;
  if (argv[3][0] == '1') {
    cudaStream_t other;
    cudaStreamCreate(&other);
    cudaDeviceSynchronize();
    config.stream = other;
  }
  if (argv[1][0] == '1')
    cudaLaunchKernelEx(&config, second_waits, (const int *)a, b);
  else
    cudaLaunchKernelEx(&config, second, (const int *)a, b);
  return cudaDeviceSynchronize() != cudaSuccess;
}
