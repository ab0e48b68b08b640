// What nvcc's host code registers before main, and launches.

#include "runtime.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <unordered_map>

namespace cudart {
namespace {

struct FatBinary {  // what __cudaRegisterFatBinary gets: __fatBinC_Wrapper_t
  int magic, version;
  const unsigned long long* data;
  void* file;
};

struct Variable {
  uint32_t module = 0;
  std::string name;
  bool managed = false, known = false;
  void** host = nullptr;  // of a managed variable: what the program reads its address from
  std::pair<const uint64_t, Allocation>* place = nullptr;
};

struct Registered {
  std::unordered_map<const void*, Kernel> kernels;      // by host stub
  std::unordered_map<const void*, Variable> variables;  // by host symbol
};

Registered& registered() {
  static auto* all = new Registered;
  return *all;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

int attribute(cudaDeviceAttr which) {
  auto found = process().attributes.find(which);
  return found == process().attributes.end() ? 0 : found->second;
}

// What CUDA takes no launch for.
cudaError_t check(const Kernel& kernel, const Launch& launch) {
  const FunctionFacts& facts = kernel.facts;
  const uint32_t *grid = launch.grid, *block = launch.block, *cluster = launch.cluster;
  for (int i = 0; i < 3; i++)
    if (!grid[i] || !block[i])
      return cudaErrorInvalidConfiguration;
  uint64_t threads = uint64_t(block[0]) * block[1] * block[2];
  if (threads > uint64_t(attribute(cudaDevAttrMaxThreadsPerBlock)) || block[2] > 64 ||
      grid[0] > 0x7FFFFFFF || grid[1] > 65535 || grid[2] > 65535)
    return cudaErrorInvalidConfiguration;
  if (threads > uint64_t(facts.max_threads))
    return cudaErrorInvalidValue;
  if (facts.required_block[0])
    for (int i = 0; i < 3; i++)
      if (block[i] != uint32_t(facts.required_block[i]))
        return cudaErrorInvalidValue;
  if (launch.dynamic_shared_bytes > uint64_t(kernel.dynamic_limit) ||
      uint64_t(launch.dynamic_shared_bytes) + facts.shared_bytes >
          uint64_t(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)))
    return cudaErrorInvalidValue;
  uint64_t ctas = uint64_t(cluster[0]) * cluster[1] * cluster[2];
  if (!ctas || ctas > (kernel.any_cluster_size ? 16u : 8u))
    return cudaErrorInvalidClusterSize;
  for (int i = 0; i < 3; i++) {
    if (grid[i] % cluster[i])
      return cudaErrorInvalidClusterSize;
    if (facts.required_cluster[0] && cluster[i] != uint32_t(facts.required_cluster[i]))
      return cudaErrorInvalidClusterSize;
  }
  return cudaSuccess;
}

cudaError_t start(Kernel& kernel, dim3 grid, dim3 block, dim3 cluster, void** args, size_t shared,
                  bool cooperative, const void* caller) {
  Process& p = process();
  std::lock_guard held(p.lock);
  if (p.sticky)
    return p.sticky;
  if (cudaError_t error = learn(kernel))
    return error;
  const FunctionFacts& facts = kernel.facts;
  if (!cluster.x && facts.required_cluster[0])
    cluster = dim3(facts.required_cluster[0], facts.required_cluster[1], facts.required_cluster[2]);
  else if (!cluster.x)
    cluster = dim3(1, 1, 1);
  Launch launch{facts.number,
                {grid.x, grid.y, grid.z},
                {block.x, block.y, block.z},
                {cluster.x, cluster.y, cluster.z},
                static_cast<uint32_t>(std::min<size_t>(shared, 1u << 30)),
                cooperative,
                reinterpret_cast<uint64_t>(caller)};
  if (cudaError_t error = check(kernel, launch))
    return error;
  std::string params(facts.param_bytes, '\0');
  for (size_t i = 0; i < kernel.params.size(); i++)
    memcpy(params.data() + kernel.params[i].offset, args[i], kernel.params[i].bytes);
  Answer ran = ask(Request::LAUNCH, packed(launch) + params);
  if (!ran.data.empty()) {
    fwrite(ran.data.data(), 1, ran.data.size(), stdout);
    fflush(stdout);
  }
  // A kernel fails after its launch has returned: the next call that waits says so.
  p.sticky = ran.error;
  return cudaSuccess;
}

}  // namespace

cudaError_t learn(Kernel& kernel) {
  if (kernel.known)
    return cudaSuccess;
  Answer told = ask(Request::FUNCTION, packed(kernel.module) + kernel.name);
  if (told.error)
    return told.error;
  kernel.facts = unpacked<FunctionFacts>(told.data);
  for (uint32_t i = 0; i < kernel.facts.params; i++)
    kernel.params.push_back(unpacked<Param>(told.data, sizeof(FunctionFacts) + i * sizeof(Param)));
  kernel.known = true;
  return cudaSuccess;
}

Kernel* kernel_of(const void* stub) {
  auto found = registered().kernels.find(stub);
  return found == registered().kernels.end() ? nullptr : &found->second;
}

const std::pair<const uint64_t, Allocation>* variable_of(const void* symbol) {
  Process& p = process();
  std::lock_guard held(p.lock);
  auto found = registered().variables.find(symbol);
  if (found == registered().variables.end())
    return nullptr;
  Variable& variable = found->second;
  if (!variable.known) {
    Answer told = ask(Request::VARIABLE, packed(variable.module, uint32_t(variable.managed)) +
                                             variable.name);
    if (told.error)
      return nullptr;
    auto address = unpacked<uint64_t>(told.data);
    adopt(address, unpacked<uint64_t>(told.data, 8),
          variable.managed ? Kind::MANAGED : Kind::VARIABLE);
    variable.place = &*process().allocations.find(address);
    variable.known = true;
  }
  return variable.place;
}

}  // namespace cudart

