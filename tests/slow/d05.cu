// Digests of the columns of many small matrices, which bulk copies bring into a ring of buffers.
#include "program.cuh"

constexpr int ROWS = 32, COLUMNS = 128, TILE_WORDS = ROWS * COLUMNS, RING = 4;
constexpr int CTAS = 132, TILES_PER_CTA = 400, THREADS = 288;

__host__ __device__ constexpr uint32_t digested(uint32_t state, uint32_t word) {
  const uint32_t a = mixed(state ^ word);
  return (a << 7 | a >> 25) * 9 + 0x52DCE729u;
}

__device__ uint32_t address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void wait(const uint64_t *bar, int parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "AGAIN:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra AGAIN;\n"
               "}\n" ::"r"(address(bar)),
               "r"(parity)
               : "memory");
}

template <int FORM>
__global__ __launch_bounds__(THREADS, 1) void work(const uint32_t *in, uint32_t *out) {
  extern __shared__ __align__(128) uint32_t tiles[];
  __shared__ uint64_t filled[RING], emptied[RING];
  if (threadIdx.x == 0)
    for (int i = 0; i < RING; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(filled + i)));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(address(emptied + i)));
    }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const size_t first = static_cast<size_t>(blockIdx.x) * TILES_PER_CTA;
  const int group = threadIdx.x / 128;
  if (group == 2) {
    if (threadIdx.x == 256)
      for (int k = 0; k < TILES_PER_CTA; ++k) {
        const int slot = k % RING;
        if (k >= RING) {
          wait(emptied + slot, (k / RING - 1) & 1);
          asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        }
        asm volatile(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(filled + slot)),
            "r"(TILE_WORDS * 4)
            : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];" ::"r"(address(tiles + slot * TILE_WORDS)),
                     "l"(in + (first + k) * TILE_WORDS), "r"(TILE_WORDS * 4),
                     "r"(address(filled + slot))
                     : "memory");
      }
    return;
  }
  const int column = threadIdx.x % 128;
  for (int k = 0; k < TILES_PER_CTA; ++k) {
    if ((FORM == 0 ? 0 : k & 1) != group)
      continue;
    const int slot = k % RING;
    wait(filled + slot, k / RING & 1);
    const uint32_t *tile = tiles + slot * TILE_WORDS + column;
    uint32_t state = 0;
#pragma unroll 8
    for (int row = 0; row < ROWS; ++row)
      state = digested(state, tile[row * COLUMNS]);
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(emptied + slot))
                 : "memory");
    out[(first + k) * COLUMNS + column] = state;
  }
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(CTAS) * TILES_PER_CTA * TILE_WORDS,
                          OUTPUTS = INPUTS / ROWS;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 59);
  }

  static uint32_t expected(size_t i) {
    uint32_t state = 0;
    for (int row = 0; row < ROWS; ++row)
      state = digested(state, input<0>(i / COLUMNS * TILE_WORDS + row * COLUMNS + i % COLUMNS));
    return state;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, CTAS, THREADS, RING * TILE_WORDS * 4, in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
