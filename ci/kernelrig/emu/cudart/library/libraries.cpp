// Libraries of kernels that are loaded as the program runs: modules that no context owns, whose
// kernels are functions. Both the driver's functions and the runtime's, which say the same.

#include "runtime.hpp"

using namespace cudart;

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  return cuModuleLoadData(reinterpret_cast<CUmodule*>(out), image);
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  return cuModuleGetFunction(reinterpret_cast<CUfunction*>(out),
                             reinterpret_cast<CUmodule>(library), name);
}
CUresult cuLibraryGetModule(CUmodule* out, CUlibrary library) {
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                            const char* name) {
  return cuModuleGetGlobal(address, bytes, reinterpret_cast<CUmodule>(library), name);
}
CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel kernel, CUdevice) {
  return cuFuncSetAttribute(reinterpret_cast<CUfunction>(kernel), which, value);
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel kernel, CUdevice) {
  return cuFuncGetAttribute(value, which, reinterpret_cast<CUfunction>(kernel));
}

CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned,
                               CUlibraryOption*, void**, unsigned) {
  return cuModuleLoad(reinterpret_cast<CUmodule*>(out), path);
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t* out, const void* image, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  if (!out || !image)
    FINISHED(cudaErrorInvalidValue);
  uint32_t number = 0;
  cudaError_t error = load_module(image, &number);
  *out = reinterpret_cast<cudaLibrary_t>(uintptr_t(number) + 1);
  FINISHED(error);
}
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* out, const char* path, cudaJitOption*, void**,
                                    unsigned, cudaLibraryOption*, void**, unsigned) {
  if (!out || !path)
    FINISHED(cudaErrorInvalidValue);
  FINISHED(cudaError_t(cuModuleLoad(reinterpret_cast<CUmodule*>(out), path)));
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { FINISHED(cudaSuccess); }
cudaError_t cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t library, const char* name) {
  if (!out || !name)
    FINISHED(cudaErrorInvalidValue);
  Kernel* kernel = kernel_named(uint32_t(reinterpret_cast<uintptr_t>(library) - 1), name);
  *out = reinterpret_cast<cudaKernel_t>(kernel);
  FINISHED(kernel ? cudaSuccess : cudaErrorSymbolNotFound);
}
cudaError_t cudaLibraryGetGlobal(void** address, size_t* bytes, cudaLibrary_t library,
                                 const char* name) {
  uint64_t at = 0, size = 0;
  cudaError_t error =
      variable_named(uint32_t(reinterpret_cast<uintptr_t>(library) - 1), name, &at, &size);
  if (address)
    *address = reinterpret_cast<void*>(at);
  if (bytes)
    *bytes = size;
  FINISHED(error);
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute which, int value,
                                            int device) {
  if (!kernel)
    FINISHED(cudaErrorInvalidResourceHandle);
  FINISHED(device ? cudaErrorInvalidDevice
                  : set_attribute(*reinterpret_cast<Kernel*>(kernel), which, value));
}

}  // extern "C"
