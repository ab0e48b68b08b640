// Sorts rows of 64 keys, ascending, one warp a row.
#include "program.cuh"

namespace {

constexpr int WARPS = 32, KEYS = 64, ROUNDS = 60, CTAS = 132;
constexpr size_t ROWS = static_cast<size_t>(CTAS) * ROUNDS * WARPS;

// Where key i of a row lies in the row's 64 words.
__device__ __forceinline__ int place(int i) { return i ^ (i >> 5) * 31; }

template <int FORM> __device__ __forceinline__ void step() {
  if constexpr (FORM == 0)
    __syncthreads();
  else
    __syncwarp();
}

template <int FORM>
__global__ void __launch_bounds__(WARPS * 32, 1) work(const uint32_t *in, uint32_t *out) {
  __shared__ uint32_t keys[WARPS][KEYS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t *const own = keys[warp];
  size_t row = static_cast<size_t>(blockIdx.x) * ROUNDS * WARPS + warp;
  uint2 next = reinterpret_cast<const uint2 *>(in + row * KEYS)[lane];
  for (int round = 0; round < ROUNDS; ++round, row += WARPS) {
    own[place(2 * lane)] = next.x;
    own[place(2 * lane + 1)] = next.y;
    if (round + 1 < ROUNDS)
      next = reinterpret_cast<const uint2 *>(in + (row + WARPS) * KEYS)[lane];
#pragma unroll
    for (int size = 2; size <= KEYS; size *= 2)
#pragma unroll
      for (int stride = size / 2; stride > 0; stride /= 2) {
        step<FORM>();
        const int i = 2 * lane - (lane & (stride - 1));
        uint32_t *const a = own + place(i), *const b = own + place(i + stride);
        const uint32_t x = *a, y = *b;
        const bool up = (i & size) == 0;
        *a = up ? min(x, y) : max(x, y);
        *b = up ? max(x, y) : min(x, y);
      }
    step<FORM>();
    uint2 sorted;
    sorted.x = own[place(2 * lane)];
    sorted.y = own[place(2 * lane + 1)];
    reinterpret_cast<uint2 *>(out + row * KEYS)[lane] = sorted;
  }
}

struct Program {
  static constexpr size_t INPUTS = ROWS * KEYS, OUTPUTS = ROWS * KEYS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 77u);
  }
  static uint32_t expected(size_t i) {
    uint32_t row[KEYS];
    for (int k = 0; k < KEYS; ++k)
      row[k] = input<0>(i / KEYS * KEYS + k);
    std::sort(row, row + KEYS);
    return row[i % KEYS];
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, WARPS * 32>>>(in, out);
    CALL(cudaGetLastError());
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
