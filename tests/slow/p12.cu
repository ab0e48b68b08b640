// Each warp passes a word around its lanes 256 times through its own 32 words of shared memory, and
// mixes it in between, every eighth time longer; a table of 128 KB stays in shared memory.
#include "program.cuh"

constexpr int THREADS = 512, TURNS = 256, CTAS = 132 * 2, TABLE = 32768;
constexpr int ROUNDS = 16, MORE_ROUNDS = 48;
constexpr size_t TABLE_AT = static_cast<size_t>(CTAS) * THREADS;

__host__ __device__ constexpr int rounds(int warp, int turn) {
  return (warp + warp / 8 + turn) % 8 == 0 ? MORE_ROUNDS : ROUNDS;
}

__host__ __device__ constexpr uint32_t round_of(uint32_t x) { return (x ^ x >> 13) * 0x846CA68Bu; }

template <int FORM>
__global__ void __launch_bounds__(THREADS, 1) work(const uint32_t *in, uint32_t *out) {
  extern __shared__ uint32_t table[]; // then the words that are passed
  for (int i = threadIdx.x; i < TABLE; i += THREADS)
    table[i] = in[TABLE_AT + i];
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t *const words = table + TABLE + warp * 32;
  uint32_t x = in[blockIdx.x * THREADS + threadIdx.x];
  for (int turn = 0; turn < TURNS; ++turn) {
    const int most = rounds(warp, turn);
#pragma unroll 8
    for (int round = 0; round < most; ++round)
      x = round_of(x);
    words[lane] = x + table[(turn * 32 + lane) % TABLE];
    if (FORM == 0)
      __syncthreads();
    else
      __syncwarp();
    x = words[(lane + 1) % 32];
    if (FORM == 0)
      __syncthreads();
    else
      __syncwarp();
  }
  out[blockIdx.x * THREADS + threadIdx.x] = x;
}

struct Program {
  static constexpr size_t INPUTS = TABLE_AT + TABLE, OUTPUTS = TABLE_AT;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) { return mixed(i); }
  static uint32_t expected(size_t at) {
    const int warp = at % THREADS / 32;
    uint32_t x = input<0>(at - at % 32 + (at % 32 + TURNS) % 32);
    for (int turn = 0; turn < TURNS; ++turn) {
      const int lane = (at + TURNS - turn) % 32; // that holds the word now
      for (int round = 0; round < rounds(warp, turn); ++round)
        x = round_of(x);
      x += input<0>(TABLE_AT + (turn * 32 + lane) % TABLE);
    }
    return x;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    launch_with(work<FORM>, CTAS, THREADS, (TABLE + THREADS) * 4, in, out);
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
