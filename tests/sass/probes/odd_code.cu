// Control flow that a kernel seldom has, and a disassembly must still be read with: jump tables,
// calls, recursion, calls through a register, a goto into a loop, traps, and the driver's functions.
#include <cassert>
#include <cstdio>

extern "C" __global__ void asserts(int *p, int n) {
  const int i = threadIdx.x;
  assert(i < n);
  p[i] = i;
  if (n == 7)
    __trap();
  p[i + 1] = 2;
}

#ifdef PRINTS
extern "C" __global__ void prints(int *p, int n) {
  if (p[0] == 3)
    printf("bad %d\n", n);
  p[threadIdx.x] = n;
}
#endif

extern "C" __global__ void switches(float *p, int n, float x) {
  float r = 0;
  switch (p[0] > 1 ? n : n + 1) {
  case 0:
    r = __sinf(x);
    break;
  case 1:
    r = x * 3 + 1;
    p[9] = 4;
    break;
  case 2:
    r = __expf(x);
    __threadfence();
    break;
  case 3:
    r = x / 7;
    p[3] = 3;
    break;
  case 4:
    r = sqrtf(x);
    p[5] = 3;
    break;
  case 5:
    r = x * x * x;
    __syncthreads();
    break;
  case 6:
    r = __logf(x);
    p[8] = x;
    break;
  case 7:
    r = rsqrtf(x);
    atomicAdd(p, x);
    break;
  default:
    r = -1;
  }
  p[threadIdx.x] = r;
}

__device__ __noinline__ float sines(float a, int n) {
  for (int i = 0; i < n; ++i)
    a = __sinf(a) + i;
  return a;
}
__device__ __noinline__ float twice(float a, int n) { return n > 3 ? sines(a, n) * 2 : a; }

extern "C" __global__ void calls(float *p, int n) {
  p[threadIdx.x] = sines(p[1], n) / twice(p[2], n + 1);
}

__device__ float (*table[2])(float, int) = {sines, twice};
extern "C" __global__ void calls_through_register(float *p, int n) {
  p[threadIdx.x] = table[n](p[1], n);
}

__device__ int fibonacci(int n, int *p) {
  return n < 2 ? p[n] : fibonacci(n - 1, p) + fibonacci(n - 2, p);
}
extern "C" __global__ void recurses(int *p, int n) { p[0] = fibonacci(n, p); }

extern "C" __global__ void jumps_into_a_loop(int *p, int n) {
  int i = 0;
  if (n & 1)
    goto inside;
again:
  p[i] = i;
  i += 3;
  if (i > n)
    return;
inside:
  p[i + 100] = 2 * i;
  i += p[i];
  if (i < 5 * n)
    goto again;
}

extern "C" __global__ void nests(int *p, int n) {
  for (int i = 0; i < n; ++i) {
#pragma unroll 1
    for (int k = 0; k < i; ++k)
      p[k] += i;
    p[i] = p[i] ^ 3;
  }
}
