// Excitable cells in rows of COLUMNS, each integrated over STEPS steps; the current into a cell
// depends on its column.
#include "program.cuh"

constexpr int ROWS = 1 << 18, COLUMNS = 36, STEPS = 48, THREADS = 256, ROWS_PER_CTA = 64;

__host__ __device__ inline float times(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

__host__ __device__ inline float plus(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

__host__ __device__ inline float integrated(float v, float current) {
  float w = 0;
#ifdef __CUDA_ARCH__
#pragma unroll 8
#endif
  for (int step = 0; step < STEPS; ++step) {
    const float slope = fmaf(v, fmaf(times(v, v), -0.3125f, 1.0f), plus(current, -w));
    const float recovery = fmaf(w, -0.75f, plus(v, 0.6875f));
    v = fmaf(slope, 0.0625f, v);
    w = fmaf(recovery, 0.0078125f, w);
  }
  return v;
}

template <int FORM> __global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  const int t = threadIdx.x;
  const float *currents = reinterpret_cast<const float *>(in) + static_cast<size_t>(ROWS) * COLUMNS;
  const size_t first = static_cast<size_t>(blockIdx.x) * ROWS_PER_CTA * COLUMNS;
  if (FORM == 0) {
#pragma unroll 1
    for (int row = t / 32; row < ROWS_PER_CTA; row += THREADS / 32)
#pragma unroll 1
      for (int column = t % 32; column < COLUMNS; column += 32) {
        const size_t i = first + row * COLUMNS + column;
        out[i] = __float_as_uint(integrated(__uint_as_float(in[i]), currents[column]));
      }
  } else {
#pragma unroll 1
    for (int cell = t; cell < ROWS_PER_CTA * COLUMNS; cell += THREADS) {
      const size_t i = first + cell;
      out[i] = __float_as_uint(integrated(__uint_as_float(in[i]), currents[cell % COLUMNS]));
    }
  }
}

struct Program {
  static constexpr size_t OUTPUTS = static_cast<size_t>(ROWS) * COLUMNS, INPUTS = OUTPUTS + COLUMNS;
  __host__ __device__ static float value(size_t i) {
    return static_cast<float>(static_cast<int>(mixed(static_cast<uint32_t>(i)) % 512) - 256) / 256;
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const float x = value(i);
    uint32_t word;
    memcpy(&word, &x, 4);
    return word;
  }
  static uint32_t expected(size_t i) {
    const float v = integrated(value(i), value(OUTPUTS + i % COLUMNS));
    uint32_t word;
    memcpy(&word, &v, 4);
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<ROWS / ROWS_PER_CTA, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
