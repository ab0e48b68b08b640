// A fused bias and GELU: y = gelu(x + bias), the tanh form, BF16 in and out, FP32 in between. A
// thread takes two columns of a row at a time.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int THREADS = 256;

__device__ float gelu(float x) {
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x); // sqrt(2 / pi)
  return 0.5f * x * (1.0f + tanhf(inner));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    bias_gelu(const __nv_bfloat162 *x, const float2 *bias, __nv_bfloat162 *y, long long pairs,
              int pairs_per_row) {
  const long long stride = static_cast<long long>(gridDim.x) * THREADS;
  for (long long i = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x; i < pairs;
       i += stride) {
    const float2 value = __bfloat1622float2(x[i]), add = bias[i % pairs_per_row];
    y[i] = __floats2bfloat162_rn(gelu(value.x + add.x), gelu(value.y + add.y));
  }
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include "../operation.cuh"

namespace {

struct BiasGelu {
  static constexpr char ENTRY[] = "bias_gelu";
  static constexpr auto KERNEL = bias_gelu;

  static Launch launch(const Case &c, int sm_count) {
    if (c["columns"] % 2 != 0)
      throw kernelrig::UsageError{"columns is odd: a thread takes two"};
    const long long pairs = c["rows"] * c["columns"] / 2;
    Launch launch;
    launch.geometry.grid =
        dim3(std::min((pairs + THREADS - 1) / THREADS, c.get("ctas", 8ll * sm_count)));
    launch.geometry.block = dim3(THREADS);
    launch.arguments.args = {Argument::buffer("x"), Argument::buffer("bias"),
                             Argument::buffer("y"), Argument::i64(pairs),
                             Argument::i32(c["columns"] / 2)};
    return launch;
  }
};

} // namespace

int main(int argc, char **argv) { return operation_main<BiasGelu>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY
