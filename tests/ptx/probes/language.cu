// What nvcc makes of ordinary C++: calls, tables of functions, frames, initialisers, assertions.
#include <cassert>
#include <cstdio>

struct Shape {
  __device__ virtual int area(int) const = 0;
};
struct Square : Shape {
  __device__ int area(int side) const override { return side * side; }
};
struct Strip : Shape {
  int width;
  __device__ explicit Strip(int width) : width(width) {}
  __device__ int area(int side) const override { return side * width; }
};

__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? 1 : fibonacci(n - 1) + fibonacci(n - 2);
}
__device__ __noinline__ int first(int a) { return a * a; }
__device__ __noinline__ int second(int a) { return a - 7; }
__device__ int (*table[2])(int) = {first, second};
__device__ const char *names[2] = {"hello", "world"};
__constant__ float coefficients[7] = {1, 2, 3, 4.5f};
__constant__ struct {
  int a;
  float b;
  char text[5];
} mixed = {3, 4.5f, "abc"};

struct Big {
  float values[10];
  double last;
};
__device__ __noinline__ Big changed(Big big, int i) {
  big.values[i & 7] += 1;
  big.last *= 2;
  return big;
}

extern "C" __global__ void language(int *out, float *f, int n, Big big) {
  extern __shared__ char dynamic[];
  __shared__ int counts[33];
  int local[20];
  for (int i = 0; i < 20; i++)
    local[i] = out[i] * i;
  Square square;
  Strip strip(n);
  const Shape *shape = n & 1 ? static_cast<const Shape *>(&square) : &strip;
  counts[threadIdx.x % 33] = shape->area(n) + dynamic[n];
  __syncthreads();
  printf("%d %f %s\n", counts[n % 33], f[0], names[n & 1]);
  const Big done = changed(big, n);
  out[0] = fibonacci(n) + table[n & 1](n) + local[n % 20] + static_cast<int>(done.values[n & 7]) +
           static_cast<int>(coefficients[n % 7]) + mixed.a + mixed.text[n & 3];
  f[1] = expf(f[0]) + tanhf(f[2]) + sqrtf(f[4]) / f[5];
  reinterpret_cast<double *>(f)[4] = reinterpret_cast<double *>(f)[5] / 3.0;
  assert(n > 3);
  short narrow = static_cast<short>(out[2]);
  narrow = static_cast<short>(narrow * narrow >> 3);
  out[3] = narrow + out[4] / 10 % 7 + (n > 5 ? 1 : -1);
  atomicAdd(f + 3, 2.f);
  atomicCAS(out + 4, 3, 5);
  out[5] = __shfl_xor_sync(0xffffffff, n, 3) + static_cast<int>(clock64() >> 40);
}
