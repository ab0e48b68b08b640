// A plain program with a fault that its own check may never see: a __syncthreads is missing.
// `run reverse.cu` names it at its line.
#include <cstdio>

__global__ void reverse(int *x) {
  __shared__ int tile[128];
  tile[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = tile[127 - threadIdx.x];
}

int main() {
  int host[128], *x, wrong = 0;
  for (int i = 0; i < 128; i++)
    host[i] = i;
  cudaMalloc(&x, sizeof host);
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  reverse<<<1, 128>>>(x);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 128; i++)
    wrong += host[i] != 127 - i;
  printf("%d of 128 are wrong\n", wrong);
  return wrong != 0;
}
