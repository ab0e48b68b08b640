// half: half a CTA waits at a CTA barrier that the other half leaves out. spin: on a flag in memory.
// long: three warps wait at a CTA barrier for one that computes for 6 s, which is right.
// mbar: a warp waits for a phase that never completes, divergent from its other lanes.
#include <cstdint>
#include <cstdio>
#include <cstring>
__device__ volatile int flag;
__global__ void half() {
  if (threadIdx.x < 64)
    __syncthreads();
  else
    asm volatile("bar.sync 1, 96;" ::: "memory");
}
__global__ void spin() {
  while (!flag) {
  }
}
__global__ void longer(int *out) {
  if (threadIdx.x < 32) {
    const long long begin = clock64();
    while (clock64() - begin < 9000000000ll) {
    }
  }
  __syncthreads();
  out[threadIdx.x] = 1;
}
__global__ void mbar(int *out) {
  __shared__ uint64_t barrier;
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    uint32_t done = 0;
    while (!done) {
      asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                   : "=r"(done)
                   : "r"(at)
                   : "memory");
    }
  }
  __syncwarp();
  out[threadIdx.x] = 1;
}
int main(int count, char **words) {
  int *out = nullptr;
  cudaMalloc(&out, 4096);
  const char *which = count > 1 ? words[1] : "";
  if (!strcmp(which, "half"))
    half<<<2, 128>>>();
  if (!strcmp(which, "spin"))
    spin<<<2, 64>>>();
  if (!strcmp(which, "longer"))
    longer<<<4, 128>>>(out);
  if (!strcmp(which, "mbar"))
    mbar<<<3, 64>>>(out);
  const cudaError_t error = cudaDeviceSynchronize();
  printf("%s: %s\n", which, cudaGetErrorString(error));
  return error == cudaSuccess ? 0 : 70;
}
