// A recurrent layer of 448 units in int8: h = byte 1 of (W h + x), 128 steps, one sequence a CTA, its
// weights in shared memory, a thread a unit.
#include "program.cuh"

namespace {

constexpr int UNITS = 448, STEPS = 128, SEQUENCES = 132, QUADS = UNITS / 16;
constexpr int WEIGHT_BYTES = UNITS * UNITS, SHARED_BYTES = WEIGHT_BYTES + 2 * UNITS;
constexpr size_t WEIGHT_WORDS = WEIGHT_BYTES / 4;

template <int FORM>
__global__ void __launch_bounds__(UNITS, 1) work(const uint32_t *__restrict__ in,
                                                 uint32_t *__restrict__ out) {
  extern __shared__ __align__(16) int4 shared[];
  int4 *const weights = shared; // [QUADS][UNITS]
  int4 *const state = shared + QUADS * UNITS;
  const int unit = threadIdx.x;
  for (int i = unit; i < QUADS * UNITS; i += UNITS)
    weights[i] = reinterpret_cast<const int4 *>(in)[i];
  if (unit < 2 * QUADS)
    state[unit] = make_int4(0x01010101, 0x01010101, 0x01010101, 0x01010101);
  __syncthreads();
  const int *const x = reinterpret_cast<const int *>(in) + WEIGHT_WORDS +
                       static_cast<size_t>(blockIdx.x) * STEPS * UNITS + unit;
  int next = x[0];
  for (int step = 0; step < STEPS; ++step) {
    const int4 *const h = state + step % 2 * QUADS;
    int sum[4] = {next, 0, 0, 0};
    if (step + 1 < STEPS)
      next = x[(step + 1) * UNITS];
#pragma unroll
    for (int k = 0; k < QUADS; ++k) {
      const int4 w = weights[k * UNITS + unit], v = h[k];
      sum[0] = __dp4a(w.x, v.x, sum[0]);
      sum[1] = __dp4a(w.y, v.y, sum[1]);
      sum[2] = __dp4a(w.z, v.z, sum[2]);
      sum[3] = __dp4a(w.w, v.w, sum[3]);
    }
    const int total = sum[0] + sum[1] + (sum[2] + sum[3]);
    reinterpret_cast<int8_t *>(state + (step + 1) % 2 * QUADS)[unit] =
        static_cast<int8_t>(total >> 8);
    if (step + 1 == STEPS)
      out[blockIdx.x * UNITS + unit] = static_cast<uint32_t>(total);
    __syncthreads();
  }
}

struct Program {
  static constexpr size_t INPUTS = WEIGHT_WORDS + 1ull * SEQUENCES * STEPS * UNITS;
  static constexpr size_t OUTPUTS = 1ull * SEQUENCES * UNITS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    const uint32_t word = mixed(static_cast<uint32_t>(i) + 63u);
    return i < WEIGHT_WORDS ? word : word & 0xFFFFu;
  }
  static uint32_t expected(size_t i) {
    static std::vector<uint32_t> all;
    if (all.empty()) {
      all.resize(OUTPUTS);
      std::vector<int8_t> weights(1ull * UNITS * UNITS); // [unit][k]
      for (size_t unit = 0; unit < UNITS; ++unit)
        for (size_t k = 0; k < UNITS; ++k)
          weights[unit * UNITS + k] = static_cast<int8_t>(
              input<0>((k / 16 * UNITS + unit) * 4 + k % 16 / 4) >> k % 4 * 8);
      for (size_t s = 0; s < SEQUENCES; ++s) {
        std::vector<int8_t> h(UNITS, 1), following(UNITS);
        for (size_t step = 0; step < STEPS; ++step) {
          for (size_t unit = 0; unit < UNITS; ++unit) {
            int sum = static_cast<int>(input<0>(WEIGHT_WORDS + (s * STEPS + step) * UNITS + unit));
            for (size_t k = 0; k < UNITS; ++k)
              sum += weights[unit * UNITS + k] * h[k];
            following[unit] = static_cast<int8_t>(sum >> 8);
            all[s * UNITS + unit] = static_cast<uint32_t>(sum);
          }
          h.swap(following);
        }
      }
    }
    return all[i];
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, SEQUENCES, UNITS, SHARED_BYTES, in, out);
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
