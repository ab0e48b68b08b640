// A depthwise convolution of 7 by 7 taps, channels last, whose pixels go round in reading order.
#include "program.cuh"

constexpr int IMAGES = 4, HEIGHT = 512, WIDTH = 704, CHANNELS = 32, TAPS = 7, THREADS = 256;

__host__ __device__ constexpr uint32_t tap(int i) { return (i * i * 7 + 3 * i + 1) & 31; }

template <int FORM>
__global__ __launch_bounds__(THREADS) void work(const uint32_t *in, uint32_t *out, int height,
                                                int width, int spacing) {
  const int x = blockIdx.x * (THREADS / 16) + threadIdx.x / 16, y = blockIdx.y;
  const size_t image = static_cast<size_t>(blockIdx.z) * height * width * (CHANNELS / 2);
  const uint2 *from = reinterpret_cast<const uint2 *>(in) + image + threadIdx.x % 16;
  const int first = y * width + x, area = height * width;
  uint2 sum = make_uint2(0, 0);
#pragma unroll 1
  for (int dy = 0; dy < TAPS; ++dy) {
#pragma unroll
    for (int dx = 0; dx < TAPS; ++dx) {
      int pixel = first + (dy * width + dx) * spacing;
      if constexpr (FORM == 0)
        pixel %= area;
      else
        pixel -= pixel >= area ? area : 0;
      const uint2 value = from[pixel * (CHANNELS / 2)];
      const uint32_t weight = tap(dx) + dy;
      sum.x += value.x * weight;
      sum.y += value.y * weight;
    }
  }
  reinterpret_cast<uint2 *>(out)[image + first * (CHANNELS / 2) + threadIdx.x % 16] = sum;
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(IMAGES) * HEIGHT * WIDTH * CHANNELS,
                          OUTPUTS = INPUTS;
  static constexpr int SPACING = 2;

  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 71);
  }

  static uint32_t expected(size_t i) {
    constexpr size_t AREA = static_cast<size_t>(HEIGHT) * WIDTH;
    const size_t channel = i % CHANNELS, first = i / CHANNELS % AREA, image = i / CHANNELS / AREA;
    uint32_t sum = 0;
    for (int dy = 0; dy < TAPS; ++dy)
      for (int dx = 0; dx < TAPS; ++dx) {
        const size_t pixel = (first + (dy * WIDTH + dx) * SPACING) % AREA;
        sum += input<0>((image * AREA + pixel) * CHANNELS + channel) * (tap(dx) + dy);
      }
    return sum;
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<dim3(WIDTH / (THREADS / 16), HEIGHT, IMAGES), THREADS>>>(in, out, HEIGHT, WIDTH,
                                                                          SPACING);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
