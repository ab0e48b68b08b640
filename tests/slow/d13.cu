// A momentum step of an optimiser on fixed-point weights.
#include "program.cuh"

constexpr size_t COUNT = 48u << 20;
constexpr int THREADS = 256;

__device__ void stepped(uint32_t &weight, uint32_t &momentum, uint32_t gradient) {
  momentum = momentum - (momentum >> 3) + gradient;
  weight -= momentum >> 4;
}

template <int FORM>
__global__ __launch_bounds__(THREADS) void work(const uint32_t *in, uint32_t *out) {
  const size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
  const uint4 *from = reinterpret_cast<const uint4 *>(in) + i;
  uint4 *to = reinterpret_cast<uint4 *>(out) + i;
  uint4 weight = __ldcs(from), momentum = __ldcs(from + COUNT / 4);
  const uint4 gradient = __ldcs(from + COUNT / 2);
  stepped(weight.x, momentum.x, gradient.x);
  stepped(weight.y, momentum.y, gradient.y);
  stepped(weight.z, momentum.z, gradient.z);
  stepped(weight.w, momentum.w, gradient.w);
  __stcs(to, weight);
  __stcs(to + COUNT / 4, momentum);
}

struct Program {
  static constexpr size_t INPUTS = 3 * COUNT, OUTPUTS = 2 * COUNT;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 109);
  }

  static uint32_t expected(size_t i) {
    const size_t k = i % COUNT;
    uint32_t momentum = input<0>(COUNT + k);
    momentum = momentum - (momentum >> 3) + input<0>(2 * COUNT + k);
    return i < COUNT ? input<0>(k) - (momentum >> 4) : momentum;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<COUNT / 4 / THREADS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
