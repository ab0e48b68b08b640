// A layer of bf16 tokens with an activation, summed over the tokens of each warp. Two groups of
// four warps share the tokens of a CTA. Tokens and weights lie in the order of fragments.
#include "program.cuh"

constexpr int CTAS = 132, WARPS = 8, TILES = 64, K = 64, N = 128;
constexpr int TILE_WORDS = 16 * K / 2, WEIGHT_WORDS = N * K / 2;

__device__ __forceinline__ void multiply(float (&d)[4], const uint4 &a, uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
               "{%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

__host__ __device__ inline float activated(float x) {
  return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f);
}

template <int FORM> __global__ void __launch_bounds__(WARPS * 32, 1) work(const uint32_t *in, uint32_t *out) {
  __shared__ uint4 weights[WEIGHT_WORDS / 4];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32, group = warp / 4;
  const uint4 *given = reinterpret_cast<const uint4 *>(
      in + static_cast<size_t>(CTAS) * WARPS * TILES * TILE_WORDS);
  for (int i = t; i < WEIGHT_WORDS / 4; i += WARPS * 32)
    weights[i] = given[i];
  __syncthreads();
  const uint4 *tokens = reinterpret_cast<const uint4 *>(in) +
                        static_cast<size_t>(blockIdx.x * WARPS + warp) * TILES * (TILE_WORDS / 4) + lane;
  float sum[N / 8][2] = {};
  uint4 a[4];
#pragma unroll
  for (int k = 0; k < 4; ++k)
    a[k] = tokens[k * 32];
  if (FORM == 0 && group == 1)
    asm volatile("bar.arrive 1, 256;" ::: "memory");
#pragma unroll 1
  for (int tile = 0; tile < TILES; ++tile) {
    uint4 next[4];
    const int ahead = tile + 1 < TILES ? tile + 1 : tile;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      next[k] = tokens[ahead * (TILE_WORDS / 4) + k * 32];
    if (FORM == 0)
      asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
#pragma unroll
    for (int n = 0; n < N / 8; n += 8) {
      float d[8][4] = {};
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
          const uint4 b = weights[((n + j) / 2 * 4 + k) * 32 + lane];
          multiply(d[j], a[k], b.x, b.y);
          multiply(d[j + 1], a[k], b.z, b.w);
        }
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c)
          sum[n + j][c % 2] += activated(d[j][c]);
    }
    if (FORM == 0 && (group == 0 || tile + 1 < TILES))
      asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k)
      a[k] = next[k];
  }
#pragma unroll
  for (int n = 0; n < N / 8; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      for (int step = 4; step < 32; step *= 2)
        sum[n][c] += __shfl_xor_sync(~0u, sum[n][c], step);
      if (lane < 4)
        out[static_cast<size_t>(blockIdx.x * WARPS + warp) * N + n * 8 + lane * 2 + c] =
            __float_as_uint(sum[n][c]);
    }
}

struct Program {
  static constexpr size_t TOKENS = static_cast<size_t>(CTAS) * WARPS * TILES * TILE_WORDS;
  static constexpr size_t INPUTS = TOKENS + WEIGHT_WORDS;
  static constexpr size_t OUTPUTS = static_cast<size_t>(CTAS) * WARPS * N;
  __host__ __device__ static float value(size_t i, int half) {
    const uint32_t x = mixed(static_cast<uint32_t>(i)) >> 16 * half & 0xFFFF;
    return static_cast<float>(static_cast<int>(x % 3) - 1);
  }
  __host__ __device__ static uint32_t bits(float x) {
    uint32_t word;
    memcpy(&word, &x, 4);
    return word;
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return bits(value(i, 0)) >> 16 | (bits(value(i, 1)) & 0xFFFF0000u);
  }
  static float token(size_t tile, int row, int k) {
    const int lane = row % 8 * 4 + k % 8 / 2, place = row / 8 + k % 16 / 8 * 2;
    return value(tile * TILE_WORDS + (k / 16 * 32 + lane) * 4 + place, k % 2);
  }
  static float weight(int k, int n) {
    const int lane = n % 8 * 4 + k % 8 / 2, place = n / 8 % 2 * 2 + k % 16 / 8;
    return value(TOKENS + ((n / 16 * 4 + k / 16) * 32 + lane) * 4 + place, k % 2);
  }
  static uint32_t expected(size_t i) {
    const size_t warp = i / N;
    const int n = static_cast<int>(i % N);
    float column[K], sum = 0;
    for (int k = 0; k < K; ++k)
      column[k] = weight(k, n);
    for (size_t tile = warp * TILES; tile < (warp + 1) * TILES; ++tile)
      for (int row = 0; row < 16; ++row) {
        float x = 0;
        for (int k = 0; k < K; ++k)
          x += token(tile, row, k) * column[k];
        sum += activated(x);
      }
    return bits(sum);
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, WARPS * 32>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
