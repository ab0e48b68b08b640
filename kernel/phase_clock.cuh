// The device part of a timing build (KERNELRIG_TIMING): each mark() adds the cycles since the mark
// before to a phase. In every other build it compiles to nothing.
//
// A kernel names its phases in `Gemm::PHASES`, and its phase_clocks are [phase_rows, phases]. One
// thread of each role has a clock of that role's phases and writes it into its row: once at the end
// where a row is a CTA, a fresh clock for each tile where a row is a tile.
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
#else
  __device__ __forceinline__ void start() {}
  __device__ __forceinline__ void mark(int) {}
  __device__ __forceinline__ void write(unsigned long long *) const {}
#endif
};

} // namespace kernelrig
