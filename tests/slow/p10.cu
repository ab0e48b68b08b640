// 3,200 + 4 FP8 MMAs of 64 x 256 x 32 per warpgroup, two warpgroups per CTA, from shared memory:
// pairs that cancel (A B, then -A B), then one product A B of K 128 that is the output. All
// products are small integers, so sums are exact. What the pairs multiply differs by form.
#include "program.cuh"

#include "ptx.cuh"
#include "wgmma.cuh"

namespace ptx = kernelrig::ptx;
namespace wgmma = kernelrig::wgmma;

constexpr int GRID = 132, GROUPS = 2, GROUP = 128, ROWS = 64, COLUMNS = 256, K = 128, REPEATS = 400;
constexpr int A_BYTES = ROWS * K, B_BYTES = COLUMNS * K; // rows of 128 bytes
// Inputs and shared memory, in bytes: B and A of the pairs, -A, then B and A of the output.
constexpr int A_AT = B_BYTES, MINUS_A_AT = A_AT + A_BYTES, LAST_B_AT = MINUS_A_AT + A_BYTES;
constexpr int LAST_A_AT = LAST_B_AT + B_BYTES, BYTES = LAST_A_AT + A_BYTES;

// E4M3 of an integer from -15 to 15 times 2^scale, which is from -3 to 3.
__host__ __device__ uint8_t e4m3(int value, int scale) {
  const int size = value < 0 ? -value : value;
  if (size == 0)
    return 0;
  int exponent = 0;
  while (size >> (exponent + 1) != 0)
    ++exponent;
  return (value < 0 ? 0x80 : 0) | (exponent + scale + 7) << 3 | ((size << (3 - exponent)) & 7);
}

// A's column k is scaled by 2 to this, B's by its inverse: products stay integers.
__host__ __device__ int scale(uint32_t k) { return static_cast<int>(k * 5 % 7) - 3; }

__host__ __device__ int number(uint32_t i) { return static_cast<int>(mixed(i) % 31) - 15; }

template <int FORM>
__global__ void __launch_bounds__(GROUPS *GROUP, 1) work(const uint32_t *in, uint32_t *out) {
  extern __shared__ __align__(1024) uint4 shared[];
  const uint32_t smem = ptx::shared_address(shared);
  // the 128B swizzle: chunk c of row r lies at c ^ r % 8
  for (int i = threadIdx.x; i < BYTES / 16; i += GROUPS * GROUP)
    shared[i / 8 * 8 + (i % 8 ^ i / 8 % 8)] = reinterpret_cast<const uint4 *>(in)[i];
  ptx::fence_proxy_async_shared();
  __syncthreads();
  const uint64_t b = wgmma::matrix_descriptor(smem);
  const uint64_t a = wgmma::matrix_descriptor(smem + A_AT);
  const uint64_t minus_a = wgmma::matrix_descriptor(smem + MINUS_A_AT);
  const uint64_t last_b = wgmma::matrix_descriptor(smem + LAST_B_AT);
  const uint64_t last_a = wgmma::matrix_descriptor(smem + LAST_A_AT);
  float sums[128];
#pragma unroll
  for (int i = 0; i < 128; ++i)
    sums[i] = 0;
#pragma unroll 1
  for (int repeat = 0; repeat < REPEATS; ++repeat) {
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < K / 32; ++k) {
      wgmma::mma_k32_fp8(sums, a + 2 * k, b + 2 * k, true);
      wgmma::mma_k32_fp8(sums, minus_a + 2 * k, b + 2 * k, true);
    }
    wgmma::commit_group();
    wgmma::wait_group<1>();
  }
  wgmma::fence();
#pragma unroll
  for (int k = 0; k < K / 32; ++k)
    wgmma::mma_k32_fp8(sums, last_a + 2 * k, last_b + 2 * k, true);
  wgmma::commit_group();
  wgmma::wait_group<0>();
  const int thread = threadIdx.x % GROUP, group = blockIdx.x * GROUPS + threadIdx.x / GROUP;
#pragma unroll
  for (int i = 0; i < 128; ++i) {
    const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
    const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
    out[(group * ROWS + row) * COLUMNS + column] = static_cast<int>(sums[i]);
  }
}

struct Program {
  static constexpr size_t INPUTS = BYTES / 4;
  static constexpr size_t OUTPUTS = static_cast<size_t>(GRID) * GROUPS * ROWS * COLUMNS;
  template <int FORM> __host__ __device__ static int value(uint32_t i) {
    if (i >= LAST_B_AT)
      return number(i);
    if (FORM == 1)
      return 0;
    return i < MINUS_A_AT ? number(i) : -number(i - A_BYTES);
  }
  __host__ __device__ static int scale_at(uint32_t i) {
    const bool of_b = i < A_AT || (i >= LAST_B_AT && i < LAST_A_AT);
    return of_b ? -scale(i % K) : scale(i % K);
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    uint32_t word = 0;
    for (int byte = 0; byte < 4; ++byte)
      word |= e4m3(value<FORM>(4 * i + byte), scale_at(4 * i + byte)) << 8 * byte;
    return word;
  }
  static uint32_t expected(size_t i) {
    const size_t row = i / COLUMNS % ROWS, column = i % COLUMNS;
    int sum = 0;
    for (size_t k = 0; k < K; ++k)
      sum += number(LAST_A_AT + row * K + k) * number(LAST_B_AT + column * K + k);
    return sum;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, GRID, GROUPS * GROUP, BYTES, in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
