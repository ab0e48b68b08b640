// Calls that are refused: which results a program drops. Of the first argument: which call.
#include <cstdio>
#include <cstdlib>

__global__ void fill(int* to) { to[threadIdx.x] = threadIdx.x; }
__device__ int symbol;
static int *d, h[1024];

#define BAD cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost)  // d has 128 bytes
__attribute__((noinline)) cudaError_t wrapped() { return BAD; }
__attribute__((noinline)) void check(cudaError_t code) {
  if (code)
    puts("checked");
}

int main(int argc, char** argv) {
  int which = atoi(argv[1]);
  cudaMalloc(&d, 128);
  fill<<<1, 32>>>(d);
  cudaError_t code = cudaSuccess;
  switch (which) {
  case 0: BAD; break;
  case 1: wrapped(); break;
  case 2:
    for (int i = 0; i < which; i++)
      BAD;
    break;
  case 3: cudaMemcpyToSymbol(symbol, h, sizeof h); break;
  case 4: (void)cudaMemset(d, 0, sizeof h); break;
  case 10:
    if (BAD != cudaSuccess)
      puts("seen");
    break;
  case 11:
    code = BAD;
    printf("%d\n", code);
    break;
  case 12: check(wrapped()); break;
  case 13:
    if (cudaMemcpyToSymbol(symbol, h, sizeof h))
      puts("seen");
    break;
  case 14: check(BAD); break;
  case 15: return BAD == cudaSuccess;
  case 16:
    if (cudaSuccess == cudaMemset(d, 0, sizeof h) && argc)
      puts("filled");
    break;
  }
  return 0;
}
