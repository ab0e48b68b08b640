// A transpose by tensor copies: y[column, row] = x[row, column], FP32. A CTA loads a tile of 32 x 32
// by TMA, turns it in shared memory, and stores it by TMA; what lies outside of a tensor is neither
// written nor waited for. Rows and columns are multiples of 4: a stride has whole 16 bytes.
//
//   thread 0: load -> tile_arrived -> all threads: turn -> fence, __syncthreads -> thread 0: store

#include <cuda.h>
#include <cuda_runtime.h>

#include "../memory_layout.cuh"
#include "../ptx.cuh"
#include "../wait.cuh"

namespace {

using kernelrig::SharedRegion;
namespace ptx = kernelrig::ptx;

struct Config {
  static constexpr int EDGE = 32;
  static constexpr int THREADS = 256;
  static constexpr int TILE_BYTES = EDGE * EDGE * sizeof(float);
  static constexpr int TILE = 0;
  static constexpr int TURNED = TILE_BYTES;
  static constexpr int TILE_ARRIVED = 2 * TILE_BYTES;
  static constexpr int SMEM_BYTES = TILE_ARRIVED + 8;

  static constexpr SharedRegion SHARED_LAYOUT[] = {
      SharedRegion::buffers("tile", TILE, TILE_BYTES, 1),
      SharedRegion::buffers("turned", TURNED, TILE_BYTES, 1),
      SharedRegion::mbarriers("tile_arrived", TILE_ARRIVED, 1)};
  static_assert(kernelrig::lie_apart(SHARED_LAYOUT, SMEM_BYTES),
                "what is declared of shared memory must fit it without overlap");
};

extern "C" __global__ void __launch_bounds__(Config::THREADS)
    transpose(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap y_map) {
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t base = ptx::shared_address(shared);
  const uint32_t tile_arrived = base + Config::TILE_ARRIVED;
  const int column = blockIdx.x * Config::EDGE, row = blockIdx.y * Config::EDGE;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(tile_arrived, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(tile_arrived, Config::TILE_BYTES);
    ptx::tma_load_2d(base + Config::TILE, &x_map, column, row, tile_arrived);
  }
  __syncthreads();
  kernelrig::wait(tile_arrived, 0, "tile_arrived");
  const float *tile = reinterpret_cast<const float *>(shared + Config::TILE);
  float *turned = reinterpret_cast<float *>(shared + Config::TURNED);
  for (int i = threadIdx.x; i < Config::EDGE * Config::EDGE; i += Config::THREADS)
    turned[i % Config::EDGE * Config::EDGE + i / Config::EDGE] = tile[i];
  ptx::fence_proxy_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::tma_store_2d(&y_map, row, column, base + Config::TURNED);
    ptx::bulk_commit_group();
    ptx::bulk_wait_group_read<0>(); // the CTA's shared memory outlives the copy's reads
  }
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include "../operation.cuh"

namespace {

struct Transpose {
  static constexpr char ENTRY[] = "transpose";
  static constexpr auto KERNEL = transpose;

  static Launch launch(const Case &c, int) {
    const uint64_t rows = c["rows"], columns = c["columns"];
    Launch launch;
    launch.geometry.grid = dim3((columns + Config::EDGE - 1) / Config::EDGE,
                                (rows + Config::EDGE - 1) / Config::EDGE);
    launch.geometry.block = dim3(Config::THREADS);
    launch.geometry.dynamic_smem_bytes = Config::SMEM_BYTES;
    launch.arguments.args = {Argument::tensor_map("x_map"), Argument::tensor_map("y_map")};
    const std::vector<uint32_t> box = {Config::EDGE, Config::EDGE};
    launch.arguments.tensor_maps = {kernelrig::whole_tensor_map("x", "f32", {columns, rows}, box),
                                    kernelrig::whole_tensor_map("y", "f32", {rows, columns}, box)};
    launch.arguments.shared_layout = kernelrig::list_of(Config::SHARED_LAYOUT);
    return launch;
  }
};

} // namespace

int main(int argc, char **argv) { return operation_main<Transpose>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY
