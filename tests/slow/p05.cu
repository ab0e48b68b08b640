// Four words are made of each of 2^25 numbers; of four neighbours among 2^27 numbers one is kept.
#include "program.cuh"

constexpr int KEPT = 1 << 25, ROUNDS = 8, THREADS = 256, PER_THREAD = 4;

__host__ __device__ constexpr uint32_t place(uint32_t group) { return group >> 5 & 3; }

// As many rounds as there are lines, each an instruction or two under `kept`.
#define ROUND                                                                                      \
  "@kept mad.lo.u32 x, x, 0x7FEB352D, y;\n"                                                        \
  "@kept xor.b32 y, y, x;\n"                                                                       \
  "@kept mad.lo.u32 z, z, 0x846CA68B, x;\n"                                                        \
  "@kept xor.b32 w, w, z;\n"

__device__ void store_words(bool kept, uint32_t number, uint32_t *to) {
  asm volatile("{\n"
               ".reg .pred kept;\n"
               ".reg .u32 x, y, z, w;\n"
               "setp.ne.u32 kept, %0, 0;\n"
               "@kept mov.u32 x, %1;\n"
               "@kept not.b32 y, x;\n"
               "@kept add.u32 z, x, 1;\n"
               "@kept add.u32 w, x, 2;\n" ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND
               "@kept st.global.v4.u32 [%2], {x, y, z, w};\n"
               "}" ::"r"(static_cast<uint32_t>(kept)),
               "r"(number), "l"(to)
               : "memory");
}

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  const uint32_t seed = *in;
  const uint32_t first = blockIdx.x * THREADS * PER_THREAD + threadIdx.x;
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) {
    const uint32_t at = first + i * THREADS;
    if (FORM == 0)
      store_words(at % 4 == place(at / 4), at + seed, out + at / 4 * 4ull);
    else
      store_words(true, 4 * at + place(at) + seed, out + at * 4ull);
  }
}

struct Program {
  static constexpr size_t INPUTS = 1, OUTPUTS = 4ull * KEPT;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i + 1); }
  static uint32_t expected(size_t i) {
    const uint32_t group = i / 4, number = 4 * group + place(group) + input<0>(0);
    uint32_t words[] = {number, ~number, number + 1, number + 2};
    for (int round = 0; round < ROUNDS; ++round) {
      words[0] = words[0] * 0x7FEB352Du + words[1];
      words[1] ^= words[0];
      words[2] = words[2] * 0x846CA68Bu + words[0];
      words[3] ^= words[2];
    }
    return words[i % 4];
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<(FORM == 0 ? 4 : 1) * (KEPT / (THREADS * PER_THREAD)), THREADS>>>(in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
