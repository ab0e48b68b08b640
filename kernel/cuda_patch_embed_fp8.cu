// The fused patch-embed GEMM on plain CUDA cores, for comparison: correct on any arch, so that the
// rig can be built and tried; its time is not the project's.
//
//   C[M, 768] = bf16(A[M, 768] x B[768, 768]^T) +bf16 comb[row % 196, 768]       M = images x 196
//
// A, B: E4M3, row-major, K contiguous. comb, C: BF16, row-major. FP32 accumulation in K order. Any
// images >= 1 and ctas >= 0; rows past M are read as zero and never stored.
//
// A persistent CTA of 256 threads computes 128 x 128 tiles, columns fastest, in K steps of 32. All
// warps have one role. The codes of a step are loaded from global memory into registers, decoded to
// FP32 once, and kept K-major in a ring of two slots in shared memory; a thread computes 8 x 8.
//
//   step t:   fetch codes of t+1 (global memory -> registers)
//             multiply slot t % 2 into the accumulators
//             publish t+1 (registers -> slot (t+1) % 2)      last read in step t-1, a barrier ago
//             last K step of a tile: store C, clear accumulators
//             __syncthreads       all warps: slot t % 2 is released, slot (t+1) % 2 has arrived
//
// Steps are counted across tiles: the ring does not drain before the CTA's last tile. The kernel
// has no mbarrier wait, so KERNELRIG_WATCHDOG_NS (debug) has no effect. Reading: CUTLASS's SIMT
// GEMM.

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "memory_layout.cuh"
#include "phase_clock.cuh"

namespace {

using kernelrig::lie_apart;
using kernelrig::PhaseClock;
using kernelrig::SharedRegion;

struct Config {
  static constexpr int ROWS_PER_IMAGE = 196;
  static constexpr int N = 768;
  static constexpr int K = 768;
  static constexpr int BLOCK_M = 128;
  static constexpr int BLOCK_N = 128;
  static constexpr int BLOCK_K = 32;
  static constexpr int THREADS = 256;
  static constexpr int LOAD_PIPE_DEPTH = 2;
  static constexpr int CODES_PER_FETCH = 16; // one 128-bit load
  static constexpr int K_STEPS = K / BLOCK_K;
  static constexpr int TILES_ACROSS = N / BLOCK_N;
  static constexpr int SLOT_FLOATS = BLOCK_K * (BLOCK_M + BLOCK_N);
  static constexpr int DYNAMIC_SMEM_BYTES = LOAD_PIPE_DEPTH * SLOT_FLOATS * sizeof(float);

  static constexpr int A_BYTES = BLOCK_K * BLOCK_M * sizeof(float); // of a slot; B follows
  static constexpr int SLOT_BYTES = SLOT_FLOATS * sizeof(float);
  static constexpr SharedRegion SHARED_LAYOUT[] = {
      SharedRegion::buffers("A", 0, A_BYTES, LOAD_PIPE_DEPTH, SLOT_BYTES),
      SharedRegion::buffers("B", A_BYTES, SLOT_BYTES - A_BYTES, LOAD_PIPE_DEPTH, SLOT_BYTES)};

  static_assert(lie_apart(SHARED_LAYOUT, DYNAMIC_SMEM_BYTES),
                "what is declared of shared memory must fit it without overlap");

  static_assert(N % BLOCK_N == 0 && K % BLOCK_K == 0, "only rows are guarded");
  static_assert(BLOCK_M == BLOCK_N, "one thread fetches the same line of A and of B");
  static_assert(BLOCK_M * BLOCK_K == THREADS * CODES_PER_FETCH, "a step is one fetch per thread");
  static_assert(LOAD_PIPE_DEPTH == 2, "one barrier per step orders two slots, no more");
  static_assert(DYNAMIC_SMEM_BYTES <= 232448, "what a CTA may have on sm_90 and sm_100");
};

enum Phase { FETCH, MULTIPLY, PUBLISH, STORE, BARRIER, PHASE_COUNT };

struct Params {
  const uint8_t *a;
  const uint8_t *b;
  const __nv_bfloat16 *comb;
  __nv_bfloat16 *c;
  int m;
  unsigned long long *phase_clocks;
};

__device__ __forceinline__ int tile_of(int step) {
  return blockIdx.x + step / Config::K_STEPS * gridDim.x;
}

// The codes that one thread fetches in a step: 16 along K of one line of A and of the same line of
// B.
struct Codes {
  uint4 a, b;
};

__device__ __forceinline__ Codes fetch(const uint8_t *a, const uint8_t *b, int m, int step) {
  const int tile = tile_of(step);
  const int line = threadIdx.x % Config::BLOCK_M;
  const int k = step % Config::K_STEPS * Config::BLOCK_K +
                threadIdx.x / Config::BLOCK_M * Config::CODES_PER_FETCH;
  const size_t row = static_cast<size_t>(tile / Config::TILES_ACROSS) * Config::BLOCK_M + line;
  const size_t column = static_cast<size_t>(tile % Config::TILES_ACROSS) * Config::BLOCK_N + line;
  Codes codes;
  codes.a = row < m ? __ldg(reinterpret_cast<const uint4 *>(a + row * Config::K + k)) : uint4{};
  codes.b = __ldg(reinterpret_cast<const uint4 *>(b + column * Config::K + k));
  return codes;
}

__device__ __forceinline__ float2 decode_pair(uint32_t codes) {
  const __half2_raw pair =
      __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes & 0xFFFF), __NV_E4M3);
  return __half22float2(__half2(pair));
}

