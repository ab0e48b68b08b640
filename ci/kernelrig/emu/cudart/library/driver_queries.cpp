// What the driver says of kernels, streams and the context, and its occupancy.

#include "runtime.hpp"

#include <algorithm>

using namespace cudart;
#define CALLER __builtin_return_address(0)
#define DRIVER(code) return CUresult(finished(__func__, cudaError_t(code), CALLER))

extern "C" {

CUresult cuFuncGetName(const char** out, CUfunction function) {
  auto* kernel = reinterpret_cast<Kernel*>(function);
  if (!out || !kernel)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  *out = kernel->name.c_str();
  DRIVER(CUDA_SUCCESS);
}
CUresult cuKernelGetName(const char** out, CUkernel kernel) {
  return cuFuncGetName(out, reinterpret_cast<CUfunction>(kernel));
}
CUresult cuFuncGetParamInfo(CUfunction function, size_t number, size_t* offset, size_t* bytes) {
  auto* kernel = reinterpret_cast<Kernel*>(function);
  if (!kernel || !offset)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  if (cudaError_t error = learn(*kernel))
    DRIVER(error);
  if (number >= kernel->params.size())
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  *offset = kernel->params[number].offset;
  if (bytes)
    *bytes = kernel->params[number].bytes;
  DRIVER(CUDA_SUCCESS);
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t number, size_t* offset, size_t* bytes) {
  return cuFuncGetParamInfo(reinterpret_cast<CUfunction>(kernel), number, offset, bytes);
}

CUresult cuStreamGetCtx(CUstream, CUcontext* out) { return cuCtxGetCurrent(out); }
CUresult cuStreamGetFlags(CUstream stream, unsigned* out) {
  return CUresult(cudaStreamGetFlags(stream, out));
}
CUresult cuStreamGetPriority(CUstream stream, int* out) {
  return CUresult(cudaStreamGetPriority(stream, out));
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return CUresult(cudaLaunchHostFunc(stream, function, data));
}
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return CUresult(cudaDeviceGetStreamPriorityRange(least, greatest));
}
CUresult cuCtxGetId(CUcontext, unsigned long long* out) {
  if (!out)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  *out = 1;  // there is one
  DRIVER(CUDA_SUCCESS);
}
CUresult cuCtxGetFlags(unsigned* out) {
  if (!out)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  *out = 0;
  DRIVER(CUDA_SUCCESS);
}

// The block of the most threads that are resident on an SM, largest blocks first, as
// cudaOccupancyMaxPotentialBlockSize of cuda_runtime.h finds it.
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                   CUoccupancyB2DSize dynamic_of, size_t dynamic,
                                                   int limit, unsigned) {
  auto* kernel = reinterpret_cast<Kernel*>(function);
  if (!grid || !block || !kernel)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  if (cudaError_t error = learn(*kernel))
    DRIVER(error);
  const int warp = attribute(cudaDevAttrWarpSize);
  const int most = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  int largest = std::min(attribute(cudaDevAttrMaxThreadsPerBlock), kernel->facts.max_threads);
  if (limit > 0)
    largest = std::min(largest, limit);
  int found = 0;
  for (int threads = (largest + warp - 1) / warp * warp; threads > 0 && found < most;
       threads -= warp) {
    const int tried = std::min(threads, largest);
    int resident = 0;
    if (cudaError_t error =
            occupancy(&resident, kernel, tried, dynamic_of ? dynamic_of(tried) : dynamic))
      DRIVER(error);
    if (resident * tried > found) {
      found = resident * tried;
      *block = tried;
      *grid = resident * attribute(cudaDevAttrMultiProcessorCount);
    }
  }
  DRIVER(found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
CUresult cuOccupancyMaxActiveClusters(int* out, CUfunction function, const CUlaunchConfig* how) {
  if (!how)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  cudaLaunchConfig_t all{};
  all.gridDim = dim3(how->gridDimX, how->gridDimY, how->gridDimZ);
  all.blockDim = dim3(how->blockDimX, how->blockDimY, how->blockDimZ);
  all.dynamicSmemBytes = how->sharedMemBytes;
  all.attrs = reinterpret_cast<cudaLaunchAttribute*>(how->attrs);
  all.numAttrs = how->numAttrs;
  return CUresult(cudaOccupancyMaxActiveClusters(out, function, &all));
}
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                          CUoccupancyB2DSize dynamic_of, size_t dynamic,
                                          int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, dynamic_of, dynamic,
                                                   limit, 0);
}
}
