// C[m, n] = A[m, k] x B[n, k]^T on Blackwell, a CTA by itself (cta_group::1): BF16 in and out, FP32
// accumulation in tensor memory, all row-major. A CTA computes a tile of 128 x 64 in steps of 64
// along K, from a ring of two stages that TMA fills; what lies outside of A and B is read as zero,
// and nothing outside of C is stored.
//
//   warp 0, one lane, step t:  inputs_released[(t+1) % 2] -> load step t+1
//                              inputs_arrived[t % 2] -> 4 MMAs -> commit: inputs_released[t % 2]
//   after the last step:       commit: accum_ready -> all warps store the accumulator

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "../memory_layout.cuh"
#include "../ptx.cuh"
#include "../tcgen05.cuh"
#include "../wait.cuh"

namespace {

using kernelrig::SharedRegion;
namespace ptx = kernelrig::ptx;
namespace tcgen05 = kernelrig::tcgen05;

struct Config {
  static constexpr int BLOCK_M = 128; // the lanes of tensor memory
  static constexpr int BLOCK_N = 64;
  static constexpr int BLOCK_K = 64; // 128 bytes, one swizzle row
  static constexpr int MMA_K = 16;
  static constexpr int STAGES = 2;
  static constexpr int THREADS = 128;
  static constexpr int A_BYTES = BLOCK_M * BLOCK_K * 2;
  static constexpr int STAGE_BYTES = A_BYTES + BLOCK_N * BLOCK_K * 2;
  static constexpr int INPUTS_ARRIVED = STAGES * STAGE_BYTES;
  static constexpr int INPUTS_RELEASED = INPUTS_ARRIVED + 8 * STAGES;
  static constexpr int ACCUM_READY = INPUTS_RELEASED + 8 * STAGES;
  static constexpr int TMEM_ADDRESS = ACCUM_READY + 8;
  static constexpr int SMEM_BYTES = TMEM_ADDRESS + 4;

  static constexpr SharedRegion SHARED_LAYOUT[] = {
      SharedRegion::buffers("A", 0, A_BYTES, STAGES, STAGE_BYTES),
      SharedRegion::buffers("B", A_BYTES, STAGE_BYTES - A_BYTES, STAGES, STAGE_BYTES),
      SharedRegion::mbarriers("inputs_arrived", INPUTS_ARRIVED, STAGES),
      SharedRegion::mbarriers("inputs_released", INPUTS_RELEASED, STAGES),
      SharedRegion::mbarriers("accum_ready", ACCUM_READY, 1),
      SharedRegion::word("tmem_address", TMEM_ADDRESS)};
  static_assert(kernelrig::lie_apart(SHARED_LAYOUT, SMEM_BYTES),
                "what is declared of shared memory must fit it without overlap");
};

__device__ __forceinline__ void load(const CUtensorMap &a_map, const CUtensorMap &b_map,
                                     uint32_t base, int step) {
  const int stage = step % Config::STAGES;
  const uint32_t arrived = base + Config::INPUTS_ARRIVED + 8 * stage;
  const uint32_t to = base + stage * Config::STAGE_BYTES;
  ptx::mbarrier_arrive_expect_tx(arrived, Config::STAGE_BYTES);
  ptx::tma_load_2d(to, &a_map, step * Config::BLOCK_K, blockIdx.y * Config::BLOCK_M, arrived);
  ptx::tma_load_2d(to + Config::A_BYTES, &b_map, step * Config::BLOCK_K,
                   blockIdx.x * Config::BLOCK_N, arrived);
}

// One thread: every load and every MMA of the tile.
__device__ __forceinline__ void multiply(const CUtensorMap &a_map, const CUtensorMap &b_map,
                                         uint32_t base, uint32_t accumulator, int steps) {
  constexpr uint32_t INSTRUCTION =
      tcgen05::single::instruction_descriptor_bf16(Config::BLOCK_M, Config::BLOCK_N);
  load(a_map, b_map, base, 0);
  for (int step = 0; step < steps; ++step) {
    const int next = step + 1, stage = step % Config::STAGES;
    if (next < steps) {
      // a fresh barrier is past the phase of parity 1: the first use of a stage does not wait
      kernelrig::wait(base + Config::INPUTS_RELEASED + 8 * (next % Config::STAGES),
                      (next / Config::STAGES + 1) % 2, "inputs_released");
      load(a_map, b_map, base, next);
    }
    kernelrig::wait(base + Config::INPUTS_ARRIVED + 8 * stage, step / Config::STAGES % 2,
                    "inputs_arrived");
    const uint32_t at = base + stage * Config::STAGE_BYTES;
#pragma unroll
    for (int part = 0; part < Config::BLOCK_K / Config::MMA_K; ++part) {
      const uint32_t a = tcgen05::descriptor_address(at + part * Config::MMA_K * 2);
      const uint32_t b =
          tcgen05::descriptor_address(at + Config::A_BYTES + part * Config::MMA_K * 2);
      tcgen05::single::mma_bf16(accumulator, tcgen05::matrix_descriptor(a),
                                tcgen05::matrix_descriptor(b), INSTRUCTION, step > 0 || part > 0);
    }
    if (step + Config::STAGES < steps) // or nobody waits, and the CTA may be gone when it arrives
      tcgen05::single::commit(base + Config::INPUTS_RELEASED + 8 * stage);
  }
  tcgen05::single::commit(base + Config::ACCUM_READY);
}

extern "C" __global__ void __launch_bounds__(Config::THREADS)
    gemm_bf16(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
              __nv_bfloat16 *c, int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t base = ptx::shared_address(shared);
  const int warp = threadIdx.x / 32;
  if (warp == 0) {
    if (ptx::elect_one()) {
      for (int barrier = Config::INPUTS_ARRIVED; barrier <= Config::ACCUM_READY; barrier += 8)
        ptx::mbarrier_init(base + barrier, 1);
      ptx::fence_mbarrier_init();
    }
    __syncwarp();
    tcgen05::single::alloc<Config::BLOCK_N>(base + Config::TMEM_ADDRESS);
    tcgen05::single::relinquish_alloc_permit();
  }
  tcgen05::fence_before_thread_sync();
  __syncthreads();
  tcgen05::fence_after_thread_sync();
  const uint32_t accumulator = ptx::load_shared(base + Config::TMEM_ADDRESS);
  if (warp == 0) {
    if (ptx::elect_one())
      multiply(a_map, b_map, base, accumulator, (k + Config::BLOCK_K - 1) / Config::BLOCK_K);
    __syncwarp();
  }
  kernelrig::wait(base + Config::ACCUM_READY, 0, "accum_ready");
  tcgen05::fence_after_thread_sync();
  const int row = blockIdx.y * Config::BLOCK_M + threadIdx.x; // a warp reads its own 32 lanes
#pragma unroll
  for (int column = 0; column < Config::BLOCK_N; column += 32) {
    uint32_t words[32];
    tcgen05::load_columns(words, accumulator + (warp << 21) + column);
    tcgen05::wait_load();
    for (int i = 0; i < 32; ++i) {
      const int to_column = blockIdx.x * Config::BLOCK_N + column + i;
      if (row < m && to_column < n)
        c[static_cast<size_t>(row) * n + to_column] = __float2bfloat16(__uint_as_float(words[i]));
    }
  }
  tcgen05::fence_before_thread_sync();
  __syncthreads();
  tcgen05::fence_after_thread_sync();
  if (warp == 0)
    tcgen05::single::dealloc<Config::BLOCK_N>(accumulator);
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include "../operation.cuh"
#include "gemm_launch.cuh"

int main(int argc, char **argv) { return operation_main<Gemm<Config, gemm_bf16>>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY
