// Where a CTA's time goes, in a timing build (KERNELRIG_TIMING): each mark() charges the cycles
// since the one before to a phase. In every other build all of it compiles to nothing.
//
// A kernel names its phases in `Gemm::PHASES` and lets one thread of each role write its clock out
// once, after its last tile.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "failure.cuh"
#include "problem.cuh"

namespace kernelrig {

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

struct PhaseCycles {
  std::string name;
  double mean_cycles;
  unsigned long long max_cycles;
};

inline std::vector<PhaseCycles> read_phases(const unsigned long long *device_clocks, int ctas,
                                            const std::vector<std::string> &names) {
  std::vector<unsigned long long> clocks(static_cast<size_t>(ctas) * names.size());
  KERNELRIG_CUDA(cudaMemcpy(clocks.data(), device_clocks, clocks.size() * sizeof clocks[0],
                            cudaMemcpyDeviceToHost));
  std::vector<PhaseCycles> phases;
  for (size_t phase = 0; phase < names.size(); ++phase) {
    PhaseCycles row{names[phase], 0.0, 0};
    for (int cta = 0; cta < ctas; ++cta) {
      const unsigned long long cycles = clocks[cta * names.size() + phase];
      row.mean_cycles += static_cast<double>(cycles) / ctas;
      if (cycles > row.max_cycles)
        row.max_cycles = cycles;
    }
    phases.push_back(row);
  }
  return phases;
}

inline void print_phases(const std::vector<PhaseCycles> &phases, int ctas) {
  double total = 0.0;
  for (const PhaseCycles &phase : phases)
    total += phase.mean_cycles;
  std::printf("%-24s %14s %7s %14s   (%d CTAs)\n", "phase", "mean cycles", "share", "max cycles",
              ctas);
  for (const PhaseCycles &phase : phases) {
    std::printf("%-24s %14.0f %6.1f%% %14llu\n", phase.name.c_str(), phase.mean_cycles,
                total > 0.0 ? 100.0 * phase.mean_cycles / total : 0.0, phase.max_cycles);
  }
}

} // namespace kernelrig
