// A sparse matrix with ENTRIES in every row times a vector, a thread to a row. An entry is a bf16
// value and the distance of its column from the row's number.
#include "program.cuh"

constexpr int ROWS = 1 << 22, ENTRIES = 16, THREADS = 256, REACH = 128;

template <int FORM> __host__ __device__ constexpr size_t place(size_t row, size_t k) {
  return FORM == 0 ? row * ENTRIES + k : k * ROWS + row;
}

template <int FORM> __global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  const size_t row = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
  const float *x = reinterpret_cast<const float *>(in) + static_cast<size_t>(ROWS) * ENTRIES;
  float sum = 0;
#pragma unroll 4
  for (int k = 0; k < ENTRIES; ++k) {
    const uint32_t entry = __ldg(in + place<FORM>(row, k));
    sum = fmaf(__uint_as_float(entry & 0xFFFF0000u), __ldg(x + row + (entry & 0xFFFF)), sum);
  }
  out[row] = __float_as_uint(sum);
}

struct Program {
  static constexpr size_t MATRIX = static_cast<size_t>(ROWS) * ENTRIES;
  static constexpr size_t INPUTS = MATRIX + ROWS + REACH, OUTPUTS = ROWS;
  __host__ __device__ static uint32_t bits(float x) {
    uint32_t word;
    memcpy(&word, &x, 4);
    return word;
  }
  __host__ __device__ static float value(uint32_t h) {
    return static_cast<float>(static_cast<int>(h % 31) - 15);
  }
  __host__ __device__ static uint32_t entry(size_t row, size_t k) {
    const uint32_t h = mixed(static_cast<uint32_t>(row * ENTRIES + k));
    return (bits(value(h >> 8)) & 0xFFFF0000u) | static_cast<uint32_t>(k * 8 + h % 8);
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    if (i >= MATRIX)
      return bits(value(mixed(static_cast<uint32_t>(i))));
    return FORM == 0 ? entry(i / ENTRIES, i % ENTRIES) : entry(i % ROWS, i / ROWS);
  }
  static uint32_t expected(size_t i) {
    float sum = 0;
    for (size_t k = 0; k < ENTRIES; ++k) {
      const uint32_t own = entry(i, k), high = own & 0xFFFF0000u;
      float a;
      memcpy(&a, &high, 4);
      sum += a * value(mixed(static_cast<uint32_t>(MATRIX + i + (own & 0xFFFF))));
    }
    return bits(sum);
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<ROWS / THREADS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
