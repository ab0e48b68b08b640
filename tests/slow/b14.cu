// Gated activation of bf16 tensors: out = up * gate * clamp(gate + 3, 0, 6) / 8.
#include "program.cuh"

constexpr size_t WORDS = size_t(1) << 26;
constexpr int THREADS = 256, EACH = 2;

__device__ __forceinline__ uint32_t gated(uint32_t gate, uint32_t up) {
  const float g0 = __uint_as_float(gate << 16), g1 = __uint_as_float(gate & 0xFFFF0000u);
  const float u0 = __uint_as_float(up << 16), u1 = __uint_as_float(up & 0xFFFF0000u);
  const float low = u0 * (g0 * fminf(fmaxf(g0 + 3.0f, 0.0f), 6.0f)) * 0.125f;
  const float high = u1 * (g1 * fminf(fmaxf(g1 + 3.0f, 0.0f), 6.0f)) * 0.125f;
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

__global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  const uint4 *gate = reinterpret_cast<const uint4 *>(in), *up = gate + WORDS / 4;
  const size_t first = static_cast<size_t>(blockIdx.x) * THREADS * EACH + threadIdx.x;
  uint4 g[EACH], u[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    g[i] = __ldcs(gate + first + i * THREADS), u[i] = __ldcs(up + first + i * THREADS);
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    __stcs(reinterpret_cast<uint4 *>(out) + first + i * THREADS,
           make_uint4(gated(g[i].x, u[i].x), gated(g[i].y, u[i].y), gated(g[i].z, u[i].z),
                      gated(g[i].w, u[i].w)));
}

struct Program {
  static constexpr size_t INPUTS = 2 * WORDS, OUTPUTS = WORDS;
  __host__ __device__ static uint32_t bits(float x) {
    uint32_t word;
    memcpy(&word, &x, 4);
    return word;
  }
  __host__ __device__ static float value(size_t i, int half) {
    return static_cast<float>((mixed(static_cast<uint32_t>(i)) >> 16 * half & 0xFFFF) % 15 + 1);
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return bits(value(i, 0) - 4.5f) >> 16 | (bits(value(i, 1) - 4.5f) & 0xFFFF0000u);
  }
  static uint32_t expected(size_t i) {
    uint32_t word = 0;
    for (int half = 0; half < 2; ++half) {
      const float g = value(i, half) - 4.5f, u = value(i + WORDS, half) - 4.5f;
      const float x = u * (g * std::min(std::max(g + 3.0f, 0.0f), 6.0f)) * 0.125f;
      const uint32_t w = bits(x);
      word |= (w + 0x7FFF + (w >> 16 & 1)) >> 16 << 16 * half;
    }
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<<<WORDS / 4 / EACH / THREADS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
