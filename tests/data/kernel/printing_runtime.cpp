// A CUDA runtime that prints a launch in place of making one (print_timed_work.cu).

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

uint64_t own_rows; // the hash base of the rows of A that a set has

namespace {

dim3 grid, block;

// Functions are registered before main, and before the variables of this file are made.
std::map<const void *, std::string> &names() {
  static std::map<const void *, std::string> held;
  return held;
}

} // namespace

extern "C" {

void **__cudaRegisterFatBinary(void *) {
  static void *handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterFunction(void **, const char *function, char *, const char *name, int, uint3 *,
                            uint3 *, dim3 *, dim3 *, int *) {
  const std::string mangled = name;
  for (const char *known : {"spoil_places", "take_places", "spoil_outputs"})
    if (mangled.find(known) != std::string::npos)
      names()[function] = known;
}
unsigned __cudaPushCallConfiguration(dim3 g, dim3 b, size_t, CUstream_st *) {
  grid = g, block = b;
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *g, dim3 *b, size_t *shared, void *stream) {
  *g = grid, *b = block, *shared = 0;
  std::memset(stream, 0, sizeof(void *));
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void *>(function));
  return cudaSuccess;
}
char __cudaInitModule(void **) { return 1; }
cudaError_t __cudaLaunchKernel(cudaKernel_t function, dim3 g, dim3 b, void **arguments, size_t,
                               cudaStream_t) {
  const std::string &name = names().at(function);
  const bool fills = name.find("_places") != std::string::npos; // its base is the seventh
  const bool own = fills && *static_cast<uint64_t *>(arguments[6]) == own_rows;
  std::printf(" %s<%u,%u>%s", name.c_str(), g.x, b.x, !fills ? "" : own ? " own" : " new");
  return cudaSuccess;
}
cudaError_t cudaMalloc(void **address, size_t bytes) {
  *address = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void *address) {
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char *cudaGetErrorName(cudaError_t) { return ""; }
const char *cudaGetErrorString(cudaError_t) { return ""; }
cudaError_t cudaMemcpy(void *, const void *, size_t, cudaMemcpyKind) { return cudaSuccess; }

} // extern "C"
