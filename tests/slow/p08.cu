// 16,896 tiles of 128 words, each word mixed 512 times with a table of 128 KB that stays in shared
// memory. Two warpgroups share the tiles of a CTA.
#include "program.cuh"

constexpr int GRID = 132, GROUPS = 2, GROUP = 128, TILES_PER_CTA = 128, STEPS = 512;
constexpr int TILES = GRID * TILES_PER_CTA, TABLE = 32768;
constexpr size_t TABLE_AT = static_cast<size_t>(TILES) * GROUP;

__host__ __device__ uint32_t step(uint32_t x, uint32_t entry) {
  x = (x ^ x >> 13) * 0x846CA68Bu;
  return x + entry;
}

template <int FORM>
__global__ void __launch_bounds__(GROUPS *GROUP, 1) work(const uint32_t *in, uint32_t *out) {
  extern __shared__ uint32_t table[];
  for (int i = threadIdx.x; i < TABLE; i += GROUPS * GROUP)
    table[i] = in[TABLE_AT + i];
  __syncthreads();
  const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP;
  for (int i = 0; i < TILES_PER_CTA; ++i) {
    const int tile = i * GRID + blockIdx.x;
    if ((FORM == 0 ? tile : i) % GROUPS != group)
      continue;
    uint32_t x = in[tile * GROUP + thread];
#pragma unroll 8
    for (int s = 0; s < STEPS; ++s)
      x = step(x, table[(s * GROUP + thread) % TABLE]);
    out[tile * GROUP + thread] = x;
  }
}

struct Program {
  static constexpr size_t INPUTS = TABLE_AT + TABLE, OUTPUTS = TABLE_AT;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i); }
  static uint32_t expected(size_t i) {
    uint32_t x = input<0>(i);
    for (int s = 0; s < STEPS; ++s)
      x = step(x, input<0>(TABLE_AT + (s * GROUP + i % GROUP) % TABLE));
    return x;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, GRID, GROUPS * GROUP, TABLE * 4, in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