// The lanes of a warp have adjacent lines: each of the 16 stores uses all 32 banks once.
__device__ __forceinline__ void publish_lines(float *lines, const uint4 &codes) {
  const int line = threadIdx.x % Config::BLOCK_M;
  float *to =
      lines + threadIdx.x / Config::BLOCK_M * Config::CODES_PER_FETCH * Config::BLOCK_M + line;
  const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
  for (int pair = 0; pair < Config::CODES_PER_FETCH / 2; ++pair) {
    const float2 values = decode_pair(words[pair / 2] >> (pair % 2 * 16));
    to[2 * pair * Config::BLOCK_M] = values.x;
    to[(2 * pair + 1) * Config::BLOCK_M] = values.y;
  }
}

__device__ __forceinline__ void publish(float *slot, const Codes &codes) {
  publish_lines(slot, codes.a);
  publish_lines(slot + Config::BLOCK_K * Config::BLOCK_M, codes.b);
}

// The position of a thread's 8 x 8 outputs in a tile: 4 x 2 warps of 4 x 8 lanes, each with two
// groups of four rows and two of four columns, so that shared-memory reads are 128 bits wide.
struct Place {
  int row, column;

  __device__ __forceinline__ Place() {
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    row = warp % 4 * 32 + lane / 8 * 4;
    column = warp / 4 * 64 + lane % 8 * 4;
  }

  static constexpr int NEXT_ROWS = 16;
  static constexpr int NEXT_COLUMNS = 32;
};

__device__ __forceinline__ void load_eight(float (&to)[8], const float *from, int next) {
  const float4 low = *reinterpret_cast<const float4 *>(from);
  const float4 high = *reinterpret_cast<const float4 *>(from + next);
  to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
  to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}

__device__ __forceinline__ void multiply(float (&acc)[8][8], const float *slot,
                                         const Place &place) {
  const float *a = slot + place.row;
  const float *b = slot + Config::BLOCK_K * Config::BLOCK_M + place.column;
#pragma unroll 8
  for (int k = 0; k < Config::BLOCK_K; ++k) {
    float rows[8], columns[8];
    load_eight(rows, a + k * Config::BLOCK_M, Place::NEXT_ROWS);
    load_eight(columns, b + k * Config::BLOCK_N, Place::NEXT_COLUMNS);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j)
        acc[i][j] = fmaf(rows[i], columns[j], acc[i][j]);
    }
  }
}

// Four outputs in one 64-bit store: bf16(acc), then a second rounding in the sum with comb.
__device__ __forceinline__ void store_four(__nv_bfloat16 *c, const __nv_bfloat16 *comb,
                                           const float *acc) {
  const __nv_bfloat162 *add = reinterpret_cast<const __nv_bfloat162 *>(comb);
  alignas(8) __nv_bfloat162 sums[2];
  sums[0] = __hadd2(__floats2bfloat162_rn(acc[0], acc[1]), add[0]);
  sums[1] = __hadd2(__floats2bfloat162_rn(acc[2], acc[3]), add[1]);
  *reinterpret_cast<uint2 *>(c) = *reinterpret_cast<const uint2 *>(sums);
}

__device__ __forceinline__ void store(float (&acc)[8][8], const __nv_bfloat16 *comb,
                                      __nv_bfloat16 *c, int m, int tile, const Place &place) {
  const int column = tile % Config::TILES_ACROSS * Config::BLOCK_N + place.column;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = tile / Config::TILES_ACROSS * Config::BLOCK_M + place.row +
                    i / 4 * Place::NEXT_ROWS + i % 4;
    if (row >= m)
      continue;
    const __nv_bfloat16 *comb_row = comb + row % Config::ROWS_PER_IMAGE * Config::N + column;
    __nv_bfloat16 *c_row = c + static_cast<size_t>(row) * Config::N + column;
    store_four(c_row, comb_row, &acc[i][0]);
    store_four(c_row + Place::NEXT_COLUMNS, comb_row + Place::NEXT_COLUMNS, &acc[i][4]);
  }
}

