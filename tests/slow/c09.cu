// Prefix sums within segments of 64 words, one warp a segment.
#include "program.cuh"

namespace {

constexpr int SEGMENT = 64, CTAS = 396, WARPS = 8, ROUNDS = 140;
constexpr size_t SEGMENTS = static_cast<size_t>(CTAS) * WARPS * ROUNDS;

template <int FORM> __device__ __forceinline__ void publish() {
  if constexpr (FORM == 0)
    __threadfence();
}

template <int FORM>
__global__ void __launch_bounds__(WARPS * 32) work(const uint32_t *__restrict__ in,
                                                   uint32_t *__restrict__ out) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  size_t at = (static_cast<size_t>(blockIdx.x) * WARPS + warp) * (SEGMENT / 2) + lane;
  for (int round = 0; round < ROUNDS; ++round, at += static_cast<size_t>(CTAS) * WARPS * (SEGMENT / 2)) {
    const uint2 pair = reinterpret_cast<const uint2 *>(in)[at];
    uint32_t sum = pair.x + pair.y;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, sum, d);
      sum += lane >= d ? other : 0;
    }
    reinterpret_cast<uint2 *>(out)[at] = make_uint2(sum - pair.y, sum);
    publish<FORM>();
  }
}

struct Program {
  static constexpr size_t INPUTS = SEGMENTS * SEGMENT, OUTPUTS = SEGMENTS * SEGMENT;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 1234567u);
  }
  static uint32_t expected(size_t i) {
    uint32_t sum = 0;
    for (size_t k = i / SEGMENT * SEGMENT; k <= i; ++k)
      sum += input<0>(k);
    return sum;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, WARPS * 32>>>(in, out);
    CALL(cudaGetLastError());
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
