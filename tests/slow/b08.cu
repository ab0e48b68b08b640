// Linear recurrences h = a h + b along the sequences of many channels, a warp to a channel; a word
// of the inputs is a and b of 16 bits.
#include "program.cuh"

constexpr int CTAS = 132, WARPS = 32, LENGTH = 8192;

template <int FORM> __device__ __forceinline__ void meet() {
  if (FORM == 0)
    __syncthreads();
  else
    __syncwarp();
}

template <int FORM>
__global__ void __launch_bounds__(WARPS * 32, 1) work(const uint32_t *in, uint32_t *out) {
  __shared__ uint2 all[WARPS][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint2 *own = all[warp];
  const size_t first = static_cast<size_t>(blockIdx.x * WARPS + warp) * LENGTH + lane;
  const uint32_t *from = in + first;
  uint32_t carry = 0, word = from[0], next = from[32];
#pragma unroll 1
  for (int i = 0; i < LENGTH; i += 32) {
    const uint32_t later = i + 64 < LENGTH ? from[i + 64] : 0;
    uint2 x = make_uint2(word & 0xFFFF, word >> 16);
    own[lane] = x;
    meet<FORM>();
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const uint2 before = lane >= d ? own[lane - d] : make_uint2(1, 0);
      meet<FORM>();
      x.y += x.x * before.y;
      x.x *= before.x;
      own[lane] = x;
      meet<FORM>();
    }
    const uint32_t h = x.x * carry + x.y;
    const uint2 last = own[31];
    carry = last.x * carry + last.y;
    meet<FORM>();
    out[first + i] = h;
    word = next;
    next = later;
  }
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(CTAS) * WARPS * LENGTH, OUTPUTS = INPUTS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i)) | 1;
  }
  static uint32_t expected(size_t i) {
    uint32_t h = 0;
    for (size_t k = i / LENGTH * LENGTH; k <= i; ++k) {
      const uint32_t word = input<0>(k);
      h = (word & 0xFFFF) * h + (word >> 16);
    }
    return h;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<CTAS, WARPS * 32>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
