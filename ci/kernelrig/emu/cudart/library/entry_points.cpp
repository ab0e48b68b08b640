// Functions of the driver by name: whatever of it is here, and a note of what is asked for and is
// not, since programs say of a null pointer only that something did not work.

#include "runtime.hpp"

#include <dlfcn.h>

#include <set>
#include <string_view>

using namespace cudart;
#define CALLER __builtin_return_address(0)

namespace {

// cuCtxCreate takes other parameters from CUDA 12.5 on; of all others the newest is meant.
std::string versioned(const std::string& name, int version) {
  return name == "cuCtxCreate" && version < 12050 ? "cuCtxCreate_v2" : name;
}

void* find(const std::string& name) {
  static void* here = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&cuGetProcAddress), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  for (const char* suffix : {"_v4", "_v3", "_v2", ""})
    if (void* found = dlsym(here, (name + suffix).c_str()))
      return found;
  return nullptr;
}

// A function of the driver, or null. Names carry no suffix of a version.
void* driver_function(const char* call, const char* name, int version, const void* caller) {
  bool of_driver = name && std::string_view(name).substr(0, 2) == "cu" && name[2] >= 'A' &&
                   name[2] <= 'Z';
  void* found = of_driver ? find(versioned(name, version)) : nullptr;
  if (found)
    return found;
  static auto* missed = new std::set<std::string>;
  std::string text = name ? name : "a function without a name";
  {
    std::lock_guard held(process().lock);
    if (!missed->insert(text).second)
      return nullptr;
  }
  note_failed(std::string(call) + " gave no " + text + ", which is not emulated",
              CUDA_ERROR_NOT_FOUND, caller);
  return nullptr;
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress(const char* name, void** out, int version, cuuint64_t,
                          CUdriverProcAddressQueryResult* result) {
  *out = driver_function("cuGetProcAddress", name, version, CALLER);
  if (result)
    *result = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned version,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *out = driver_function("cudaGetDriverEntryPointByVersion", name, int(version), CALLER);
  if (result)
    *result = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return finished("cudaGetDriverEntryPointByVersion", cudaSuccess, CALLER);
}

#undef cudaGetDriverEntryPoint
cudaError_t cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long,
                                    cudaDriverEntryPointQueryResult* result) {
  *out = driver_function("cudaGetDriverEntryPoint", name, CUDA_VERSION, CALLER);
  if (result)
    *result = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return finished("cudaGetDriverEntryPoint", cudaSuccess, CALLER);
}
}
