// Locals that are not initialised, as nvcc makes PTX of them: `wrong_` uses one, `right_` does not.

extern "C" __global__ void wrong_sum(int* out, const int* x, int n) {
  int sum;
  for (int i = 0; i < n; i++)
    sum += x[i];
  out[threadIdx.x] = sum;
}

extern "C" __global__ void wrong_side(int* out, const int* x, int n) {
  int value;
  if (threadIdx.x < n)
    value = x[threadIdx.x];
  out[threadIdx.x] = value;
}

extern "C" __global__ void wrong_warp_sum(int* out, const int* x, int n) {
  int value;
  if (threadIdx.x < n)
    value = x[threadIdx.x];
  for (int by = 16; by; by /= 2)
    value += __shfl_down_sync(~0u, value, by);
  if (threadIdx.x == 0)
    out[0] = value;
}

extern "C" __global__ void wrong_product(int* out, const int* x, int) {
  float c[4];
  for (int k = 0; k < 2; k++)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, "
        "{%5, %5}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(x[0]), "r"(x[1]));
  out[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}

extern "C" __global__ void right_side(int* out, const int* x, int n) {
  int value;
  if (threadIdx.x < n)
    value = 3 * x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n)
    out[threadIdx.x] = value;
}

extern "C" __global__ void right_tail(int* out, const int* x, int n) {
  int values[4], sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (i < n)
      values[i] = x[i];
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (i < n)
      sum += values[i];
  out[threadIdx.x] = sum;
}

extern "C" __global__ void right_flag(int* out, const int* x, int n) {
  bool large;
  int value;
  if (n > 30) {
    large = x[0] > 5;
    value = x[1];
  }
  if (n > 30 && large)
    out[threadIdx.x] = value;
}

extern "C" __global__ void right_search(int* out, const int* x, int n) {
  int found;
  bool any = false;
  for (int i = 0; i < n; i++)
    if (x[i] == 3) {
      found = i;
      any = true;
    }
  out[threadIdx.x] = any ? found : -1;
}

extern "C" __global__ void right_shuffle(int* out, const int* x, int n) {
  int value;
  if (threadIdx.x < n)
    value = x[threadIdx.x];
  const int next = __shfl_down_sync(~0u, value, 1);
  if (threadIdx.x + 1 < n)
    out[threadIdx.x] = next;
}

extern "C" __global__ void right_vector(int4* out, const int* x, int) {
  int4 value;
  value.x = x[0];
  value.y = x[1];
  value.z = x[2];
  out[threadIdx.x] = value;
}
