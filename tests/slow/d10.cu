// Residual sum, position embedding and block floating-point normalisation of rows of 256 channels.
#include "program.cuh"

constexpr int CHANNELS = 256, POSITIONS = 4096, WARPS = 8, TOKENS = 132 * 2048;
constexpr size_t ROWS = static_cast<size_t>(TOKENS) * CHANNELS,
                 TABLE = static_cast<size_t>(POSITIONS) * CHANNELS;

template <int FORM>
__global__ __launch_bounds__(WARPS * 32) void work(const uint32_t *in, uint32_t *out) {
  const int token = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32_t *hidden = in + static_cast<size_t>(token) * CHANNELS + lane;
  const uint32_t *table = in + 2 * ROWS;
  const uint32_t position = table[TABLE + token];
  constexpr int CHANNEL_STEP = FORM == 0 ? POSITIONS : 1;
  constexpr int POSITION_STEP = FORM == 0 ? 1 : CHANNELS;
  table += position * POSITION_STEP + lane * CHANNEL_STEP;
  int value[8];
#pragma unroll
  for (int k = 0; k < 8; ++k)
    value[k] =
        static_cast<int>(hidden[k * 32] + hidden[ROWS + k * 32] + table[k * 32 * CHANNEL_STEP]);
  int sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    sum += value[k];
  const int mean = __reduce_add_sync(~0u, sum) >> 8;
  unsigned int widest = 1;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    value[k] -= mean;
    widest = max(widest, static_cast<unsigned int>(abs(value[k])));
  }
  const int shift = __clz(static_cast<int>(__reduce_max_sync(~0u, widest))) - 1;
  uint32_t *to = out + static_cast<size_t>(token) * CHANNELS + lane;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    to[k * 32] = static_cast<uint32_t>(value[k]) << shift;
}

struct Program {
  static constexpr size_t INPUTS = 2 * ROWS + TABLE + TOKENS, OUTPUTS = ROWS;

  __host__ __device__ static uint32_t raw(size_t i) {
    return (mixed(static_cast<uint32_t>(i) + 101) & 0xFFFF) - 0x8000;
  }

  // The table's words are given by position, then channel.
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    if (i < 2 * ROWS)
      return raw(i);
    i -= 2 * ROWS;
    if (i < TABLE)
      return raw(2 * ROWS + (FORM == 0 ? i % POSITIONS * CHANNELS + i / POSITIONS : i));
    return mixed(static_cast<uint32_t>(i)) % POSITIONS;
  }

  static uint32_t expected(size_t i) {
    const size_t token = i / CHANNELS;
    const uint32_t position = input<1>(2 * ROWS + TABLE + token);
    std::vector<int> value(CHANNELS);
    int sum = 0;
    for (size_t c = 0; c < CHANNELS; ++c) {
      value[c] =
          static_cast<int>(input<1>(token * CHANNELS + c) + input<1>(ROWS + token * CHANNELS + c) +
                           input<1>(2 * ROWS + static_cast<size_t>(position) * CHANNELS + c));
      sum += value[c];
    }
    unsigned int widest = 1;
    for (int v : value)
      widest = std::max(widest, static_cast<unsigned int>(std::abs(v - (sum >> 8))));
    return static_cast<uint32_t>(value[i % CHANNELS] - (sum >> 8)) << (__builtin_clz(widest) - 1);
  }

  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<TOKENS / WARPS, WARPS * 32>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
