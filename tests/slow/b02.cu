// Waves on closed strings of CELLS cells, one string to a CTA; a probe of every thread is recorded
// at every step.
#include "program.cuh"

constexpr int STRINGS = 528, THREADS = 256, OWN = 16, CELLS = THREADS * OWN, STEPS = 256;
constexpr int PROBE = 7;

__host__ __device__ inline uint32_t moved(uint32_t left, uint32_t own, uint32_t right,
                                          uint32_t before) {
  const int bend = static_cast<int>(left + right - 2 * own);
  return 2 * own - before + static_cast<uint32_t>(bend >> 2);
}

template <int FORM>
__global__ void __launch_bounds__(THREADS, 4) work(const uint32_t *in, uint32_t *out) {
  __shared__ uint2 ends[2][THREADS];
  const int t = threadIdx.x;
  uint32_t now[OWN], before[OWN];
  const uint4 *from = reinterpret_cast<const uint4 *>(in + static_cast<size_t>(blockIdx.x) * CELLS);
  for (int i = 0; i < OWN / 4; ++i) {
    const uint4 four = from[t * (OWN / 4) + i];
    now[4 * i] = four.x, now[4 * i + 1] = four.y, now[4 * i + 2] = four.z, now[4 * i + 3] = four.w;
  }
#pragma unroll
  for (int i = 0; i < OWN; ++i)
    before[i] = now[i];
  uint32_t *record = out + static_cast<size_t>(blockIdx.x) * STEPS * THREADS + t;
#pragma unroll 2
  for (int step = 0; step < STEPS; ++step) {
    ends[step & 1][t] = make_uint2(now[0], now[OWN - 1]);
    __syncthreads();
    const uint32_t left = ends[step & 1][(t + THREADS - 1) % THREADS].y;
    const uint32_t right = ends[step & 1][(t + 1) % THREADS].x;
    uint32_t next[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i)
      next[i] = moved(i == 0 ? left : now[i == 0 ? 0 : i - 1], now[i],
                      i == OWN - 1 ? right : now[i == OWN - 1 ? i : i + 1], before[i]);
#pragma unroll
    for (int i = 0; i < OWN; ++i)
      before[i] = now[i], now[i] = next[i];
    record[step * THREADS] = now[PROBE];
    if (FORM == 0)
      __threadfence();
  }
}

struct Program {
  static constexpr size_t INPUTS = static_cast<size_t>(STRINGS) * CELLS;
  static constexpr size_t OUTPUTS = static_cast<size_t>(STRINGS) * STEPS * THREADS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i));
  }
  static uint32_t expected(size_t i) {
    const int t = static_cast<int>(i % THREADS), steps = static_cast<int>(i / THREADS % STEPS) + 1;
    const size_t string = i / THREADS / STEPS;
    const int width = 2 * steps + 1, middle = t * OWN + PROBE;
    std::vector<uint32_t> now(width), before, next;
    for (int k = 0; k < width; ++k)
      now[k] = input<0>(string * CELLS + (middle - steps + k + CELLS) % CELLS);
    before = next = now;
    for (int s = 1; s <= steps; ++s) {
      for (int k = s; k < width - s; ++k)
        next[k] = moved(now[k - 1], now[k], now[k + 1], before[k]);
      before.swap(now);
      now.swap(next);
    }
    return now[steps];
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<STRINGS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
