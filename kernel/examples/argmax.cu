// The largest element of each row, in FP64, and its column as a 64-bit integer: of equal elements
// the first. A warp for each row at a time; `scale` multiplies what is returned.

#include <cuda_runtime.h>

namespace {

constexpr int THREADS = 128;
constexpr int WARP = 32;

extern "C" __global__ void __launch_bounds__(THREADS)
    argmax_rows(const double *x, double scale, double *largest, long long *column, int rows,
                int columns) {
  const int lane = threadIdx.x % WARP, warps = gridDim.x * (THREADS / WARP);
  for (int row = (blockIdx.x * THREADS + threadIdx.x) / WARP; row < rows; row += warps) {
    const double *from = x + static_cast<long long>(row) * columns;
    double best = from[0];
    int at = 0;
    for (int i = lane; i < columns; i += WARP) {
      if (from[i] > best) {
        best = from[i];
        at = i;
      }
    }
    for (int step = WARP / 2; step > 0; step /= 2) {
      const double other = __shfl_xor_sync(0xFFFFFFFFu, best, step);
      const int other_at = __shfl_xor_sync(0xFFFFFFFFu, at, step);
      if (other > best || (other == best && other_at < at)) {
        best = other;
        at = other_at;
      }
    }
    if (lane == 0) {
      largest[row] = scale * best;
      column[row] = at;
    }
  }
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include "../operation.cuh"

namespace {

struct Argmax {
  static constexpr char ENTRY[] = "argmax_rows";
  static constexpr auto KERNEL = argmax_rows;
  static constexpr double SCALE = 0.1; // no float: an error of 2^-25 would show

  static Launch launch(const Case &c, int sm_count) {
    const long long rows_at_once = THREADS / WARP;
    Launch launch;
    launch.geometry.grid = dim3(
        std::min((c["rows"] + rows_at_once - 1) / rows_at_once, c.get("ctas", 8ll * sm_count)));
    launch.geometry.block = dim3(THREADS);
    launch.arguments.args = {Argument::buffer("x"),       Argument::f64(SCALE),
                             Argument::buffer("largest"), Argument::buffer("column"),
                             Argument::i32(c["rows"]),    Argument::i32(c["columns"])};
    return launch;
  }
};

} // namespace

int main(int argc, char **argv) { return operation_main<Argmax>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY
