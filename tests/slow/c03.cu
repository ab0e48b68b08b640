// Matrix of int8 times a vector of int8: rows of 512 bytes arrive in shared memory by bulk copies.
#include "program.cuh"

namespace {

constexpr int ROW_WORDS = 128, GROUP = 8, CTAS = 132, THREADS = (GROUP + 1) * 32;
constexpr int CHUNK_WORDS = ROW_WORDS * GROUP, CHUNK_BYTES = CHUNK_WORDS * 4;
constexpr int CHUNKS = 1 << 16;

template <int FORM> constexpr int SLOTS = FORM == 0 ? 2 : 10;

__device__ __forceinline__ uint32_t address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void wait(uint32_t barrier, uint32_t parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  constexpr int N = SLOTS<FORM>;
  __shared__ alignas(128) uint4 ring[N][CHUNK_WORDS / 4];
  __shared__ uint64_t full[N], empty[N];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < N; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&full[i])) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(&empty[i])), "r"(GROUP)
                   : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (warp == GROUP) {
    if (lane == 0) {
      int slot = 0;
      uint32_t parity = 1;
      for (int chunk = blockIdx.x; chunk < CHUNKS; chunk += CTAS) {
        wait(address(&empty[slot]), parity);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                         address(&full[slot])),
                     "r"(CHUNK_BYTES)
                     : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                     "%2, [%3];" ::"r"(address(ring[slot])),
                     "l"(in + static_cast<size_t>(chunk) * CHUNK_WORDS), "r"(CHUNK_BYTES),
                     "r"(address(&full[slot]))
                     : "memory");
        if (++slot == N) {
          slot = 0;
          parity ^= 1;
        }
      }
    }
  } else {
    const int4 x =
        reinterpret_cast<const int4 *>(in + static_cast<size_t>(CHUNKS) * CHUNK_WORDS)[lane];
    int slot = 0;
    uint32_t parity = 0;
    for (int chunk = blockIdx.x; chunk < CHUNKS; chunk += CTAS) {
      wait(address(&full[slot]), parity);
      const uint4 a = ring[slot][warp * (ROW_WORDS / 4) + lane];
      __syncwarp();
      if (lane == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(&empty[slot]))
                     : "memory");
      int sum = __dp4a(static_cast<int>(a.x), x.x, 0);
      sum = __dp4a(static_cast<int>(a.y), x.y, sum);
      sum = __dp4a(static_cast<int>(a.z), x.z, sum);
      sum = __dp4a(static_cast<int>(a.w), x.w, sum);
      sum = __reduce_add_sync(0xFFFFFFFFu, sum);
      if (lane == 0)
        out[chunk * GROUP + warp] = static_cast<uint32_t>(sum);
      if (++slot == N) {
        slot = 0;
        parity ^= 1;
      }
    }
  }
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(CHUNKS) * CHUNK_WORDS + ROW_WORDS;
  static constexpr size_t OUTPUTS = static_cast<size_t>(CHUNKS) * GROUP;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) ^ 0x51ED27u);
  }
  static uint32_t expected(size_t i) {
    int sum = 0;
    for (size_t k = 0; k < ROW_WORDS; ++k) {
      const uint32_t a = input<0>(i * ROW_WORDS + k);
      const uint32_t x = input<0>(static_cast<size_t>(CHUNKS) * CHUNK_WORDS + k);
      for (int b = 0; b < 32; b += 8)
        sum += static_cast<int8_t>(a >> b) * static_cast<int8_t>(x >> b);
    }
    return static_cast<uint32_t>(sum);
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
