// A session on one device: what the modes do, and what they have in common.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "buffers.cuh"
#include "device.cuh"
#include "failure.cuh"
#include "inputs.cuh"
#include "nvml.cuh"
#include "options.cuh"
#include "phase_table.cuh"
#include "phase_trace.cuh"
#include "problem.cuh"
#include "reference.cuh"
#include "result.cuh"
#include "role_figures.cuh"
#include "sampling.cuh"
#include "timed_loop.cuh"
#include "timed_outputs.cuh"
#include "timing.cuh"
#include "watchdog.cuh"

#ifndef KERNELRIG_LABEL
#define KERNELRIG_LABEL ""
#endif
#ifndef KERNELRIG_ACCUM_TOL
#define KERNELRIG_ACCUM_TOL 1.0e-5
#endif

namespace kernelrig {

template <class Gemm> std::vector<std::string> phase_names() {
  if (!TIMING_BUILD)
    return {};
  return {std::begin(Gemm::PHASES), std::end(Gemm::PHASES)};
}

template <class Gemm> size_t phase_bytes(const Problem &p, const Geometry &geometry) {
  size_t bytes = TIMING_BUILD ? sizeof(Cycles) : 0;
  for (const uint64_t extent : phase_shape<Gemm>(p, geometry))
    bytes *= extent;
  return bytes;
}

// Whether the kernel's phases are those of role_figures.cuh.
template <class Gemm, class = void> struct HasRoles : std::false_type {};
template <class Gemm>
struct HasRoles<Gemm, std::void_t<decltype(&Gemm::role_counts)>> : std::true_type {};

// One set of buffers and the launch prepared on it.
template <class Gemm> struct Set {
  ProblemMemory memory;
  typename Gemm::Params params;

  Set(const Problem &p, const Geometry &geometry)
      : memory(p, Gemm::workspace_bytes(p), phase_bytes<Gemm>(p, geometry)),
        params(Gemm::prepare(p, memory.buffers())) {}
};

template <class Gemm> class Session {
public:
  Session(const Options &options, Result &result, Watchdog &watchdog)
      : options_(options), result_(result), watchdog_(watchdog),
        problem_(make_problem<Gemm>(options.images, options.ctas)) {
    doing("looking at the device");
    KERNELRIG_CUDA(cudaSetDevice(options.device));
    KERNELRIG_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    result_.device = device_facts(options.device);
    cudaFuncAttributes attributes{};
    KERNELRIG_CUDA(cudaFuncGetAttributes(&attributes, reference_compare)); // wrong device: 209
    nvml_ = std::make_unique<Nvml>(result_.device.uuid);
    result_.device.driver = nvml_->driver();
    result_.before = nvml_->read();
    geometry_ = Gemm::geometry(problem_, result_.device.sm_count);
  }

  void run() {
    if constexpr (IsLibrary<Gemm>::value) {
      if (options_.mode != Mode::ONCE) {
        doing("choosing among the library's algorithms");
        Gemm::tune(problem_, stream_);
      }
    }
    switch (options_.mode) {
    case Mode::CHECK:
      check();
      break;
    case Mode::TIME:
      time();
      break;
    case Mode::ONCE:
      once();
      break;
    default:
      show();
      break;
    }
    result_.after = nvml_->read();
  }

private:
  void doing(const std::string &what) { watchdog_.doing(what, result_); }

  std::unique_ptr<Set<Gemm>> make_set() {
    auto set = std::make_unique<Set<Gemm>>(problem_, geometry_);
    if constexpr (IsLibrary<Gemm>::value) {
      const std::string built = KERNELRIG_LABEL;
      result_.label = (built.empty() ? "" : built + "; ") + Gemm::note();
    }
    return set;
  }

  // After the inputs are filled: the copies of them that a library's kernels need.
  void derive(Set<Gemm> &set) {
    if constexpr (IsLibrary<Gemm>::value)
      Gemm::derive(set.params, stream_);
  }

  // Fresh inputs, outputs filled with NaN, one launch, every element compared.
  Comparison verify(Set<Gemm> &set, Pattern pattern, uint64_t seed) {
    doing(std::string("filling inputs, ") + pattern_name(pattern));
    fill_on_device(set.memory, problem_, pattern, seed, stream_);
    derive(set);
    fill_with_nan(set.memory.c, stream_);
    fill_with_nan(set.memory.workspace, stream_);
    fill_with_nan(set.memory.phase_clocks, stream_);
    doing(std::string("the kernel, ") + pattern_name(pattern) + " pattern");
    Event begin, end; // of the launch whose phase clocks are reported
    begin.record(stream_);
    Gemm::launch(set.params, geometry_, stream_);
    KERNELRIG_CUDA(cudaGetLastError());
    end.record(stream_);
    KERNELRIG_CUDA(cudaStreamSynchronize(stream_));
    launch_ms_ = end.ms_since(begin);
    return compare(set, pattern, seed);
  }

  // Every element that the last launch on `set` wrote.
  Comparison compare(const Set<Gemm> &set, Pattern pattern, uint64_t seed) {
    doing("the device reference");
    const Comparison comparison =
        compare_all(problem_, pattern, seed, static_cast<float>(KERNELRIG_ACCUM_TOL),
                    set.memory.c.template as<uint16_t>(), stream_);
    read_outputs(set.memory.c.template as<uint16_t>(), problem_, false, result_);
    if (comparison.mismatches != 0)
      result_.exit_code = EXIT_MISMATCH;
    return comparison;
  }

  void check() {
    const std::unique_ptr<Set<Gemm>> set = make_set();
    result_.compared = verify(*set, options_.pattern, options_.seed);
    read_phase_clocks(*set, launch_ms_);
    print_device();
    print_outputs(*set);
    print_comparison(result_.compared);
  }

  void once() {
    doing("filling inputs on the host");
    const std::unique_ptr<Set<Gemm>> set = make_set();
    fill_on_host(set->memory, problem_, options_.pattern, options_.seed);
    derive(*set);
    doing("the kernel");
    for (int i = 0; i < options_.samples; ++i)
      Gemm::launch(set->params, geometry_, stream_);
    KERNELRIG_CUDA(cudaGetLastError());
    KERNELRIG_CUDA(cudaStreamSynchronize(stream_));
    read_outputs(set->memory.c.template as<uint16_t>(), problem_, true, result_);
    read_phase_clocks(*set, 0.0);
    print_device();
    print_outputs(*set);
  }

  // What timing.cuh times: launches that rotate over sets of inputs, some of them checked.
  struct Rotation {
    const std::vector<std::unique_ptr<Set<Gemm>>> &all;
    const TimedOutputs &outputs;
    const Geometry &geometry;
    cudaStream_t stream;

    int sets() const { return static_cast<int>(all.size()); }
    void launch(long long i) const { Gemm::launch(all[i % sets()]->params, geometry, stream); }
    void before(int sample) const { outputs.before(sample, memory_of(sample), stream); }
    void after(int sample) const { outputs.after(sample, memory_of(sample), stream); }
    const ProblemMemory &memory_of(int sample) const { return all[sample % sets()]->memory; }
  };

  // Leaves the outputs of the last timed launch in the result and returns its set.
  std::unique_ptr<Set<Gemm>> time() {
    doing("filling inputs to rotate over");
    std::vector<std::unique_ptr<Set<Gemm>>> sets;
    size_t input_bytes = 0;
    // no launch may find its inputs in L2: all sets together are more than three times its size
    while (sets.size() < 2 || input_bytes <= 3 * static_cast<size_t>(result_.device.l2_bytes)) {
      sets.push_back(make_set());
      const ProblemMemory &memory = sets.back()->memory;
      fill_on_device(memory, problem_, Pattern::RANDOM, options_.seed + sets.size() - 1, stream_);
      derive(*sets.back());
      fill_with_nan(memory.c, stream_);
      fill_with_nan(memory.workspace, stream_);
      fill_with_nan(memory.phase_clocks, stream_);
      input_bytes += memory.input_bytes();
    }
    const int samples = timed_samples(options_);
    const TimedOutputs outputs(problem_, Pattern::RANDOM, options_.seed, samples,
                               static_cast<int>(sets.size()));
    const Rotation work{sets, outputs, geometry_, stream_};
    TimedLoop(options_, result_, watchdog_, *nvml_, stream_).run(work);
    result_.spot_checks = outputs.read();
    launch_ms_ = result_.samples_ms.back();
    const int last = outputs.set_of(samples - 1);
    result_.verified_after_timing = compare(*sets[last], Pattern::RANDOM, options_.seed + last);
    read_phase_clocks(*sets[last], launch_ms_);
    doing("the spot checks");
    const unsigned long long wrong =
        spot_mismatches(problem_, Pattern::RANDOM, options_.seed,
                        static_cast<float>(KERNELRIG_ACCUM_TOL), result_.spot_checks);
    if (wrong != 0) {
      result_.exit_code = EXIT_MISMATCH;
      std::printf(
          "%llu sampled outputs of %zu timed launches are wrong: not every launch computes\n",
          wrong, result_.spot_checks.size());
    }
    print_device();
    const double ms = median(result_.samples_ms);
    const double flop = 2.0 * problem_.m * problem_.n * problem_.k;
    std::printf("%s data, %s, %zu samples rotating over %zu sets of inputs\n",
                pattern_name(Pattern::RANDOM), result_.regime.c_str(), result_.samples_ms.size(), sets.size());
    std::printf("Custom kernel: %.3f ms  %.2f TFLOPS\n", ms, flop / ms * 1e-9);
    if (TIMING_BUILD) {
      std::fputs(Gemm::phase_report(phase_table_, problem_, geometry_, sm_ghz()).c_str(), stdout);
    }
    if (options_.mode == Mode::TIME || result_.exit_code != EXIT_OK)
      print_comparison(result_.verified_after_timing);
    return std::move(sets[last]);
  }

  // Without --mode: timing on random data, then the constant case.
  void show() {
    const std::unique_ptr<Set<Gemm>> set = time();
    result_.compared = verify(*set, Pattern::CONSTANT, options_.seed);
    print_outputs(*set);
    if (result_.compared.mismatches != 0)
      print_comparison(result_.compared);
  }

  void read_phase_clocks(const Set<Gemm> &set, double launch_ms) {
    if (!TIMING_BUILD)
      return;
    const DeviceMemory &clocks = set.memory.phase_clocks;
    std::vector<Cycles> words(clocks.bytes() / sizeof(Cycles));
    KERNELRIG_CUDA(cudaMemcpy(words.data(), clocks.template as<void>(), clocks.bytes(),
                              cudaMemcpyDeviceToHost));
    phase_table_ = {
        Gemm::phase_rows(problem_, geometry_), phase_names<Gemm>(), {}, launch_ms};
    phase_table_.cycles = first_columns(words, phase_table_.rows, phase_table_.names.size());
    if constexpr (TRACE_BUILD && IsTraced<Gemm>::value) {
      result_.trace = read_trace(words, phase_table_.rows, phase_table_.names,
                                 list_of(Gemm::TRACE_ROLES));
    }
    result_.phase_rows = phase_table_.rows;
    result_.phases = phase_figures(phase_table_);
    if constexpr (HasRoles<Gemm>::value) {
      result_.roles = role_figures(phase_table_, Gemm::role_counts(problem_, geometry_), sm_ghz());
    }
  }

  // The median of the SM clocks read under load; without NVML the maximum of the device.
  double sm_ghz() const {
    std::vector<float> read;
    for (const Clocks &clocks : result_.during) {
      if (clocks.known)
        read.push_back(static_cast<float>(clocks.sm_mhz));
    }
    return read.empty() ? result_.device.max_sm_clock_khz * 1e-6 : median(read) * 1e-3;
  }

  void print_device() const {
    if (!result_.label.empty())
      std::printf("%s\n", result_.label.c_str());
    const std::string grid = IsLibrary<Gemm>::value
                                 ? "grids as the library chooses"
                                 : "grid of " + std::to_string(geometry_.ctas()) + " CTAs";
    std::printf("%s on %s, %d images, %s\n", result_.kernel.c_str(), result_.device.name.c_str(),
                problem_.images, grid.c_str());
  }

  void print_outputs(const Set<Gemm> &set) const {
    uint16_t head[4];
    KERNELRIG_CUDA(
        cudaMemcpy(head, set.memory.c.template as<void>(), sizeof head, cudaMemcpyDeviceToHost));
    std::printf("Checksum (first 1024): %.6f\nC[0,0..3] =", result_.checksum);
    for (const uint16_t bits : head)
      std::printf(" %.1f", float_from_bf16(bits));
    std::printf("\n");
  }

  static void print_comparison(const Comparison &comparison) {
    std::printf("%s pattern, seed %llu: %llu of %llu elements differ from the reference, %llu of "
                "them NaN\n",
                pattern_name(comparison.pattern), static_cast<unsigned long long>(comparison.seed),
                comparison.mismatches, comparison.elements, comparison.nan_count);
    if (!comparison.first.found)
      return;
    std::printf("first at C[%lld, %lld]: got %g, expected %g\n", comparison.first.row,
                comparison.first.column, float_from_bf16(comparison.first.got_bits),
                float_from_bf16(comparison.first.wanted_bits));
  }

  const Options &options_;
  Result &result_;
  Watchdog &watchdog_;
  const Problem problem_;
  Geometry geometry_;
  PhaseTable phase_table_;
  double launch_ms_ = 0.0; // of the launch whose phase clocks are reported
  std::unique_ptr<Nvml> nvml_;
  cudaStream_t stream_ = nullptr;
};

} // namespace kernelrig
