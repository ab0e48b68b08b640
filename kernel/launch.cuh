// A launch as a record: its grid, its parameters, and the names of what lies in its memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <vector>

#include "memory_layout.cuh"
#include "phase_clock.cuh"
#include "tensor_map_rules.cuh"

namespace kernelrig {

struct Geometry {
  dim3 grid, block, cluster = dim3(1, 1, 1);
  size_t dynamic_smem_bytes = 0;

  int ctas() const { return static_cast<int>(grid.x * grid.y * grid.z); }
};

// A geometry as the runtime takes it, for a kernel whose code does not set the cluster. It points to
// what it holds, so it stays where it was made.
class LaunchConfig {
public:
  explicit LaunchConfig(const Geometry &geometry, cudaStream_t stream = nullptr) {
    cluster_.id = cudaLaunchAttributeClusterDimension;
    cluster_.val.clusterDim.x = geometry.cluster.x;
    cluster_.val.clusterDim.y = geometry.cluster.y;
    cluster_.val.clusterDim.z = geometry.cluster.z;
    config_.gridDim = geometry.grid;
    config_.blockDim = geometry.block;
    config_.dynamicSmemBytes = geometry.dynamic_smem_bytes;
    config_.stream = stream;
    config_.attrs = &cluster_;
    config_.numAttrs = geometry.cluster.x * geometry.cluster.y * geometry.cluster.z > 1 ? 1 : 0;
  }
  LaunchConfig(const LaunchConfig &) = delete;
  LaunchConfig &operator=(const LaunchConfig &) = delete;

  const cudaLaunchConfig_t *get() const { return &config_; }

private:
  cudaLaunchAttribute cluster_{};
  cudaLaunchConfig_t config_{};
};

// How many clusters of a kernel are on the device at once: each lies within a GPC, so some SMs may
// be left over. 0 where no device answers.
template <class Kernel> int clusters_at_once(Kernel *kernel, const Geometry &geometry) {
  const LaunchConfig config(geometry);
  int clusters = 0;
  const bool known =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(geometry.dynamic_smem_bytes)) == cudaSuccess &&
      cudaOccupancyMaxActiveClusters(&clusters, kernel, config.get()) == cudaSuccess;
  cudaGetLastError(); // a machine without a device describes launches too
  return known ? clusters : 0;
}

// One kernel parameter: {"buffer": "A"}, {"tensor_map": "A_map"} or a scalar under its type's name.
// The buffers of patch_embed are A, B, comb, C, and workspace and phase_clocks where the kernel has
// them; of an operation its inputs, its outputs and workspace.
struct Argument {
  std::string kind;
  std::string name;
  long long number = 0;
  double real = 0.0; // of f32 and f64

  static Argument buffer(const std::string &name) { return {"buffer", name}; }
  static Argument tensor_map(const std::string &name) { return {"tensor_map", name}; }
  static Argument i32(long long number) { return {"i32", "", number}; }
  static Argument u32(long long number) { return {"u32", "", number}; }
  static Argument i64(long long number) { return {"i64", "", number}; }
  static Argument f32(double real) { return {"f32", "", 0, real}; }
  static Argument f64(double real) { return {"f64", "", 0, real}; }
  static Argument null() { return {"u64", "", 0}; }
  static Argument phase_clocks() { return TIMING_BUILD ? buffer("phase_clocks") : null(); }
};

// What describe writes of a launch besides its buffers. A kernel without names for its shared or
// tensor memory leaves the layouts empty.
struct LaunchArgs {
  std::vector<Argument> args;
  std::vector<TensorMap> tensor_maps;
  std::vector<SharedRegion> shared_layout = {};
  std::vector<TensorRegion> tensor_layout = {};
};

template <class Region, size_t COUNT> std::vector<Region> list_of(const Region (&regions)[COUNT]) {
  return {regions, regions + COUNT};
}

} // namespace kernelrig