using namespace cudart;

#pragma GCC visibility push(default)
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  auto* binary = static_cast<FatBinary*>(wrapper);
  uint64_t size = binary->data[1] + 16;  // a header of 16 bytes, whose last 8 say how many follow
  Answer known = ask(Request::MODULE, std::string(reinterpret_cast<const char*>(binary->data), size));
  auto* handle = new void*[1];
  handle[0] = reinterpret_cast<void*>(uintptr_t(unpacked<uint32_t>(known.data)));
  return handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

static uint32_t module_of(void** handle) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle[0]));
}

void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  Kernel& kernel = registered().kernels[stub];
  kernel.module = module_of(handle);
  kernel.name = name;
}
void __cudaRegisterVar(void** handle, char* symbol, char*, const char* name, int, size_t, int, int) {
  Variable& variable = registered().variables[symbol];
  variable.module = module_of(handle);
  variable.name = name;
}
void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t, int,
                              int) {
  Variable& variable = registered().variables[host];
  variable.module = module_of(handle);
  variable.name = name;
  variable.managed = true;
  variable.host = host;
}
char __cudaInitModule(void** handle) {
  for (auto& [symbol, variable] : registered().variables)
    if (variable.managed && variable.module == module_of(handle) && variable_of(symbol))
      *variable.host = reinterpret_cast<void*>(variable.place->first);
  return 1;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty())
    return cudaErrorMissingConfiguration;
  Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid, *block = last.block, *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* stub) {
  *out = reinterpret_cast<cudaKernel_t>(kernel_of(stub));
  return *out ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                               size_t shared, cudaStream_t) {
  auto* found = reinterpret_cast<Kernel*>(kernel);
  return finished("a launch", start(*found, grid, block, dim3(0), args, shared, false, __builtin_return_address(0)),
                  __builtin_return_address(0));
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                                    size_t shared, cudaStream_t) {
  auto* found = reinterpret_cast<Kernel*>(kernel);
  return finished("a launch", start(*found, grid, block, dim3(0), args, shared, false, __builtin_return_address(0)),
                  __builtin_return_address(0));
}

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** args, size_t shared,
                             cudaStream_t) {
  Kernel* kernel = kernel_of(stub);
  if (!kernel)
    FINISHED(cudaErrorInvalidDeviceFunction);
  FINISHED(start(*kernel, grid, block, dim3(0), args, shared, false, __builtin_return_address(0)));
}

cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** args,
                                        size_t shared, cudaStream_t) {
  Kernel* kernel = kernel_of(stub);
  if (!kernel)
    FINISHED(cudaErrorInvalidDeviceFunction);
  FINISHED(start(*kernel, grid, block, dim3(0), args, shared, true, __builtin_return_address(0)));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** args) {
  Kernel* kernel = kernel_of(stub);
  if (!kernel || !config)
    FINISHED(cudaErrorInvalidDeviceFunction);
  dim3 cluster(0);
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const cudaLaunchAttribute& a = config->attrs[i];
    if (a.id == cudaLaunchAttributeClusterDimension)
      cluster = dim3(a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z);
    else if (a.id == cudaLaunchAttributeCooperative)
      cooperative = a.val.cooperative;
  }
  FINISHED(start(*kernel, config->gridDim, config->blockDim, cluster, args,
                 config->dynamicSmemBytes, cooperative, __builtin_return_address(0)));
}
}
#pragma GCC visibility pop
