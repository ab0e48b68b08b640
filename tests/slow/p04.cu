// 16,896 tiles of 128 words, each word mixed 512 times with a table of 128 KB that stays in shared
// memory. Two warpgroups of a CTA have a tile each.
#include "program.cuh"

constexpr int GRID = 132, GROUPS = 2, GROUP = 128, TILES_PER_GROUP = 64, STEPS = 512;
constexpr int TILES = GRID * GROUPS * TILES_PER_GROUP, TABLE = 32768;
constexpr size_t TABLE_AT = static_cast<size_t>(TILES) * GROUP;

__host__ __device__ uint32_t step(uint32_t x, uint32_t entry) {
  x = x * 0x7FEB352Du + entry;
  return x ^ x >> 15;
}

template <int FORM>
__global__ void __launch_bounds__(GROUPS *GROUP, 1) work(const uint32_t *in, uint32_t *out) {
  extern __shared__ uint32_t table[];
  for (int i = threadIdx.x; i < TABLE; i += GROUPS * GROUP)
    table[i] = in[TABLE_AT + i];
  __syncthreads();
  const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP;
  if (FORM == 0 && group == 1)
    asm volatile("bar.arrive 1, %0;" ::"n"(GROUPS * GROUP) : "memory");
  for (int i = 0; i < TILES_PER_GROUP; ++i) {
    const int tile = (i * GRID + blockIdx.x) * GROUPS + group;
    uint32_t x = in[tile * GROUP + thread];
    if (FORM == 0)
      asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(GROUPS * GROUP) : "memory");
#pragma unroll 8
    for (int s = 0; s < STEPS; ++s)
      x = step(x, table[(s * GROUP + thread) % TABLE]);
    if (FORM == 0 && !(group == 1 && i == TILES_PER_GROUP - 1))
      asm volatile("bar.arrive %0, %1;" ::"r"(2 - group), "n"(GROUPS * GROUP) : "memory");
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