extern "C" __global__ void __launch_bounds__(Config::THREADS)
    patch_embed_gemm(const uint8_t *a, const uint8_t *b, const __nv_bfloat16 *comb,
                     __nv_bfloat16 *c, int m, unsigned long long *phase_clocks) {
  extern __shared__ float4 dynamic_smem[];
  float *const ring = reinterpret_cast<float *>(dynamic_smem);
  const int tiles = (m + Config::BLOCK_M - 1) / Config::BLOCK_M * Config::TILES_ACROSS;
  const int own_tiles = (tiles - static_cast<int>(blockIdx.x) + gridDim.x - 1) / gridDim.x;
  const int steps = own_tiles * Config::K_STEPS;
  const Place place;
  PhaseClock<PHASE_COUNT> clock;
  float acc[8][8] = {};

  publish(ring, fetch(a, b, m, 0));
  __syncthreads();
  clock.start();
  for (int step = 0; step < steps; ++step) {
    const bool more = step + 1 < steps;
    Codes next{};
    if (more)
      next = fetch(a, b, m, step + 1);
    clock.mark(FETCH);
    multiply(acc, ring + step % Config::LOAD_PIPE_DEPTH * Config::SLOT_FLOATS, place);
    clock.mark(MULTIPLY);
    if (more)
      publish(ring + (step + 1) % Config::LOAD_PIPE_DEPTH * Config::SLOT_FLOATS, next);
    clock.mark(PUBLISH);
    if (step % Config::K_STEPS == Config::K_STEPS - 1) {
      store(acc, comb, c, m, tile_of(step), place);
#pragma unroll
      for (int i = 0; i < 64; ++i)
        acc[i / 8][i % 8] = 0.0f;
    }
    clock.mark(STORE);
    __syncthreads();
    clock.mark(BARRIER);
  }
  if (threadIdx.x == 0)
    clock.write(phase_clocks + blockIdx.x * PHASE_COUNT);
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include "harness.cuh"

namespace {

using kernelrig::Argument;
using kernelrig::Buffers;
using kernelrig::Geometry;
using kernelrig::LaunchArgs;
using kernelrig::PhaseTable;
using kernelrig::Problem;

void launch(const Params &params, const Geometry &geometry, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = geometry.grid;
  config.blockDim = geometry.block;
  config.dynamicSmemBytes = geometry.dynamic_smem_bytes;
  config.stream = stream;
  KERNELRIG_CUDA(cudaLaunchKernelEx(&config, patch_embed_gemm, params.a, params.b, params.comb,
                                    params.c, params.m, params.phase_clocks));
}

struct Gemm {
  using Params = ::Params;
  static constexpr char ENTRY[] = "patch_embed_gemm";
  static constexpr int ROWS_PER_IMAGE = Config::ROWS_PER_IMAGE;
  static constexpr int N = Config::N;
  static constexpr int K = Config::K;
  static constexpr int COMB_BLOCK = Config::N;
  static constexpr const char *PHASES[PHASE_COUNT] = {"all warps: fetch", "all warps: multiply",
                                                      "all warps: publish", "all warps: store",
                                                      "all warps: barrier"};

  static size_t workspace_bytes(const Problem &) { return 0; }

  static Geometry geometry(const Problem &problem, int sm_count) {
    const int tiles = (problem.m + Config::BLOCK_M - 1) / Config::BLOCK_M * Config::TILES_ACROSS;
    Geometry geometry;
    geometry.grid = dim3(std::min(tiles, problem.ctas == 0 ? sm_count : problem.ctas));
    geometry.block = dim3(Config::THREADS);
    geometry.dynamic_smem_bytes = Config::DYNAMIC_SMEM_BYTES;
    return geometry;
  }

  static int phase_rows(const Problem &, const Geometry &geometry) { return geometry.ctas(); }

  static std::string phase_report(const PhaseTable &table, const Problem &, const Geometry &,
                                  double) {
    return kernelrig::phase_table_text(table);
  }

  static Params prepare(const Problem &problem, const Buffers &buffers) {
    KERNELRIG_CUDA(cudaFuncSetAttribute(
        patch_embed_gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, Config::DYNAMIC_SMEM_BYTES));
    return {buffers.a,
            buffers.b,
            reinterpret_cast<const __nv_bfloat16 *>(buffers.comb),
            reinterpret_cast<__nv_bfloat16 *>(buffers.c),
            problem.m,
            buffers.phase_clocks};
  }

  static void launch(const Params &params, const Geometry &geometry, cudaStream_t stream) {
    ::launch(params, geometry, stream);
  }

  static LaunchArgs arguments(const Problem &problem) {
    return {{Argument::buffer("A"), Argument::buffer("B"), Argument::buffer("comb"),
             Argument::buffer("C"), Argument::i32(problem.m), Argument::phase_clocks()},
            {},
            kernelrig::list_of(Config::SHARED_LAYOUT),
            {}};
  }
};

} // namespace

int main(int argc, char **argv) { return harness_main<Gemm>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY
