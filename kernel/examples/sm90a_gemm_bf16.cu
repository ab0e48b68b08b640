// C[m, n] = A[m, k] x B[n, k]^T on Hopper: BF16 in and out, FP32 accumulation, all row-major. A
// warpgroup computes a tile of 64 x 64 in steps of 64 along K, from a ring of two stages that TMA
// fills; what lies outside of A and B is read as zero, and nothing outside of C is stored.
//
//   step t:  thread 0 loads step t+1 into stage (t+1) % 2     last read in step t-1, a barrier ago
//            all: inputs_arrived[t % 2] -> wgmma -> wait -> __syncthreads: stage t % 2 is released

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "../memory_layout.cuh"
#include "../ptx.cuh"
#include "../wait.cuh"
#include "../wgmma.cuh"

namespace {

using kernelrig::SharedRegion;
namespace ptx = kernelrig::ptx;
namespace wgmma = kernelrig::wgmma;

struct Config {
  static constexpr int BLOCK_M = 64;
  static constexpr int BLOCK_N = 64;
  static constexpr int BLOCK_K = 64; // 128 bytes, one swizzle row
  static constexpr int MMA_K = 16;
  static constexpr int STAGES = 2;
  static constexpr int THREADS = 128;
  static constexpr int A_BYTES = BLOCK_M * BLOCK_K * 2;
  static constexpr int STAGE_BYTES = A_BYTES + BLOCK_N * BLOCK_K * 2;
  static constexpr int INPUTS_ARRIVED = STAGES * STAGE_BYTES;
  static constexpr int SMEM_BYTES = INPUTS_ARRIVED + 8 * STAGES;

  static constexpr SharedRegion SHARED_LAYOUT[] = {
      SharedRegion::buffers("A", 0, A_BYTES, STAGES, STAGE_BYTES),
      SharedRegion::buffers("B", A_BYTES, STAGE_BYTES - A_BYTES, STAGES, STAGE_BYTES),
      SharedRegion::mbarriers("inputs_arrived", INPUTS_ARRIVED, STAGES)};
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

extern "C" __global__ void __launch_bounds__(Config::THREADS)
    gemm_bf16(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
              __nv_bfloat16 *c, int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t base = ptx::shared_address(shared);
  const int steps = (k + Config::BLOCK_K - 1) / Config::BLOCK_K;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Config::STAGES; ++stage)
      ptx::mbarrier_init(base + Config::INPUTS_ARRIVED + 8 * stage, 1);
    ptx::fence_mbarrier_init();
    load(a_map, b_map, base, 0);
  }
  __syncthreads();
  float acc[32];
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x == 0 && step + 1 < steps)
      load(a_map, b_map, base, step + 1);
    const int stage = step % Config::STAGES;
    kernelrig::wait(base + Config::INPUTS_ARRIVED + 8 * stage, step / Config::STAGES % 2,
                    "inputs_arrived");
    const uint32_t at = base + stage * Config::STAGE_BYTES;
    wgmma::fence();
#pragma unroll
    for (int part = 0; part < Config::BLOCK_K / Config::MMA_K; ++part) {
      const uint32_t bytes = part * Config::MMA_K * 2;
      wgmma::mma_m64n64k16_bf16(acc, wgmma::matrix_descriptor(at + bytes),
                                wgmma::matrix_descriptor(at + Config::A_BYTES + bytes),
                                step > 0 || part > 0);
    }
    wgmma::commit_group();
    wgmma::wait_group<0>();
    __syncthreads();
  }
  const int row = blockIdx.y * Config::BLOCK_M + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  const int column = blockIdx.x * Config::BLOCK_N + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int to_row = row + i / 2 % 2 * 8, to_column = column + i / 4 * 8 + i % 2;
    if (to_row < m && to_column < n)
      c[static_cast<size_t>(to_row) * n + to_column] = __float2bfloat16(acc[i]);
  }
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include "../operation.cuh"
#include "gemm_launch.cuh"

int main(int argc, char **argv) { return operation_main<Gemm<Config, gemm_bf16>>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY
