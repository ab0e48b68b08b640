// The host side of every patch-embed kernel: arguments, inputs, reference, comparison, timing,
// result file, launch description. A kernel file includes this one header for its host part;
// problem.cuh describes what the kernel must define. The host side of any other function is
// operation.cuh, which has most of these headers in common with it.
//
//   failure, json, options     errors and exit codes, output, command line
//   tensor, device_memory      element types, what a tensor starts with, memory of the device
//   inputs, buffers            the bits of the inputs, their device memory
//   reference, sampling        comparison of every element on the device, samples for Python
//   device, timing, nvml       the GPU, samples, clocks
//   timed_loop, guarded_run    samples alone or in a relay; the run as a whole
//   spot_check, timed_outputs  which timed launches are checked, and how
//   relay                      measurement slots for several processes on one GPU
//   phase_clock, phase_table   cycles per phase of a CTA or of a tile
//   role_figures, role_report  the same by warp role
//   tensor_map_rules, tensor_map
//                              the rules of a tensor map; the encoder
//   memory_layout              the names of what lies in shared and tensor memory
//   session, result, watchdog, launch_file
//
// With KERNELRIG_DESCRIBE_ONLY the program knows mode describe alone, and compiles in half the
// time.
#pragma once

#include <cstdio>
#include <string>

#include "failure.cuh"
#include "launch_file.cuh"
#include "options.cuh"
#include "problem.cuh"
#include "role_report.cuh"
#include "tensor_map.cuh"
#ifndef KERNELRIG_DESCRIBE_ONLY
#include "guarded_run.cuh"
#include "result.cuh"
#include "session.cuh"
#include "watchdog.cuh"
#endif

// The build passes these; the defaults serve a kernel compiled by hand.
#ifndef KERNELRIG_PROGRAM
#define KERNELRIG_PROGRAM "kernel"
#endif
#ifndef KERNELRIG_LABEL
#define KERNELRIG_LABEL ""
#endif

namespace kernelrig {

template <class Gemm> void describe(const Options &options) {
  const Problem problem = make_problem<Gemm>(options.images, options.ctas);
  const Geometry geometry = Gemm::geometry(problem, sm_count_of_build());
  const std::string launch =
      launch_text(options, problem, Gemm::ENTRY, geometry, Gemm::arguments(problem),
                  Gemm::workspace_bytes(problem), phase_shape<Gemm>(problem, geometry));
  write_launch_file(options, problem, launch);
}

// The problem of the options: a case that the kernel cannot run is a usage error, found without a
// GPU.
template <class Gemm> Problem runnable_problem(const Options &options) {
  const Problem problem = make_problem<Gemm>(options.images, options.ctas);
  Gemm::geometry(problem, sm_count_of_build());
  return problem;
}

#ifdef KERNELRIG_DESCRIBE_ONLY
template <class Gemm> int measure(const Options &, const Problem &) {
  throw UsageError{"this build describes launches, and does nothing else"};
}
#else
template <class Gemm> int measure(const Options &options, const Problem &problem) {
  Result result;
  result.program = KERNELRIG_PROGRAM;
  result.kernel = Gemm::ENTRY;
  result.label = KERNELRIG_LABEL;
  result.options = options;
  result.problem = problem;
  if (!options.result.empty()) {
    const std::string write_refusal = refusal_to_write(options.result);
    if (!write_refusal.empty())
      throw UsageError{write_refusal};
  }
  return guarded(result, options, [&](Watchdog &watchdog) {
    Session<Gemm>(options, result, watchdog).run();
  });
}
#endif

template <class Gemm> int harness_main(int argc, char **argv) {
  try {
    const Options options = parse_options(argc, argv);
    if (options.help) {
      std::fputs(usage_text(KERNELRIG_PROGRAM).c_str(), stdout);
      return EXIT_OK;
    }
    if (options.mode != Mode::DESCRIBE)
      return measure<Gemm>(options, runnable_problem<Gemm>(options));
    describe<Gemm>(options);
    return EXIT_OK;
  } catch (const UsageError &error) {
    std::fprintf(stderr, "%s: %s\n", KERNELRIG_PROGRAM, error.sentence.c_str());
    return EXIT_USAGE;
  }
}

} // namespace kernelrig

using kernelrig::harness_main;
