// Sums of the items of 16 sources by cell: every block sums its items, then adds to its source's
// table.
#include "program.cuh"

constexpr int CELLS = 1024, SOURCES = 16, THREADS = 256, CTAS = 132 * 8;
constexpr size_t ITEMS_PER_CTA = 131072;

__device__ unsigned int turns[SOURCES * 32];

template <int FORM>
__global__ __launch_bounds__(THREADS) void work(const uint32_t *in, uint32_t *out) {
  __shared__ __align__(16) uint32_t sums[CELLS];
  const int t = threadIdx.x, source = blockIdx.x % SOURCES;
  for (int i = t; i < CELLS; i += THREADS)
    sums[i] = 0;
  __syncthreads();
  const uint4 *items = reinterpret_cast<const uint4 *>(in + blockIdx.x * ITEMS_PER_CTA);
#pragma unroll 4
  for (int i = t; i < static_cast<int>(ITEMS_PER_CTA / 4); i += THREADS) {
    const uint4 item = items[i];
    atomicAdd(sums + item.x % CELLS, item.x >> 20);
    atomicAdd(sums + item.y % CELLS, item.y >> 20);
    atomicAdd(sums + item.z % CELLS, item.z >> 20);
    atomicAdd(sums + item.w % CELLS, item.w >> 20);
  }
  __syncthreads();
  uint32_t *const table = out + source * CELLS;
  if constexpr (FORM == 0) {
    unsigned int *const turn = turns + source * 32;
    if (t == 0) {
      while (atomicCAS(turn, 0u, 1u) != 0)
        ;
      __threadfence();
    }
    __syncthreads();
    uint4 *const own = reinterpret_cast<uint4 *>(table) + t;
    uint4 value = __ldcg(own);
    value.x += sums[t * 4];
    value.y += sums[t * 4 + 1];
    value.z += sums[t * 4 + 2];
    value.w += sums[t * 4 + 3];
    __stcg(own, value);
    __threadfence();
    __syncthreads();
    if (t == 0)
      atomicExch(turn, 0u);
  } else {
#pragma unroll
    for (int i = 0; i < CELLS; i += THREADS)
      atomicAdd(table + i + t, sums[i + t]);
  }
}

struct Program {
  static constexpr size_t INPUTS = CTAS * ITEMS_PER_CTA, OUTPUTS = SOURCES * CELLS;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i % (SOURCES * ITEMS_PER_CTA)) + 83);
  }

  static uint32_t expected(size_t i) {
    static std::vector<uint32_t> all;
    if (all.empty()) {
      all.resize(OUTPUTS);
      for (size_t k = 0; k < SOURCES * ITEMS_PER_CTA; ++k) {
        const uint32_t item = input<0>(k);
        all[k / ITEMS_PER_CTA * CELLS + item % CELLS] += (item >> 20) * (CTAS / SOURCES);
      }
    }
    return all[i];
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    CALL(cudaMemsetAsync(out, 0, OUTPUTS * sizeof *out));
    work<FORM><<<CTAS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
