// Sums down the columns of scaled bf16 rows, one range of rows to a CTA. A row is 2,048 bf16 and
// its scale.
#include "program.cuh"

constexpr int CTAS = 132, ROWS = 528, COLUMNS = 2048, ROW_WORDS = COLUMNS / 2 + 4;
constexpr int ROW_BYTES = ROW_WORDS * 4, ROOM = 8, READERS = 8, THREADS = READERS * 32 + 32;

__device__ __forceinline__ uint32_t at(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void wait(uint64_t *bar, uint32_t parity) {
  asm volatile("{\n.reg .pred p;\nagain:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@!p bra again;\n}" ::"r"(at(bar)), "r"(parity) : "memory");
}

template <int SLOTS>
__global__ void __launch_bounds__(THREADS, 1) work(const uint32_t *in, uint32_t *out) {
  __shared__ __align__(128) uint32_t rows[ROOM][ROW_WORDS];
  __shared__ uint64_t full[ROOM], empty[ROOM];
  const int t = threadIdx.x;
  if (t == 0) {
    for (int s = 0; s < ROOM; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full[s])) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(&empty[s])), "n"(READERS)
                   : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (t >= READERS * 32) {
    if (t == READERS * 32) {
      const uint32_t *from = in + static_cast<size_t>(blockIdx.x) * ROWS * ROW_WORDS;
#pragma unroll 1
      for (int r = 0; r < ROWS; ++r) {
        const int s = r % SLOTS;
        if (r >= SLOTS)
          wait(&empty[s], (r / SLOTS + 1) & 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&full[s])),
                     "n"(ROW_BYTES) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];" ::"r"(at(rows[s])),
                     "l"(__cvta_generic_to_global(from + static_cast<size_t>(r) * ROW_WORDS)),
                     "n"(ROW_BYTES), "r"(at(&full[s])) : "memory");
      }
    }
    return;
  }
  float sum[8] = {};
#pragma unroll 1
  for (int r = 0; r < ROWS; ++r) {
    const int s = r % SLOTS;
    wait(&full[s], r / SLOTS & 1);
    const float scale = __uint_as_float(rows[s][COLUMNS / 2]);
    const uint4 words = *reinterpret_cast<const uint4 *>(&rows[s][t * 4]);
    __syncwarp();
    if (t % 32 == 0)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(&empty[s])) : "memory");
    const uint32_t w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      sum[2 * j] = fmaf(scale, __uint_as_float(w[j] << 16), sum[2 * j]);
      sum[2 * j + 1] = fmaf(scale, __uint_as_float(w[j] & 0xFFFF0000u), sum[2 * j + 1]);
    }
  }
  float4 *to = reinterpret_cast<float4 *>(out + static_cast<size_t>(blockIdx.x) * COLUMNS + t * 8);
  to[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
  to[1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(CTAS) * ROWS * ROW_WORDS;
  static constexpr size_t OUTPUTS = static_cast<size_t>(CTAS) * COLUMNS;
  __host__ __device__ static float value(size_t i, int half) {
    return static_cast<float>(
        static_cast<int>((mixed(static_cast<uint32_t>(i)) >> 16 * half & 0xFFFF) % 15) - 7);
  }
  __host__ __device__ static float scale(size_t row) {
    return static_cast<float>(mixed(static_cast<uint32_t>(row) + 3) % 4 + 1);
  }
  __host__ __device__ static uint32_t bits(float x) {
    uint32_t word;
    memcpy(&word, &x, 4);
    return word;
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    if (i % ROW_WORDS >= COLUMNS / 2)
      return bits(scale(i / ROW_WORDS));
    return bits(value(i, 0)) >> 16 | (bits(value(i, 1)) & 0xFFFF0000u);
  }
  static uint32_t expected(size_t i) {
    const size_t cta = i / COLUMNS, column = i % COLUMNS;
    float sum = 0;
    for (size_t r = cta * ROWS; r < (cta + 1) * ROWS; ++r)
      sum += scale(r) * value(r * ROW_WORDS + column / 2, column % 2);
    return bits(sum);
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM == 0 ? 2 : ROOM><<<CTAS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
