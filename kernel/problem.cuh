// The interface between the harness and a kernel: what a kernel gets, and what it must define.
//
// A kernel file has two parts. The first is the kernel function and includes only headers for the
// device (phase_clock.cuh, memory_layout.cuh, ...). The second is under `#ifndef
// KERNELRIG_DEVICE_ONLY`: it includes harness.cuh, defines `struct Gemm`, and its main is `return
// harness_main<Gemm>(argc, argv);`. So `nvcc -cubin -DKERNELRIG_DEVICE_ONLY` compiles the function
// and nothing else.
//
//   struct Gemm {
//     // the kernel function's name: extern "C", or unique in the module
//     static constexpr char ENTRY[];
//     static constexpr int ROWS_PER_IMAGE, N, K;
//     // the layout of comb: [N / COMB_BLOCK][ROWS_PER_IMAGE][COMB_BLOCK], so that a warp whose
//     // lanes are rows reads it coalesced; COMB_BLOCK = N is row-major
//     static constexpr int COMB_BLOCK;
//     // "role: phase", the names of the phases of a timing build
//     static constexpr const char *PHASES[];
//     // what one launch needs: tensor maps, pointers, sizes
//     using Params = ...;
//     static size_t workspace_bytes(const Problem &);
//     // pure, as describe calls it without a GPU, with the sm_count of the arch built for. Throws
//     // UsageError where the kernel cannot run with this limit of the grid.
//     static Geometry geometry(const Problem &, int sm_count);
//     // pure: phase_clocks is [phase_rows, phases]; a row is a CTA, or a tile
//     static int phase_rows(const Problem &, const Geometry &);
//     // pure: the report that a timing build prints; phase_table_text is the default one
//     static std::string phase_report(const PhaseTable &, const Problem &, const Geometry &,
//                                     double sm_ghz);
//     // once per set of buffers: encode tensor maps, set function attributes
//     static Params prepare(const Problem &, const Buffers &);
//     // one launch of ENTRY and of nothing else, every call through KERNELRIG_CUDA; for a
//     // library's Gemm (below), one run of all its kernels
//     static void launch(const Params &, const Geometry &, cudaStream_t);
//     // pure: the kernel's parameters in order, the tensor maps among them, and the names of what
//     // lies in shared and tensor memory
//     static LaunchArgs arguments(const Problem &);
//     // pure, optional: where the phases are those of role_figures.cuh, their figures are written
//     // to the result file
//     static RoleCounts role_counts(const Problem &, const Geometry &);
//     // baselines only: what it computes instead of the project's function (function.cuh)
//     static constexpr Function FUNCTION;
//   };
//
// A library's Gemm launches kernels that the library chooses. It has no launch to describe, its
// ENTRY is the filter of kernels.yaml that matches them (ncu -k), its grid is 0, and it also has:
//     // choose an algorithm; called before the first prepare, but not in mode once, which allows
//     // no other launch
//     static void tune(const Problem &, cudaStream_t);
//     // after every filling of the inputs: copies of them that may be made before the timing
//     static void derive(const Params &, cudaStream_t);
//     // what was chosen: appended to the label of the result
//     static std::string note();
//
// C = bf16(acc) +bf16 comb[row % ROWS_PER_IMAGE], acc the FP32 product sum of A [M, K] and B [N, K]
// in E4M3, all row-major. Every buffer starts on a 256-byte boundary. The kernel may not rely on
// the content of `workspace`: NaN patterns in check and time, uninitialised in once (so that
// initcheck reports a read).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "function.cuh"
#include "launch.cuh"
#include "phase_clock.cuh"

namespace kernelrig {

struct Problem {
  int images;
  int ctas; // limit of the grid; 0: one CTA per SM
  int m, n, k;
  int rows_per_image;
  int comb_block;
  Function function;
};

struct Buffers {
  const uint8_t *a;
  const uint8_t *b;
  const uint16_t *comb; // BF16 bits, [n / comb_block, rows_per_image, comb_block]: table_entry
  uint16_t *c;          // BF16 bits, [m, n]
  void *workspace;
  unsigned long long *phase_clocks; // phase_shape() in a timing build, else null
  const uint16_t *bias;             // BF16 bits, [n], for BIAS_THEN_ADD, else null
};

template <class Gemm, class = void> struct FunctionOf {
  static constexpr Function VALUE = Function::ROUND_THEN_ADD;
};
template <class Gemm> struct FunctionOf<Gemm, std::void_t<decltype(Gemm::FUNCTION)>> {
  static constexpr Function VALUE = Gemm::FUNCTION;
};

// Whether the kernels are a library's.
template <class Gemm, class = void> struct IsLibrary : std::false_type {};
template <class Gemm>
struct IsLibrary<Gemm, std::void_t<decltype(&Gemm::tune)>> : std::true_type {};

template <class Gemm> Problem make_problem(int images, int ctas) {
  static_assert(Gemm::COMB_BLOCK > 0 && Gemm::N % Gemm::COMB_BLOCK == 0,
                "the combined table is cut into whole blocks of columns");
  return {images,
          ctas,
          images * Gemm::ROWS_PER_IMAGE,
          Gemm::N,
          Gemm::K,
          Gemm::ROWS_PER_IMAGE,
          Gemm::COMB_BLOCK,
          FunctionOf<Gemm>::VALUE};
}

// Whether a trace build of the kernel records more than cycles: it has a list TRACE_ROLES.
template <class Gemm, class = void> struct IsTraced : std::false_type {};
template <class Gemm>
struct IsTraced<Gemm, std::void_t<decltype(Gemm::TRACE_ROLES)>> : std::true_type {};

template <class Gemm> size_t trace_row_words() {
  size_t words = 0;
  if constexpr (IsTraced<Gemm>::value) {
    for (const TraceRole &role : Gemm::TRACE_ROLES)
      words += trace_words(role.marks);
  }
  return words;
}

// The shape of phase_clocks, [rows, phases and what is traced]; empty in a build without clocks.
template <class Gemm>
std::vector<uint64_t> phase_shape(const Problem &p, const Geometry &geometry) {
  if (!TIMING_BUILD)
    return {};
  return {static_cast<uint64_t>(Gemm::phase_rows(p, geometry)), std::size(Gemm::PHASES) + trace_row_words<Gemm>()};
}

} // namespace kernelrig
