// Weighted sums of 65,536 chunks of 8 KB with 96 KB of weights that stay in shared memory; out has
// eight parts of each chunk's sum. Warp 8 loads the chunks, warps 0 to 7 add.
#include "program.cuh"

#include "ptx.cuh"

namespace ptx = kernelrig::ptx;

constexpr int CHUNKS = 65536, CHUNK = 2048, PARTS = 8, PART = CHUNK / PARTS, GRID = 132;
constexpr int WEIGHTS = 12 * CHUNK, THREADS = 32 * (PARTS + 1);
constexpr uint32_t CHUNK_BYTES = CHUNK * 4, WEIGHT_BYTES = WEIGHTS * 4;
constexpr size_t WEIGHTS_AT = static_cast<size_t>(CHUNKS) * CHUNK;

__host__ __device__ constexpr int stages(int form) { return form == 0 ? 2 : 12; }

__device__ void wait(uint32_t barrier, uint32_t parity) {
  while (!ptx::mbarrier_try_wait(barrier, parity)) {
  }
}

__device__ void load(uint32_t to, const uint32_t *from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

template <int FORM>
__global__ void __launch_bounds__(THREADS, 1) work(const uint32_t *in, uint32_t *out) {
  constexpr int STAGES = stages(FORM);
  extern __shared__ __align__(128) uint32_t shared[]; // weights, then the ring
  __shared__ uint64_t barriers[2 * STAGES + 1];
  const uint32_t arrived = ptx::shared_address(barriers), released = arrived + 8 * STAGES;
  const uint32_t weights_arrived = released + 8 * STAGES;
  const uint32_t ring = ptx::shared_address(shared) + WEIGHT_BYTES;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      ptx::mbarrier_init(arrived + 8 * stage, 1);
      ptx::mbarrier_init(released + 8 * stage, PARTS);
    }
    ptx::mbarrier_init(weights_arrived, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  int stage = 0;
  uint32_t parity = 0;
  const auto advance = [&] {
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  };
  if (warp == PARTS) {
    if (ptx::elect_one()) {
      ptx::mbarrier_arrive_expect_tx(weights_arrived, WEIGHT_BYTES);
      load(ring - WEIGHT_BYTES, in + WEIGHTS_AT, WEIGHT_BYTES, weights_arrived);
      for (int chunk = blockIdx.x; chunk < CHUNKS; chunk += GRID) {
        wait(released + 8 * stage, parity ^ 1);
        ptx::mbarrier_arrive_expect_tx(arrived + 8 * stage, CHUNK_BYTES);
        load(ring + stage * CHUNK_BYTES, in + static_cast<size_t>(chunk) * CHUNK, CHUNK_BYTES,
             arrived + 8 * stage);
        advance();
      }
    }
    return;
  }
  wait(weights_arrived, 0);
  for (int chunk = blockIdx.x; chunk < CHUNKS; chunk += GRID) {
    const uint32_t *const weights = shared + chunk % (WEIGHTS / CHUNK) * CHUNK + warp * PART;
    const uint32_t *const words = shared + WEIGHTS + stage * CHUNK + warp * PART;
    wait(arrived + 8 * stage, parity);
    uint32_t sum = 0;
#pragma unroll
    for (int i = lane; i < PART; i += 32)
      sum += words[i] * weights[i];
    __syncwarp();
    if (lane == 0)
      ptx::mbarrier_arrive(released + 8 * stage);
    sum = __reduce_add_sync(0xFFFFFFFF, sum);
    if (lane == 0)
      out[chunk * PARTS + warp] = sum;
    advance();
  }
}

struct Program {
  static constexpr size_t INPUTS = WEIGHTS_AT + WEIGHTS;
  static constexpr size_t OUTPUTS = static_cast<size_t>(CHUNKS) * PARTS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i); }
  static uint32_t expected(size_t i) {
    const size_t chunk = i / PARTS, part = i % PARTS * PART;
    const size_t weights = WEIGHTS_AT + chunk % (WEIGHTS / CHUNK) * CHUNK + part;
    uint32_t sum = 0;
    for (size_t word = 0; word < PART; ++word)
      sum += input<0>(chunk * CHUNK + part + word) * input<0>(weights + word);
    return sum;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, GRID, THREADS, WEIGHT_BYTES + stages(FORM) * CHUNK_BYTES, in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
