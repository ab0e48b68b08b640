// Locals that hold nothing in some threads, in programs that need none of it, and the same with a
// fault: what nvcc makes of a `?:`, of a search, of the best of a warp, of stages in turn.

extern "C" __global__ void right_found(int* out, const int* x, int n) {
  int found;
  bool any = false;
  for (int i = 0; i < n; i++)
    if (x[i] % 32 == threadIdx.x) {
      found = i;
      any = true;
    }
  out[threadIdx.x] = any ? found : -1;
}

extern "C" __global__ void wrong_found(int* out, const int* x, int n) {
  int found;
  for (int i = 0; i < n; i++)
    if (x[i] % 32 == threadIdx.x)
      found = i;
  out[threadIdx.x] = found;
}

struct Maybe {
  int value;
  bool valid;
};

__device__ __noinline__ Maybe search(const int* x, int n, int wanted) {
  Maybe made;
  made.valid = false;
  for (int i = 0; i < n; i++)
    if (x[i] == wanted) {
      made.value = i;
      made.valid = true;
    }
  return made;
}

extern "C" __global__ void right_optional(int* out, const int* x, int n) {
  const Maybe made = search(x, n, threadIdx.x * 2);
  out[threadIdx.x] = made.valid ? made.value : -1;
}

extern "C" __global__ void wrong_optional(int* out, const int* x, int n) {
  out[threadIdx.x] = search(x, n, threadIdx.x * 2).value;
}

// The best of a warp's values, of which some lanes have none.
__device__ int best_of(const int* x, int n, bool looks) {
  float best;
  int at;
  bool any = false;
  for (int i = threadIdx.x; i < n; i += 32) {
    const float value = x[i];
    if (!any || value > best) {
      best = value;
      at = i;
      any = true;
    }
  }
  for (int by = 16; by; by /= 2) {
    const float other = __shfl_xor_sync(~0u, best, by);
    const int place = __shfl_xor_sync(~0u, at, by);
    const bool has = __shfl_xor_sync(~0u, any, by);
    if ((has || !looks) && (!any || other > best)) {
      best = other;
      at = place;
      any = true;
    }
  }
  return at;
}

extern "C" __global__ void right_best(int* out, const int* x, int n) {
  const int at = best_of(x, n, true);
  if (threadIdx.x == 0)
    out[0] = at;
}

extern "C" __global__ void wrong_best(int* out, const int* x, int n) {
  const int at = best_of(x, n, false);
  if (threadIdx.x == 0)
    out[0] = at;
}

extern "C" __global__ void right_stages(int* out, const int* x, int n) {
  int stage[2], sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (8 * i < n)
      stage[i & 1] = 3 * x[8 * i];
    if (i > 0 && 8 * (i - 1) < n)
      sum += stage[(i - 1) & 1];
  }
  out[threadIdx.x] = sum;
}

extern "C" __global__ void wrong_stages(int* out, const int* x, int n) {
  int stage[2], sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (8 * i > n)
      stage[i & 1] = 3 * x[8 * i];
    if (i > 0)
      sum += stage[(i - 1) & 1];
  }
  out[threadIdx.x] = sum;
}
