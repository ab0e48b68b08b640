// The device's part of a timing build (KERNELRIG_TIMING): each mark() charges the cycles since the
// one before to a phase. In every other build all of it compiles to nothing.
//
// A kernel names its phases in `Gemm::PHASES`, and its phase_clocks are [phase_rows, phases]. One
// thread of each role carries a clock of that role's phases, and either writes it once, after its
// last tile (a row a CTA), or flushes it after every tile (a row a tile).
#pragma once

namespace kernelrig {

#ifdef KERNELRIG_TIMING
constexpr bool TIMING_BUILD = true;
#else
constexpr bool TIMING_BUILD = false;
#endif

template <int PHASE_COUNT> struct PhaseClock {
#ifdef KERNELRIG_TIMING
  long long cycles[PHASE_COUNT] = {};
  long long last = 0;

  __device__ __forceinline__ void start() { last = clock64(); }

  __device__ __forceinline__ void mark(int phase) {
    const long long now = clock64();
    cycles[phase] += now - last;
    last = now;
  }

  __device__ __forceinline__ void write(unsigned long long *clocks) const {
#pragma unroll
    for (int phase = 0; phase < PHASE_COUNT; ++phase) {
      clocks[phase] = static_cast<unsigned long long>(cycles[phase]);
    }
  }

  // Write and begin the next tile at zero. What the stores cost falls to its first phase, unless
  // start() follows.
  __device__ __forceinline__ void flush(unsigned long long *clocks) {
    write(clocks);
#pragma unroll
    for (int phase = 0; phase < PHASE_COUNT; ++phase)
      cycles[phase] = 0;
  }
#else
  __device__ __forceinline__ void start() {}
  __device__ __forceinline__ void mark(int) {}
  __device__ __forceinline__ void write(unsigned long long *) const {}
  __device__ __forceinline__ void flush(unsigned long long *) {}
#endif
};

} // namespace kernelrig
