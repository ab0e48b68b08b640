// The driver's functions: by linking with libcuda, or by asking the runtime for them.

#include "graphs.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

using namespace cudart;
#define CALLER __builtin_return_address(0)
#define DRIVER(code) return CUresult(finished(__func__, cudaError_t(code), CALLER))

namespace {

char context;  // its address is the handle of the only context

cudaError_t copy_driver(uint64_t to, const void* to_host, uint64_t from, const void* from_host,
                        size_t bytes, cudaMemcpyKind kind, const void* caller) {
  void* target = to_host ? const_cast<void*>(to_host) : reinterpret_cast<void*>(to);
  return copy(target, from_host ? from_host : reinterpret_cast<void*>(from), bytes, kind, caller);
}

cudaError_t launch_function(CUfunction function, const Geometry& geometry, void** args,
                            void** extra, const void* caller) {
  auto* kernel = reinterpret_cast<Kernel*>(function);
  if (!kernel)
    return cudaErrorInvalidResourceHandle;
  if (!extra)
    return launch(*kernel, geometry, args, caller);
  const void* buffer = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *static_cast<size_t*>(extra[1]);
  }
  if (!buffer)
    return cudaErrorInvalidValue;
  std::string params(static_cast<const char*>(buffer), bytes);
  return launch(*kernel, geometry, nullptr, caller, &params);
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return CUresult(cudaDriverGetVersion(version)); }
CUresult cuGetErrorName(CUresult code, const char** out) {
  error_was_read(cudaError_t(code));
  *out = error_name(code);
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult code, const char** out) {
  error_was_read(cudaError_t(code));
  *out = error_text(code);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) { return CUresult(cudaGetDeviceCount(count)); }
CUresult cuDeviceGet(CUdevice* device, int number) {
  *device = number;
  DRIVER(number ? cudaErrorInvalidDevice : cudaSuccess);
}
CUresult cuDeviceGetName(char* out, int size, CUdevice) {
  snprintf(out, size_t(size), "%s", process().device.name);
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = process().device.memory_bytes;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  return CUresult(cudaDeviceGetAttribute(value, cudaDeviceAttr(which), device));
}
CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice) {
  *major = attribute(cudaDevAttrComputeCapabilityMajor);
  *minor = attribute(cudaDevAttrComputeCapabilityMinor);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice) {
  *out = reinterpret_cast<CUcontext>(&context);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
// Names of older versions, which cuda.h no longer declares and programs still link.
#define OLDER __attribute__((visibility("default")))
#undef cuCtxCreate
OLDER CUresult cuCtxCreate_v2(CUcontext* out, unsigned, CUdevice) {
  *out = reinterpret_cast<CUcontext>(&context);
  return CUDA_SUCCESS;
}
CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams*, unsigned, CUdevice) {
  *out = reinterpret_cast<CUcontext>(&context);
  return CUDA_SUCCESS;
}
CUresult cuCtxDestroy(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* out) {
  *out = reinterpret_cast<CUcontext>(&context);
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent(CUcontext* out) {
  if (out)
    *out = reinterpret_cast<CUcontext>(&context);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuProfilerStart() { return CUDA_SUCCESS; }
CUresult cuProfilerStop() { return CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { return CUresult(cudaDeviceSynchronize()); }

CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  DRIVER(allocate(reinterpret_cast<void**>(out), bytes, Kind::DEVICE, CALLER));
}
CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned) {
  DRIVER(allocate(reinterpret_cast<void**>(out), bytes, Kind::MANAGED, CALLER));
}
CUresult cuMemAllocHost(void** out, size_t bytes) {
  DRIVER(allocate(out, bytes, Kind::HOST, CALLER));
}
CUresult cuMemFree(CUdeviceptr address) {
  DRIVER(release(reinterpret_cast<void*>(address), false, CALLER));
}
CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned) {
  DRIVER(allocate(out, bytes, Kind::HOST, CALLER));
}
CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return CUresult(cudaHostRegister(pointer, bytes, flags));
}
CUresult cuMemHostUnregister(void* pointer) { return CUresult(cudaHostUnregister(pointer)); }
CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* pointer, unsigned flags) {
  return CUresult(cudaHostGetDevicePointer(reinterpret_cast<void**>(out), pointer, flags));
}
CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return CUresult(cudaMallocAsync(reinterpret_cast<void**>(out), bytes, stream));
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return CUresult(cudaFreeAsync(reinterpret_cast<void*>(address), stream));
}
CUresult cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t rows, unsigned) {
  return CUresult(cudaMallocPitch(reinterpret_cast<void**>(out), pitch, width, rows));
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return CUresult(cudaMemcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes,
                             cudaMemcpyDefault));
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CUresult(cudaMemcpyAsync(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes,
                                  cudaMemcpyDefault, stream));
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CUresult(cudaMemcpyAsync(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes,
                                  cudaMemcpyDeviceToDevice, stream));
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return CUresult(cudaMemsetAsync(reinterpret_cast<void*>(to), value, count, stream));
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  DRIVER(FILLED(stream, fill_words(to, value, count)));
}
CUresult cuMemFreeHost(void* pointer) {
  DRIVER(release(pointer, true, CALLER, Frees::USUALLY_WAITING));
}
CUresult cuMemGetInfo(size_t* free_bytes, size_t* total) {
  return CUresult(cudaMemGetInfo(free_bytes, total));
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  DRIVER(COPIED_NOW(copy_driver(to, nullptr, 0, from, bytes, cudaMemcpyHostToDevice, caller)));
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  DRIVER(COPIED(stream,
                copy_driver(to, nullptr, 0, from, bytes, cudaMemcpyHostToDevice, caller)));
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  DRIVER(COPIED_NOW(copy_driver(0, to, from, nullptr, bytes, cudaMemcpyDeviceToHost, caller)));
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  DRIVER(COPIED(stream,
                copy_driver(0, to, from, nullptr, bytes, cudaMemcpyDeviceToHost, caller)));
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  DRIVER(COPIED_NOW(
      copy_driver(to, nullptr, from, nullptr, bytes, cudaMemcpyDeviceToDevice, caller)));
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  DRIVER(FILLED_NOW(fill(reinterpret_cast<void*>(to), value, count)));
}
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  DRIVER(FILLED_NOW(fill_halves(to, value, count)));
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  DRIVER(FILLED_NOW(fill_words(to, value, count)));
}

CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return CUresult(cudaStreamCreateWithFlags(out, flags));
}
CUresult cuStreamDestroy(CUstream stream) { return CUresult(cudaStreamDestroy(stream)); }
CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return CUresult(cudaStreamCreateWithPriority(out, flags, priority));
}
CUresult cuStreamQuery(CUstream stream) { return CUresult(cudaStreamQuery(stream)); }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return CUresult(cudaStreamWaitEvent(stream, event, flags));
}
CUresult cuEventQuery(CUevent event) { return CUresult(cudaEventQuery(event)); }
CUresult cuStreamSynchronize(CUstream stream) { return CUresult(cudaStreamSynchronize(stream)); }
CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return CUresult(cudaEventCreateWithFlags(out, flags));
}
CUresult cuEventDestroy(CUevent event) { return CUresult(cudaEventDestroy(event)); }
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return CUresult(cudaEventRecord(event, stream));
}
CUresult cuEventSynchronize(CUevent event) { return CUresult(cudaEventSynchronize(event)); }
#undef cuEventElapsedTime
OLDER CUresult cuEventElapsedTime(float* ms, CUevent first, CUevent last) {
  return CUresult(cudaEventElapsedTime(ms, first, last));
}
CUresult cuEventElapsedTime_v2(float* ms, CUevent first, CUevent last) {
  return CUresult(cudaEventElapsedTime(ms, first, last));
}

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  uint32_t number = 0;
  cudaError_t error = load_module(image, &number);
  *out = reinterpret_cast<CUmodule>(uintptr_t(number) + 1);
  DRIVER(error);
}
CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned count,
                            CUjit_option* options, void** values) {
  answer_jit_options(count, options, values);
  return cuModuleLoadData(out, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadData(out, image);
}
CUresult cuModuleLoad(CUmodule* out, const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::string image{std::istreambuf_iterator<char>(file), {}};
  if (!file.good() && image.empty())
    DRIVER(CUDA_ERROR_FILE_NOT_FOUND);
  return cuModuleLoadData(out, image.c_str());
}
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
CUresult cuFuncLoad(CUfunction) { return CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, CUfunction function,
                                                              int threads, size_t dynamic,
                                                              unsigned) {
  DRIVER(occupancy(out, reinterpret_cast<Kernel*>(function), threads, dynamic));
}
CUresult cuDeviceGetUuid(CUuuid* out, CUdevice device) {
  memset(out, 0, sizeof *out);
  DRIVER(device ? cudaErrorInvalidDevice : cudaSuccess);
}
CUresult cuMemGetAddressRange(CUdeviceptr* start, size_t* bytes, CUdeviceptr address) {
  std::lock_guard held(process().lock);
  auto found = allocation_of(address);
  if (found == process().allocations.end())
    DRIVER(CUDA_ERROR_NOT_FOUND);
  if (start)
    *start = found->first;
  if (bytes)
    *bytes = found->second.bytes;
  DRIVER(cudaSuccess);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  DRIVER(FILLED(stream, fill_halves(to, value, count)));
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                   unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                   CUstream stream, void** args) {
  Geometry geometry{dim3(gx, gy, gz), dim3(bx, by, bz), dim3(0), shared, true, nullptr, stream};
  DRIVER(launch_function(function, geometry, args, nullptr, CALLER));
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return CUresult(cudaDeviceCanAccessPeer(can, device, peer));
}
CUresult cuCtxGetLimit(size_t* out, CUlimit which) {
  return CUresult(cudaDeviceGetLimit(out, cudaLimit(which)));
}
CUresult cuCtxSetLimit(CUlimit which, size_t value) {
  return CUresult(cudaDeviceSetLimit(cudaLimit(which), value));
}
CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0, *active = 1;
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  *out = reinterpret_cast<CUfunction>(kernel_named(uint32_t(uintptr_t(module) - 1), name));
  DRIVER(*out ? 0 : CUDA_ERROR_NOT_FOUND);
}
CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule module,
                           const char* name) {
  uint64_t place = 0, size = 0;
  cudaError_t error = variable_named(uint32_t(uintptr_t(module) - 1), name, &place, &size);
  if (address)
    *address = place;
  if (bytes)
    *bytes = size;
  DRIVER(error ? CUDA_ERROR_NOT_FOUND : 0);
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  cudaFuncAttribute runtime = cudaFuncAttributeMax;
  switch (which) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    runtime = cudaFuncAttributeMaxDynamicSharedMemorySize;
    break;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    runtime = cudaFuncAttributePreferredSharedMemoryCarveout;
    break;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    runtime = cudaFuncAttributeNonPortableClusterSizeAllowed;
    break;
  default:
    break;
  }
  DRIVER(set_attribute(*reinterpret_cast<Kernel*>(function), runtime, value));
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction function) {
  const FunctionFacts& facts = reinterpret_cast<Kernel*>(function)->facts;
  switch (which) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = facts.max_threads;
    break;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = facts.shared_bytes;
    break;
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *value = facts.local_bytes;
    break;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *value = facts.registers;
    break;
  default:
    *value = 0;
  }
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction function, int threads,
                                                     size_t dynamic) {
  DRIVER(occupancy(out, reinterpret_cast<Kernel*>(function), threads, dynamic));
}
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void** args,
                        void** extra) {
  Geometry geometry{dim3(gx, gy, gz), dim3(bx, by, bz), dim3(0), shared, false, nullptr, stream};
  DRIVER(launch_function(function, geometry, args, extra, CALLER));
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** args,
                          void** extra) {
  Geometry geometry{dim3(config->gridDimX, config->gridDimY, config->gridDimZ),
                    dim3(config->blockDimX, config->blockDimY, config->blockDimZ), dim3(0),
                    config->sharedMemBytes, false, nullptr, config->hStream};
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute), "one layout");
  take_attributes(geometry, reinterpret_cast<const cudaLaunchAttribute*>(config->attrs),
                  config->numAttrs, CALLER);
  DRIVER(launch_function(function, geometry, args, extra, CALLER));
}
}
