// How a harness program ends: its exit codes, and the exceptions that carry the reason.
#pragma once

#include <cuda_runtime.h>

#include <cstring>
#include <string>

namespace kernelrig {

// The client's readers know these numbers (README.md).
enum ExitCode : int {
  EXIT_OK = 0,
  EXIT_USAGE = 2,
  EXIT_CUDA = 70,
  EXIT_MISMATCH = 71,
  EXIT_WRONG_DEVICE = 72,
  EXIT_WATCHDOG = 73,
};

struct UsageError {
  std::string sentence;
};

// A run that cannot continue. `name` and `code` are CUDA's where a CUDA call failed.
struct Failure {
  int exit_code;
  std::string name;
  int code;
  std::string text;
  std::string where;
};

inline std::string source_place(const char *file, int line) {
  const char *slash = std::strrchr(file, '/');
  return std::string(slash == nullptr ? file : slash + 1) + ":" + std::to_string(line);
}

inline void require_cuda(cudaError_t status, const char *file, int line) {
  if (status == cudaSuccess)
    return;
  // some calls return 98 instead of 209 when the binary has no code for this GPU
  const bool no_code_for_it =
      status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction;
  throw Failure{no_code_for_it ? EXIT_WRONG_DEVICE : EXIT_CUDA, cudaGetErrorName(status),
                static_cast<int>(status), cudaGetErrorString(status), source_place(file, line)};
}

} // namespace kernelrig

// Every CUDA call goes through this: an error ends the run with code, name, text, file and line.
#define KERNELRIG_CUDA(call) ::kernelrig::require_cuda((call), __FILE__, __LINE__)
