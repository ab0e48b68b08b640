// Sums by segment, by atomics: each row of x is added to the row of `sums` that `segment` names,
// and counted. Both outputs start with contents that the launch adds to: kernels.yaml says which.

#include <cuda_runtime.h>

namespace {

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    segment_sum(const float *x, const unsigned *segment, float *sums, unsigned *counts, int rows,
                int columns) {
  const unsigned elements = static_cast<unsigned>(rows) * columns, stride = gridDim.x * THREADS;
  for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < elements; i += stride) {
    const unsigned row = i / columns, column = i % columns, to = segment[row];
    atomicAdd(&sums[to * columns + column], x[i]);
    if (column == 0)
      atomicAdd(&counts[to], 1u);
  }
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include "../operation.cuh"

namespace {

struct SegmentSum {
  static constexpr char ENTRY[] = "segment_sum";
  static constexpr auto KERNEL = segment_sum;

  static Launch launch(const Case &c, int sm_count) {
    const long long elements = c["rows"] * c["columns"];
    if (elements >= 1ll << 31)
      throw kernelrig::UsageError{"rows x columns must be less than 2^31: an index has 32 bits"};
    Launch launch;
    launch.geometry.grid =
        dim3(std::min((elements + THREADS - 1) / THREADS, c.get("ctas", 8ll * sm_count)));
    launch.geometry.block = dim3(THREADS);
    launch.arguments.args = {Argument::buffer("x"),    Argument::buffer("segment"),
                             Argument::buffer("sums"), Argument::buffer("counts"),
                             Argument::i32(c["rows"]), Argument::i32(c["columns"])};
    return launch;
  }
};

} // namespace

int main(int argc, char **argv) { return operation_main<SegmentSum>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY
