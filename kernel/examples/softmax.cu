// Softmax over the rows of a matrix: y[row, :] = exp(x[row, :] - max) / sum, FP32 in, BF16 out. A CTA
// takes a row after the other, three passes over it: maximum, sum, store.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;

// Of all threads, for every thread; `shared` may be used again after it.
template <class Combine>
__device__ float reduced(float value, float (&shared)[WARPS], Combine combine) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFF, value, distance));
  if (threadIdx.x % 32 == 0)
    shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < WARPS; ++warp)
    value = combine(value, shared[warp]);
  __syncthreads();
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_rows(const float *x, __nv_bfloat16 *y, int rows, int columns) {
  __shared__ float shared[WARPS];
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const float *from = x + static_cast<size_t>(row) * columns;
    __nv_bfloat16 *to = y + static_cast<size_t>(row) * columns;
    float largest = -INFINITY;
    for (int column = threadIdx.x; column < columns; column += THREADS)
      largest = fmaxf(largest, from[column]);
    largest = reduced(largest, shared, [](float a, float b) { return fmaxf(a, b); });
    float sum = 0.0f;
    for (int column = threadIdx.x; column < columns; column += THREADS)
      sum += __expf(from[column] - largest);
    sum = reduced(sum, shared, [](float a, float b) { return a + b; });
    for (int column = threadIdx.x; column < columns; column += THREADS)
      to[column] = __float2bfloat16(__expf(from[column] - largest) / sum);
  }
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include "../operation.cuh"

namespace {

struct Softmax {
  static constexpr char ENTRY[] = "softmax_rows";
  static constexpr auto KERNEL = softmax_rows;

  static Launch launch(const Case &c, int sm_count) {
    Launch launch;
    launch.geometry.grid = dim3(std::min(c["rows"], c.get("ctas", 8ll * sm_count)));
    launch.geometry.block = dim3(THREADS);
    launch.arguments.args = {Argument::buffer("x"), Argument::buffer("y"),
                             Argument::i32(c["rows"]), Argument::i32(c["columns"])};
    return launch;
  }
};

} // namespace

int main(int argc, char **argv) { return operation_main<Softmax>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY
