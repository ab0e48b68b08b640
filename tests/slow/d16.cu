// Messages between pairs of states in the log domain, summed over a ladder of offsets.
#include "program.cuh"

constexpr int LADDER = 32, THREADS = 256, CTAS = 132 * 8 * 48;
constexpr size_t PAIRS = static_cast<size_t>(CTAS) * THREADS;

__device__ float raised(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ float logarithm(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <int FORM>
__global__ __launch_bounds__(THREADS, 8) void work(const uint32_t *in, uint32_t *out) {
  const size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
  const float2 pair = reinterpret_cast<const float2 *>(in)[i];
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < LADDER; ++k) {
    const float offset = static_cast<float>(k);
    sum += logarithm(raised(pair.x + offset) * raised(pair.y - 2.0f * offset));
  }
  out[i] = static_cast<uint32_t>(__float2int_rn(sum));
}

struct Program {
  static constexpr size_t INPUTS = 2 * PAIRS, OUTPUTS = PAIRS;

  __host__ __device__ static int state(size_t i) {
    return static_cast<int>(mixed(static_cast<uint32_t>(i) + 131) & 15) - 8;
  }

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const float value = static_cast<float>(state(i));
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
  }

  static uint32_t expected(size_t i) {
    return static_cast<uint32_t>(LADDER * (state(2 * i) + state(2 * i + 1)) -
                                 LADDER * (LADDER - 1) / 2);
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
