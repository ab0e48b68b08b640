// A kernel for tests of the harness interface (tests/kernel/test_seam.py): simple and slow, with
// all of problem.cuh that patch_embed_cuda does not use. comb is in blocks of columns, A is loaded
// through an encoded tensor map, CTAs are in pairs, so that an odd limit is refused, and a row of
// clocks is a tile with the names of the roles, with one epilogue warp.
//
// A tile is 16 x 256: a thread has a column of it, and A arrives in K steps of 128.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "inputs.cuh"
#include "phase_clock.cuh"

namespace {

constexpr int ROWS_PER_IMAGE = 196, N = 768, K = 768, COMB_BLOCK = 256;
constexpr int TILE_ROWS = 16, K_STEP = 128, STEP_BYTES = TILE_ROWS * K_STEP;

enum Phase { ISSUE = 1, STAGE_0_WAIT = 3, K_LOOP = 4, STORE = 7, PHASE_COUNT };

__device__ __forceinline__ void fetch(const CUtensorMap *map, uint32_t to, uint32_t arrived, int k,
                                      int row) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived),
               "r"(STEP_BYTES)
               : "memory");
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(map), "r"(k), "r"(row), "r"(arrived)
               : "memory");
}

__device__ __forceinline__ void wait(uint32_t arrived, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile("{\n"
                 ".reg .pred complete;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, complete;\n"
                 "}"
                 : "=r"(done)
                 : "r"(arrived), "r"(parity)
                 : "memory");
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(COMB_BLOCK)
    patch_embed_gemm(const __grid_constant__ CUtensorMap a_map, const uint8_t *b,
                     const uint16_t *comb, uint16_t *c, int m, unsigned long long *phase_clocks) {
  __shared__ alignas(128) uint8_t a_step[STEP_BYTES];
  __shared__ alignas(8) uint64_t inputs_arrived;
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(a_step));
  const uint32_t arrived = static_cast<uint32_t>(__cvta_generic_to_shared(&inputs_arrived));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrived) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  uint32_t parity = 0;
  const int tiles = (m + TILE_ROWS - 1) / TILE_ROWS * (N / COMB_BLOCK);
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int block = tile % (N / COMB_BLOCK);
    const int row_zero = tile / (N / COMB_BLOCK) * TILE_ROWS;
    const int column = block * COMB_BLOCK + threadIdx.x;
    kernelrig::PhaseClock<PHASE_COUNT> clock;
    clock.start();
    float acc[TILE_ROWS] = {};
    for (int k_zero = 0; k_zero < K; k_zero += K_STEP, parity ^= 1) {
      if (threadIdx.x == 0)
        fetch(&a_map, to, arrived, k_zero, row_zero);
      clock.mark(ISSUE);
      wait(arrived, parity);
      clock.mark(STAGE_0_WAIT);
      for (int k = 0; k < K_STEP; ++k) {
        const float b_value = kernelrig::float_from_e4m3(b[column * K + k_zero + k]);
        for (int row = 0; row < TILE_ROWS; ++row)
          acc[row] += kernelrig::float_from_e4m3(a_step[row * K_STEP + k]) * b_value;
      }
      __syncthreads(); // the next step overwrites what the slowest thread still reads
      clock.mark(K_LOOP);
    }
    for (int i = 0; i < TILE_ROWS && row_zero + i < m; ++i) {
      const int row = row_zero + i;
      const int entry = (block * ROWS_PER_IMAGE + row % ROWS_PER_IMAGE) * COMB_BLOCK + threadIdx.x;
      c[static_cast<size_t>(row) * N + column] =
          kernelrig::bf16_add(kernelrig::bf16_from_float(acc[i]), comb[entry]);
    }
    clock.mark(STORE);
    if (threadIdx.x == 0)
      clock.write(phase_clocks + static_cast<size_t>(tile) * PHASE_COUNT);
  }
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include <algorithm>
#include <numeric>
#include <vector>

#include "harness.cuh"

namespace {

using namespace kernelrig;

TensorMap a_map_of(const Problem &problem) {
  TensorMap map;
  map.name = "A_map";
  map.buffer = "A";
  map.dtype = "u8";
  map.dims = {K, static_cast<uint64_t>(problem.m)};
  map.strides_bytes = {K};
  map.box = {K_STEP, TILE_ROWS};
  map.element_strides = {1, 1};
  map.l2_promotion = "128B";
  return map;
}

struct Gemm {
  struct Params {
    CUtensorMap a_map;
    Buffers buffers;
    int m;
  };

  static constexpr char ENTRY[] = "patch_embed_gemm";
  static constexpr int ROWS_PER_IMAGE = ::ROWS_PER_IMAGE;
  static constexpr int N = ::N;
  static constexpr int K = ::K;
  static constexpr int COMB_BLOCK = ::COMB_BLOCK;
  static constexpr const char *PHASES[PHASE_COUNT] = {
      "W0: ring wait",    "W0: issue",  "W1: accumulator wait",
      "W1: stage-0 wait", "W1: K loop", "W2: accumulator wait",
      "W2: read-back",    "W2: stores"};

  static size_t workspace_bytes(const Problem &) { return 0; }

  static Geometry geometry(const Problem &problem, int sm_count) {
    if (problem.ctas % 2 != 0)
      throw UsageError{"ctas is " + std::to_string(problem.ctas) + ": CTAs come in pairs"};
    Geometry geometry;
    geometry.grid = dim3(problem.ctas == 0 ? sm_count / 2 * 2 : problem.ctas);
    geometry.block = dim3(COMB_BLOCK);
    geometry.cluster = dim3(2);
    return geometry;
  }

  static int phase_rows(const Problem &problem, const Geometry &) {
    return (problem.m + TILE_ROWS - 1) / TILE_ROWS * (N / COMB_BLOCK);
  }

  static RoleCounts role_counts(const Problem &problem, const Geometry &geometry) {
    const int tiles = phase_rows(problem, geometry);
    const int ctas = std::min(tiles, geometry.ctas()); // each is a cluster as far as roles go
    std::vector<int> last_rows(ctas);
    std::iota(last_rows.begin(), last_rows.end(), tiles - ctas);
    return {ctas, K / K_STEP, 0, 1, last_rows};
  }

  static std::string phase_report(const PhaseTable &table, const Problem &problem,
                                  const Geometry &geometry, double sm_ghz) {
    return role_report(table, role_counts(problem, geometry), sm_ghz);
  }

  static Params prepare(const Problem &problem, const Buffers &buffers) {
    return {encode(a_map_of(problem), buffers.a), buffers, problem.m};
  }

  static void launch(const Params &params, const Geometry &geometry, cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = geometry.grid;
    config.blockDim = geometry.block;
    config.stream = stream;
    const Buffers &buffers = params.buffers;
    KERNELRIG_CUDA(cudaLaunchKernelEx(&config, patch_embed_gemm, params.a_map, buffers.b,
                                      buffers.comb, buffers.c, params.m, buffers.phase_clocks));
  }

  static LaunchArgs arguments(const Problem &problem) {
    return {{Argument::tensor_map("A_map"), Argument::buffer("B"), Argument::buffer("comb"),
             Argument::buffer("C"), Argument::i32(problem.m), Argument::phase_clocks()},
            {a_map_of(problem)}};
  }
};

} // namespace

int main(int argc, char **argv) { return harness_main<Gemm>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY
