// Bank of eight 4 x 4 filters of stride 4 over an RGBA image of signed bytes.
#include "program.cuh"

namespace {

constexpr int WIDTH = 4096, HEIGHT = 8192, FILTERS = 8, TAPS = 16;
constexpr int OUT_WIDTH = WIDTH / 4, OUT_HEIGHT = HEIGHT / 4, ROWS = 4, THREADS = 256;
constexpr int TILES_X = OUT_WIDTH / THREADS, TILES = TILES_X * (OUT_HEIGHT / ROWS);
constexpr size_t PIXELS = static_cast<size_t>(WIDTH) * HEIGHT;

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *__restrict__ in,
                                                uint32_t *__restrict__ out) {
  const int tile = FORM == 0 ? blockIdx.x % TILES : blockIdx.x / FILTERS;
  const int filter = FORM == 0 ? blockIdx.x / TILES : blockIdx.x % FILTERS;
  const int x = tile % TILES_X * THREADS + threadIdx.x, y0 = tile / TILES_X * ROWS;
  const int4 *const image = reinterpret_cast<const int4 *>(in);
  int4 pixels[ROWS][4];
#pragma unroll
  for (int y = 0; y < ROWS; ++y)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pixels[y][i] = image[static_cast<size_t>((y0 + y) * 4 + i) * (WIDTH / 4) + x];
  const int *const taps = reinterpret_cast<const int *>(in + PIXELS) + filter * TAPS;
#pragma unroll
  for (int y = 0; y < ROWS; ++y) {
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum = __dp4a(pixels[y][i].x, taps[4 * i], sum);
      sum = __dp4a(pixels[y][i].y, taps[4 * i + 1], sum);
      sum = __dp4a(pixels[y][i].z, taps[4 * i + 2], sum);
      sum = __dp4a(pixels[y][i].w, taps[4 * i + 3], sum);
    }
    out[(static_cast<size_t>(filter) * OUT_HEIGHT + y0 + y) * OUT_WIDTH + x] =
        static_cast<uint32_t>(sum);
  }
}

struct Program {
  static constexpr size_t INPUTS = PIXELS + FILTERS * TAPS;
  static constexpr size_t OUTPUTS = static_cast<size_t>(FILTERS) * OUT_WIDTH * OUT_HEIGHT;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) * 5u + 2u);
  }
  static uint32_t expected(size_t i) {
    const size_t x = i % OUT_WIDTH, y = i / OUT_WIDTH % OUT_HEIGHT;
    const size_t filter = i / (static_cast<size_t>(OUT_WIDTH) * OUT_HEIGHT);
    int sum = 0;
    for (size_t t = 0; t < TAPS; ++t) {
      const uint32_t p = input<0>((y * 4 + t / 4) * WIDTH + x * 4 + t % 4);
      const uint32_t w = input<0>(PIXELS + filter * TAPS + t);
      for (int b = 0; b < 32; b += 8)
        sum += static_cast<int8_t>(p >> b) * static_cast<int8_t>(w >> b);
    }
    return static_cast<uint32_t>(sum);
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<TILES * FILTERS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
