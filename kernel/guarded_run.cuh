// A run under the watchdog: whatever ends it, the result file is written and the exit code says how.
#pragma once

#include <cstdio>
#include <exception>
#include <string>

#include "failure.cuh"
#include "options.cuh"
#include "result.cuh"
#include "watchdog.cuh"

namespace kernelrig {

// run(watchdog) fills the result. Returns the exit code.
template <class Run> int guarded(Result &result, const Options &options, Run run) {
  Watchdog watchdog(options.watchdog_s);
  try {
    run(watchdog);
  } catch (const Failure &failure) {
    result.failed = true;
    result.failure = failure;
  } catch (const std::exception &error) { // the host is out of memory or of threads
    result.failed = true;
    result.failure = {EXIT_CUDA, "hostError", 0, error.what(), source_place(__FILE__, __LINE__)};
  }
  if (result.failed) {
    const Failure &failure = result.failure;
    result.exit_code = failure.exit_code;
    std::fprintf(stderr, "%s: %s: %s (%d) at %s\n", result.program.c_str(), failure.text.c_str(),
                 failure.name.c_str(), failure.code, failure.where.c_str());
  }
  watchdog.stop();
  const std::string write_error = write_result(result);
  if (!write_error.empty()) {
    std::fprintf(stderr, "%s: %s\n", result.program.c_str(), write_error.c_str());
    return result.exit_code == EXIT_OK ? EXIT_USAGE : result.exit_code;
  }
  return result.exit_code;
}

} // namespace kernelrig
