// C = A B^T, BF16 in, FP32 out, by mma.sync from a ring of tiles.
#include "program.cuh"

namespace {

constexpr int M = 4096, N = 4096, K = 2048;
constexpr int BM = 128, BN = 128, BK = 32, THREADS = 256, RING = 4;
constexpr int RING_BYTES = 98304;

// Halves from one row of a tile to the next.
template <int FORM> constexpr int PITCH = FORM == 0 ? 48 : 40;

__device__ __forceinline__ uint32_t address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void matrices(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <int FORM> __device__ __forceinline__ void fetch(uint32_t tile, const uint16_t *from) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int chunk = threadIdx.x + i * THREADS, row = chunk / 4, column = chunk % 4 * 8;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     tile + (row * PITCH<FORM> + column) * 2),
                 "l"(from + static_cast<size_t>(row) * K + column)
                 : "memory");
  }
}

template <int FORM>
__global__ void __launch_bounds__(THREADS, 2) work(const uint32_t *in, uint32_t *out) {
  extern __shared__ __align__(128) unsigned char ring[];
  constexpr int P = PITCH<FORM>, TILE_BYTES = BM * P * 2, SLOT_BYTES = 2 * TILE_BYTES;
  static_assert(RING * SLOT_BYTES <= RING_BYTES);
  // Eight rows of tiles at a time.
  const int strip = blockIdx.x / (8 * (N / BN)), within = blockIdx.x % (8 * (N / BN));
  const int tile_m = strip * 8 + within % 8, tile_n = within / 8;
  const uint16_t *const a = reinterpret_cast<const uint16_t *>(in) + 1ull * tile_m * BM * K;
  const uint16_t *const b =
      reinterpret_cast<const uint16_t *>(in) + 1ull * M * K + 1ull * tile_n * BN * K;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp % 2 * 64, warp_n = warp / 2 * 32;
  const uint32_t base = address(ring);
  const uint32_t own_a = ((warp_m + lane % 16) * P + lane / 16 * 8) * 2;
  const uint32_t own_b =
      TILE_BYTES + ((warp_n + lane % 8 + lane / 16 * 8) * P + lane / 8 % 2 * 8) * 2;

  float c[4][4][4] = {};
#pragma unroll
  for (int s = 0; s < RING - 1; ++s) {
    fetch<FORM>(base + s * SLOT_BYTES, a + s * BK);
    fetch<FORM>(base + s * SLOT_BYTES + TILE_BYTES, b + s * BK);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  for (int k = 0; k < K / BK; ++k) {
    asm volatile("cp.async.wait_group %0;" ::"n"(RING - 2) : "memory");
    __syncthreads();
    const int ahead = k + RING - 1;
    if (ahead < K / BK) {
      const uint32_t slot = base + ahead % RING * SLOT_BYTES;
      fetch<FORM>(slot, a + ahead * BK);
      fetch<FORM>(slot + TILE_BYTES, b + ahead * BK);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    const uint32_t slot = base + k % RING * SLOT_BYTES;
#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      uint32_t fa[4][4], fb[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        matrices(fa[i], slot + own_a + (i * 16 * P + kk) * 2);
#pragma unroll
      for (int j = 0; j < 2; ++j)
        matrices(fb[j], slot + own_b + (j * 16 * P + kk) * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          mma(c[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
    }
  }
  float *const to = reinterpret_cast<float *>(out) + 1ull * tile_m * BM * N + tile_n * BN;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = warp_m + i * 16 + lane / 4, column = warp_n + j * 8 + lane % 4 * 2;
      *reinterpret_cast<float2 *>(to + 1ull * row * N + column) =
          make_float2(c[i][j][0], c[i][j][1]);
      *reinterpret_cast<float2 *>(to + 1ull * (row + 8) * N + column) =
          make_float2(c[i][j][2], c[i][j][3]);
    }
}

struct Program {
  static constexpr size_t INPUTS = (1ull * M * K + 1ull * N * K) / 2, OUTPUTS = 1ull * M * N;
  // Half i of the inputs: -1, 0, 1 or 2.
  __host__ __device__ static int value(size_t i) {
    return static_cast<int>(mixed(static_cast<uint32_t>(i) + 9u) >> 7 & 3u) - 1;
  }
  __host__ __device__ static uint32_t bf16(int v) {
    return v == -1 ? 0xBF80u : v == 0 ? 0u : v == 1 ? 0x3F80u : 0x4000u;
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return bf16(value(2 * i)) | bf16(value(2 * i + 1)) << 16;
  }
  static uint32_t expected(size_t i) {
    const size_t row = i / N, column = i % N;
    int sum = 0;
    for (size_t k = 0; k < K; ++k)
      sum += value(row * K + k) * value(1ull * M * K + column * K + k);
    const float f = static_cast<float>(sum);
    uint32_t word;
    std::memcpy(&word, &f, sizeof word);
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, (M / BM) * (N / BN), THREADS, RING_BYTES, in, out);
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
