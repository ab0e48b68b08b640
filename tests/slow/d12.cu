// Products of a long matrix of bytes with four vectors, its rows brought by bulk copies.
#include "program.cuh"

constexpr int LENGTH = 1024, VECTORS = 4, ROWS = 6, CTAS = 132, TILES_PER_CTA = 1000;
constexpr int THREADS = (ROWS + 1) * 32, TILE_WORDS = ROWS * LENGTH / 4;
constexpr size_t MATRIX = static_cast<size_t>(CTAS) * TILES_PER_CTA * TILE_WORDS;

template <int FORM> constexpr int SLOTS = FORM == 0 ? 2 : 8;

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
  __shared__ uint64_t filled[SLOTS<FORM>], emptied[SLOTS<FORM>];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0)
    for (int i = 0; i < SLOTS<FORM>; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(filled + i)));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(emptied + i)),
                   "r"(ROWS));
    }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const size_t first = static_cast<size_t>(blockIdx.x) * TILES_PER_CTA;
  if (warp == ROWS) {
    if (lane == 0)
      for (int k = 0; k < TILES_PER_CTA; ++k) {
        const int slot = k % SLOTS<FORM>;
        if (k >= SLOTS<FORM>) {
          wait(emptied + slot, (k / SLOTS<FORM> - 1) & 1);
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
  uint4 vector[VECTORS][2];
#pragma unroll
  for (int v = 0; v < VECTORS; ++v)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      vector[v][h] =
          reinterpret_cast<const uint4 *>(in + MATRIX)[v * (LENGTH / 16) + h * 32 + lane];
  for (int k = 0; k < TILES_PER_CTA; ++k) {
    const int slot = k % SLOTS<FORM>;
    wait(filled + slot, k / SLOTS<FORM> & 1);
    const uint4 *row =
        reinterpret_cast<const uint4 *>(tiles + slot * TILE_WORDS + warp * (LENGTH / 4)) + lane;
    const uint4 part[2] = {row[0], row[32]};
    __syncwarp();
    if (lane == 0)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(emptied + slot))
                   : "memory");
    int own = 0;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      int sum = 0;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        sum = __dp4a(static_cast<int>(part[h].x), static_cast<int>(vector[v][h].x), sum);
        sum = __dp4a(static_cast<int>(part[h].y), static_cast<int>(vector[v][h].y), sum);
        sum = __dp4a(static_cast<int>(part[h].z), static_cast<int>(vector[v][h].z), sum);
        sum = __dp4a(static_cast<int>(part[h].w), static_cast<int>(vector[v][h].w), sum);
      }
      sum = __reduce_add_sync(~0u, sum);
      own = lane == v ? sum : own;
    }
    if (lane < VECTORS)
      out[((first + k) * ROWS + warp) * VECTORS + lane] = own;
  }
}

struct Program {
  static constexpr size_t INPUTS = MATRIX + VECTORS * LENGTH / 4,
                          OUTPUTS = static_cast<size_t>(CTAS) * TILES_PER_CTA * ROWS * VECTORS;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 107);
  }

  static uint32_t expected(size_t i) {
    int sum = 0;
    for (size_t k = 0; k < LENGTH / 4; ++k) {
      const uint32_t x = input<0>(i / VECTORS * (LENGTH / 4) + k),
                     y = input<0>(MATRIX + i % VECTORS * (LENGTH / 4) + k);
      for (int byte = 0; byte < 32; byte += 8)
        sum += static_cast<int8_t>(x >> byte) * static_cast<int8_t>(y >> byte);
    }
    return sum;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, CTAS, THREADS, SLOTS<FORM> * TILE_WORDS * 4, in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
