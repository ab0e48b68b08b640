// The device part of a timing build (KERNELRIG_TIMING): each mark() adds the cycles since the mark
// before to a phase. In every other build it compiles to nothing.
//
// A trace build (KERNELRIG_TRACE: how many tiles of a role it records) also writes when each phase
// ended, by %globaltimer, which all SMs share (trace_role.cuh). The stores cost time: those of one
// phase are counted in the next.
//
// A kernel names its phases in `Gemm::PHASES`, and its phase_clocks are [phase_rows, phases]. One
// thread of each role has a clock of that role's phases and writes it into its row: once at the end
// where a row is a CTA, a fresh clock for each tile where a row is a tile.
#pragma once

#include "trace_role.cuh"

#ifdef KERNELRIG_TRACE
#include "ptx.cuh"
#ifndef KERNELRIG_TIMING
#error "a trace build is a timing build: define KERNELRIG_TIMING too"
#endif
#endif

namespace kernelrig {

#ifdef KERNELRIG_TIMING
constexpr bool TIMING_BUILD = true;
#else
constexpr bool TIMING_BUILD = false;
#endif

#ifdef KERNELRIG_TRACE
constexpr bool TRACE_BUILD = true;
constexpr int TRACE_TILES = KERNELRIG_TRACE;
#else
constexpr bool TRACE_BUILD = false;
constexpr int TRACE_TILES = 0;
#endif

constexpr int trace_words(int marks) { return TRACE_BUILD ? record_words(marks) : 0; }

template <int PHASE_COUNT> struct PhaseClock {
#ifdef KERNELRIG_TIMING
  long long cycles[PHASE_COUNT] = {};
  long long last = 0;
#ifdef KERNELRIG_TRACE
  unsigned long long *trace = nullptr;
  int marks = 0, most_marks = 0;

  // Before start(), by the one thread of the role that records.
  __device__ __forceinline__ void record(unsigned long long *to, int most) {
    trace = to;
    most_marks = most;
  }
#else
  __device__ __forceinline__ void record(unsigned long long *, int) {}
#endif

  __device__ __forceinline__ void start() {
#ifdef KERNELRIG_TRACE
    if (trace != nullptr) {
      trace[0] = static_cast<unsigned long long>(blockIdx.x) << 32 | ptx::sm();
      trace[1] = 0;
      trace[2] = ptx::global_ns();
    }
#endif
    last = clock64();
  }

  __device__ __forceinline__ void mark(int phase) {
    const long long now = clock64();
    cycles[phase] += now - last;
    last = now;
#ifdef KERNELRIG_TRACE
    if (trace != nullptr) {
      if (marks < most_marks) {
        trace[TRACE_HEAD + 2 * marks] = static_cast<unsigned long long>(phase);
        trace[TRACE_HEAD + 2 * marks + 1] = ptx::global_ns();
      }
      trace[1] = static_cast<unsigned long long>(++marks);
    }
#endif
  }

  __device__ __forceinline__ void write(unsigned long long *clocks) const {
#pragma unroll
    for (int phase = 0; phase < PHASE_COUNT; ++phase) {
      clocks[phase] = static_cast<unsigned long long>(cycles[phase]);
    }
  }
#else
  __device__ __forceinline__ void record(unsigned long long *, int) {}
  __device__ __forceinline__ void start() {}
  __device__ __forceinline__ void mark(int) {}
  __device__ __forceinline__ void write(unsigned long long *) const {}
#endif
};

} // namespace kernelrig
