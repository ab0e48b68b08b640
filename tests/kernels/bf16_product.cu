// C = A B' in bf16 for sm_100a, a tile of 128 x 64 per CTA: TMA loads 32 columns of K at a time
// with a 64-byte swizzle into a ring of two stages, cta_group::1 MMAs accumulate in tensor memory,
// and each thread stores a row. It uses no code of the project's kernels: third-party code for the
// emulator.
#include <cstdint>
#include <cuda_bf16.h>

struct alignas(64) Map {
  char bytes[128];
};

constexpr int TILE_M = 128, TILE_N = 64, TILE_K = 32, STAGES = 2;
constexpr int A_BYTES = TILE_M * TILE_K * 2, B_BYTES = TILE_N * TILE_K * 2;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

__device__ uint32_t shared(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void wait(uint32_t barrier, uint32_t parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

__device__ void load(uint32_t to, const Map &map, int x, int y, uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(&map), "r"(x), "r"(y), "r"(barrier)
               : "memory");
}

__device__ void commit(uint32_t barrier) {
  asm volatile(
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier)
      : "memory");
}

// Start, stride of 8 rows, version 1, 64-byte swizzle (PTX ISA 9.7.16.4.1).
__device__ uint64_t descriptor(uint32_t start) {
  return (uint64_t(start >> 4) & 0x3FFF) | uint64_t(8 * 64 >> 4) << 32 | 1ull << 46 | 4ull << 61;
}

extern "C" __global__ void __launch_bounds__(128)
    bf16_product(const __grid_constant__ Map a, const __grid_constant__ Map b, __nv_bfloat16 *c,
                 int n, int k) {
  extern __shared__ __align__(1024) char stages[];
  __shared__ alignas(8) uint64_t barriers[2 * STAGES + 1];
  __shared__ uint32_t tensor;
  const int warp = threadIdx.x / 32, row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
  const uint32_t full = shared(barriers), empty = full + 8 * STAGES, done = empty + 8 * STAGES;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * STAGES + 1; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * i) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncwarp();
  if (warp == 2) {
    asm volatile(
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(shared(&tensor))
        : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  const uint32_t accumulator = tensor;

  const int blocks = k / TILE_K;
  if (threadIdx.x == 0) {
    for (int i = 0; i < blocks; ++i) {
      const int stage = i % STAGES;
      const uint32_t to = shared(stages) + stage * STAGE_BYTES;
      wait(empty + 8 * stage, (i / STAGES & 1) ^ 1);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full + 8 * stage),
                   "r"(STAGE_BYTES)
                   : "memory");
      load(to, a, i * TILE_K, row, full + 8 * stage);
      load(to + A_BYTES, b, i * TILE_K, column, full + 8 * stage);
    }
    // No commit may arrive in a CTA that has exited.
    for (int i = blocks; i < blocks + STAGES; ++i)
      wait(empty + 8 * (i % STAGES), (i / STAGES & 1) ^ 1);
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < blocks; ++i) {
      const int stage = i % STAGES;
      const uint32_t from = shared(stages) + stage * STAGE_BYTES;
      wait(full + 8 * stage, i / STAGES & 1);
      asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
      for (int step = 0; step < TILE_K / 16; ++step) {
        const uint64_t x = descriptor(from + 32 * step), y = descriptor(from + A_BYTES + 32 * step);
        const uint32_t adds = i || step;
        asm volatile("{\n"
                     ".reg .pred adds;\n"
                     "setp.ne.b32 adds, %4, 0;\n"
                     "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, adds;\n"
                     "}" ::"r"(accumulator),
                     "l"(x), "l"(y), "r"(0x08100490), "r"(adds)
                     : "memory");
      }
      commit(empty + 8 * stage);
    }
    commit(done);
  }
  __syncwarp();
  wait(done, 0);
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  __nv_bfloat16 *out = c + size_t(row + threadIdx.x) * n + column;
  for (int part = 0; part < TILE_N; part += 16) {
    uint32_t v[16];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]),
                   "=r"(v[6]), "=r"(v[7]), "=r"(v[8]), "=r"(v[9]), "=r"(v[10]), "=r"(v[11]),
                   "=r"(v[12]), "=r"(v[13]), "=r"(v[14]), "=r"(v[15])
                 : "r"(accumulator + (warp << 21) + part));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    __nv_bfloat162 pairs[8];
    for (int i = 0; i < 8; ++i)
      pairs[i] = __floats2bfloat162_rn(__uint_as_float(v[2 * i]), __uint_as_float(v[2 * i + 1]));
    for (int i = 0; i < 2; ++i)
      reinterpret_cast<uint4 *>(out + part)[i] = reinterpret_cast<const uint4 *>(pairs)[i];
  }
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();
  if (warp == 2) {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(accumulator));
  }
}
