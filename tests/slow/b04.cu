// Hadamard transform of rows of N bf16, one row to a CTA, in four passes of radix 8.
#include "program.cuh"

constexpr int ROWS = 16384, N = 4096, THREADS = 512;

__device__ __forceinline__ int slot(int i, int mask) {
  return i ^ (((i >> 5 & 7) ^ (i >> 3 & 24)) & mask);
}

__device__ __forceinline__ void pass(float (&x)[8]) {
#pragma unroll
  for (int s = 1; s < 8; s *= 2)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (!(i & s)) {
        const float p = x[i], q = x[i | s];
        x[i] = p + q, x[i | s] = p - q;
      }
}

__device__ __forceinline__ uint32_t packed(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

__global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out, int mask) {
  __shared__ float row[N];
  const int t = threadIdx.x;
  const uint4 words = reinterpret_cast<const uint4 *>(in)[static_cast<size_t>(blockIdx.x) * THREADS + t];
  const uint32_t w[4] = {words.x, words.y, words.z, words.w};
  float x[8];
#pragma unroll
  for (int j = 0; j < 4; ++j)
    x[2 * j] = __uint_as_float(w[j] << 16), x[2 * j + 1] = __uint_as_float(w[j] & 0xFFFF0000u);
  pass(x);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    row[slot(8 * t + j, mask)] = x[j];
  __syncthreads();
#pragma unroll
  for (int p = 1; p < 4; ++p) {
    const int stride = 1 << 3 * p, base = t / stride * stride * 8 + t % stride;
#pragma unroll
    for (int j = 0; j < 8; ++j)
      x[j] = row[slot(base + j * stride, mask)];
    pass(x);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      row[slot(base + j * stride, mask)] = x[j];
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 8; ++j)
    x[j] = row[slot(8 * t + j, mask)] * (1.0f / 64);
  reinterpret_cast<uint4 *>(out)[static_cast<size_t>(blockIdx.x) * THREADS + t] = make_uint4(
      packed(x[0], x[1]), packed(x[2], x[3]), packed(x[4], x[5]), packed(x[6], x[7]));
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(ROWS) * N / 2, OUTPUTS = INPUTS;
  __host__ __device__ static int value(size_t i, int half) {
    return static_cast<int>((mixed(static_cast<uint32_t>(i)) >> 16 * half & 0xFFFF) % 15) - 7;
  }
  __host__ __device__ static uint32_t bits(float x) {
    uint32_t word;
    memcpy(&word, &x, 4);
    return word;
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return bits(static_cast<float>(value(i, 0))) >> 16 |
           (bits(static_cast<float>(value(i, 1))) & 0xFFFF0000u);
  }
  static uint32_t expected(size_t i) {
    const size_t first = i / (N / 2) * (N / 2);
    uint32_t word = 0;
    for (int half = 0; half < 2; ++half) {
      const uint32_t n = static_cast<uint32_t>(i % (N / 2) * 2 + half);
      int sum = 0;
      for (uint32_t m = 0; m < N; ++m) {
        const int x = value(first + m / 2, m % 2);
        sum += __builtin_parity(m & n) ? -x : x;
      }
      const uint32_t u = bits(static_cast<float>(sum) / 64);
      word |= (sum == 0 ? 0 : (u + 0x7FFF + (u >> 16 & 1)) >> 16) << 16 * half;
    }
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<<<ROWS, THREADS>>>(in, out, FORM == 0 ? 24 : 31);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
