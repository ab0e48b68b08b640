// What nvcc's host code registers before main, and launches.

#include "graphs.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>

namespace cudart {
namespace {

constexpr uint32_t FAT_BINARY = 0xBA55ED50, WRAPPER = 0x466243B1;

constexpr int LINKED_VERSION = 2;  // what nvlink made: `file` is a list of what it was made of

struct FatBinary {  // what __cudaRegisterFatBinary gets: __fatBinC_Wrapper_t
  int magic, version;
  const unsigned long long* data;
  void* file;
};

std::string fat_binary(const void* image) {
  return std::string(static_cast<const char*>(image), static_cast<const uint64_t*>(image)[1] + 16);
}

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
  std::map<std::pair<uint32_t, std::string>, Kernel*> loaded;  // of modules loaded later, by name
};

Registered& registered() {
  static auto* all = new Registered;
  return *all;
}

struct Configuration {
  Geometry geometry;
  cudaStream_t stream;
  const void* caller;  // where the program has its <<<>>>: the launch itself is in a stub of nvcc
};
thread_local std::vector<Configuration> configurations;
thread_local const void* configured_at = nullptr;

// Why CUDA takes no launch; `why` says it.
cudaError_t check(const Kernel& kernel, const Launch& launch, std::string* why) {
  const FunctionFacts& facts = kernel.facts;
  const uint32_t *grid = launch.grid, *block = launch.block, *cluster = launch.cluster;
  auto refuse = [&](cudaError_t code, const std::string& text) {
    *why = text;
    return code;
  };
  auto triple = [](const auto* of) {
    return std::to_string(of[0]) + " x " + std::to_string(of[1]) + " x " + std::to_string(of[2]);
  };
  uint64_t threads = uint64_t(block[0]) * block[1] * block[2];
  uint64_t most = std::min(attribute(cudaDevAttrMaxThreadsPerBlock), facts.max_threads);
  if (!grid[0] || !grid[1] || !grid[2])
    return refuse(cudaErrorInvalidValue, "a grid of " + triple(grid) + " has no CTA");
  if (grid[0] > 0x7FFFFFFF || grid[1] > 65535 || grid[2] > 65535)
    return refuse(cudaErrorInvalidValue,
                  "a grid of " + triple(grid) + ", of at most 2147483647 x 65535 x 65535 CTAs");
  if (!threads || threads > most || block[2] > 64)
    return refuse(cudaErrorInvalidValue, "a block of " + triple(block) + " threads, of at most " +
                                             std::to_string(most) + ", 64 of them in z");
  if (facts.required_block[0])
    for (int i = 0; i < 3; i++)
      if (block[i] != uint32_t(facts.required_block[i]))
        return refuse(cudaErrorInvalidValue, "a block of " + triple(block) +
                                                 " threads, and the kernel needs " +
                                                 triple(facts.required_block));
  uint64_t shared = launch.dynamic_shared_bytes;
  if (shared > uint64_t(kernel.dynamic_limit) ||
      shared + facts.shared_bytes > uint64_t(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)))
    return refuse(cudaErrorInvalidValue,
                  std::to_string(shared) + " bytes of dynamic shared memory, of at most " +
                      std::to_string(kernel.dynamic_limit) +
                      " (cudaFuncAttributeMaxDynamicSharedMemorySize)");
  uint64_t ctas = uint64_t(cluster[0]) * cluster[1] * cluster[2];
  if (!ctas || ctas > (kernel.any_cluster_size ? 16u : 8u))
    return refuse(cudaErrorInvalidClusterSize, "a cluster of " + std::to_string(ctas) + " CTAs");
  for (int i = 0; i < 3; i++) {
    if (grid[i] % cluster[i])
      return refuse(cudaErrorInvalidClusterSize, "a grid of " + triple(grid) +
                                                     " CTAs in clusters of " + triple(cluster));
    if (facts.required_cluster[0] && cluster[i] != uint32_t(facts.required_cluster[i]))
      return refuse(cudaErrorInvalidClusterSize, "a cluster of " + triple(cluster) +
                                                     " CTAs, and the kernel needs " +
                                                     triple(facts.required_cluster));
  }
  return cudaSuccess;
}

// What a launch attribute does here. Those without a row are refused: none is ignored unknowingly.
enum class Use { TAKEN, HINT, EVENT, UNSUPPORTED };
struct AttributeRow {
  int id;
  const char* name;
  Use use;
};
constexpr AttributeRow ATTRIBUTES[] = {
    {cudaLaunchAttributeIgnore, "Ignore", Use::HINT},
    {cudaLaunchAttributeAccessPolicyWindow, "AccessPolicyWindow", Use::HINT},
    {cudaLaunchAttributeCooperative, "Cooperative", Use::TAKEN},
    {cudaLaunchAttributeSynchronizationPolicy, "SynchronizationPolicy", Use::HINT},
    {cudaLaunchAttributeClusterDimension, "ClusterDimension", Use::TAKEN},
    {cudaLaunchAttributeClusterSchedulingPolicyPreference, "ClusterSchedulingPolicyPreference",
     Use::HINT},
    // The kernel before has ended, and griddepcontrol.wait waits for nothing.
    {cudaLaunchAttributeProgrammaticStreamSerialization, "ProgrammaticStreamSerialization",
     Use::HINT},
    {cudaLaunchAttributeProgrammaticEvent, "ProgrammaticEvent", Use::EVENT},
    {cudaLaunchAttributePriority, "Priority", Use::HINT},
    {cudaLaunchAttributeMemSyncDomainMap, "MemSyncDomainMap", Use::HINT},
    {cudaLaunchAttributeMemSyncDomain, "MemSyncDomain", Use::HINT},
    // A GPU may use it or ClusterDimension, as it has room.
    {cudaLaunchAttributePreferredClusterDimension, "PreferredClusterDimension", Use::HINT},
    {cudaLaunchAttributeLaunchCompletionEvent, "LaunchCompletionEvent", Use::EVENT},
    {cudaLaunchAttributeDeviceUpdatableKernelNode, "DeviceUpdatableKernelNode", Use::UNSUPPORTED},
    {cudaLaunchAttributePreferredSharedMemoryCarveout, "PreferredSharedMemoryCarveout", Use::HINT},
    {cudaLaunchAttributeNvlinkUtilCentricScheduling, "NvlinkUtilCentricScheduling", Use::HINT},
};

}  // namespace

int attribute(int which) {
  auto found = process().attributes.find(which);
  return found == process().attributes.end() ? 0 : found->second;
}

namespace {

// What a launch asks the emulator for; an error, and `why`, if CUDA would refuse it.
cudaError_t prepare(Kernel& kernel, const Geometry& geometry, const void* caller, Launch* asked,
                    std::string* why) {
  *why = "the kernel is not known";
  if (cudaError_t error = learn(kernel))
    return error;
  const FunctionFacts& facts = kernel.facts;
  dim3 cluster = geometry.cluster;
  if (!cluster.x && facts.required_cluster[0])
    cluster = dim3(facts.required_cluster[0], facts.required_cluster[1], facts.required_cluster[2]);
  else if (!cluster.x)
    cluster = dim3(1, 1, 1);
  const dim3 &grid = geometry.grid, &block = geometry.block;
  static cudaStream_t last_stream = nullptr;
  const bool beside = geometry.programmatic && geometry.stream == last_stream;
  last_stream = geometry.stream;
  *asked = {facts.number,
            {grid.x, grid.y, grid.z},
            {block.x, block.y, block.z},
            {cluster.x, cluster.y, cluster.z},
            static_cast<uint32_t>(std::min<size_t>(geometry.shared, 1u << 30)),
            geometry.cooperative * COOPERATIVE | beside * BESIDE_THE_ONE_BEFORE,
            callers_of(caller)};
  if (cudaError_t error = check(kernel, *asked, why))
    return error;
  if (!geometry.cooperative)
    return cudaSuccess;
  int resident = 0;
  *why = "its occupancy is not known";
  if (cudaError_t error =
          occupancy(&resident, &kernel, int(block.x * block.y * block.z), geometry.shared))
    return error;
  if (uint64_t(grid.x) * grid.y * grid.z <=
      uint64_t(resident) * attribute(cudaDevAttrMultiProcessorCount))
    return cudaSuccess;
  *why = "a cooperative grid that does not fit on the GPU, whose SMs hold " +
         std::to_string(resident) + " of its CTAs each";
  return cudaErrorCooperativeLaunchTooLarge;
}

cudaError_t emulate(const Launch& asked, const std::string& arguments, cudaEvent_t event) {
  Answer ran = ask(Request::LAUNCH, packed(asked) + arguments);
  auto went = unpacked<Launched>(ran.data);
  Operation& now = *operation();
  now.is_launch(went.number);
  for (uint32_t i = 0; i < went.ranges; i++) {
    auto one = unpacked<AccessedRange>(ran.data, sizeof went + i * sizeof(AccessedRange));
    now.accessed(DEVICE_BASE + one.start, DEVICE_BASE + one.end, uint8_t(one.use));
  }
  size_t text = std::min(sizeof went + went.ranges * sizeof(AccessedRange), ran.data.size());
  size_t printed = std::min<size_t>(went.printed, ran.data.size() - text);
  fwrite(ran.data.data() + text, 1, printed, stdout);
  fwrite(ran.data.data() + text + printed, 1, ran.data.size() - text - printed, stderr);
  process().failing = ran.error;
  if (event)  // that the kernel has begun, or lets others begin
    record_event(event, now.before);
  return cudaSuccess;
}

cudaError_t refused(const std::string& name, cudaError_t error, const std::string& why) {
  process().refusal = name + " was refused, " + why;
  return error;
}

cudaError_t unknown_kernel() {
  return refused("?", cudaErrorInvalidResourceHandle, "it is no kernel of the program");
}

}  // namespace

cudaError_t keep_arguments(Kernel& kernel, void** args, std::string* out) {
  std::lock_guard held(process().lock);
  if (cudaError_t error = learn(kernel))
    return error;
  out->assign(kernel.facts.param_bytes, '\0');
  for (size_t i = 0; i < kernel.params.size(); i++)
    memcpy(out->data() + kernel.params[i].offset, args[i], kernel.params[i].bytes);
  return cudaSuccess;
}

cudaError_t launch_now(Kernel& kernel, const Geometry& geometry, const std::string& arguments,
                       const void* caller) {
  Process& p = process();
  std::lock_guard held(p.lock);
  if (p.sticky)
    return p.sticky;
  Launch asked;
  std::string why;
  if (cudaError_t error = prepare(kernel, geometry, caller, &asked, &why))
    return refused(kernel.name, error, why);
  return emulate(asked, arguments, geometry.event);
}

cudaError_t launch(Kernel& kernel, const Geometry& geometry, void** args, const void* caller,
                   const std::string* buffer) {
  Process& p = process();
  std::lock_guard held(p.lock);
  if (p.sticky)
    return p.sticky;
  Launch asked;
  std::string why, arguments;
  if (cudaError_t error = prepare(kernel, geometry, caller, &asked, &why))
    return refused(kernel.name, error, why);
  if (buffer) {
    arguments.assign(kernel.facts.param_bytes, '\0');
    arguments.replace(0, std::min(arguments.size(), buffer->size()), *buffer, 0, arguments.size());
  } else if (cudaError_t error = keep_arguments(kernel, args, &arguments)) {
    return refused(kernel.name, error, "its arguments are not known");
  }
  CUgraphNode_st node;
  node.type = cudaGraphNodeTypeKernel;
  node.kernel = {const_cast<Kernel*>(&kernel), geometry.grid, geometry.block,
                 unsigned(geometry.shared), nullptr, nullptr};
  const uint32_t dependencies = kernel.facts.dependencies;
  node.doing = {What::KERNEL, asked.callers, Returns::AT_ONCE, geometry.programmatic,
                bool(dependencies & WAITS_FOR_GRIDS), bool(dependencies & LETS_GRIDS_BEGIN),
                bool(dependencies & FENCES_FOR_SYSTEM)};
  node.work = [=, event = geometry.event] { return emulate(asked, arguments, event); };
  cudaError_t error = enqueue(geometry.stream, std::move(node));
  return error ? refused(kernel.name, error, "its stream takes none") : error;
}

void take_attributes(Geometry& geometry, const cudaLaunchAttribute* attributes, unsigned count,
                     const void* caller) {
  for (unsigned i = 0; i < count; i++) {
    const cudaLaunchAttribute& a = attributes[i];
    auto row = std::find_if(std::begin(ATTRIBUTES), std::end(ATTRIBUTES),
                            [&](const AttributeRow& one) { return one.id == int(a.id); });
    if (row == std::end(ATTRIBUTES))
      unsupported("launch attribute " + std::to_string(a.id) + " is not emulated", caller);
    if (row->use == Use::UNSUPPORTED)
      unsupported(std::string("cudaLaunchAttribute") + row->name + " is not emulated", caller);
    if (a.id == cudaLaunchAttributeClusterDimension)
      geometry.cluster = dim3(a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z);
    else if (a.id == cudaLaunchAttributeCooperative)
      geometry.cooperative = a.val.cooperative;
    else if (a.id == cudaLaunchAttributeProgrammaticStreamSerialization)
      geometry.programmatic = a.val.programmaticStreamSerializationAllowed;
    else if (row->use == Use::EVENT)
      geometry.event = a.id == cudaLaunchAttributeProgrammaticEvent ? a.val.programmaticEvent.event
                                                                    : a.val.launchCompletionEvent.event;
  }
}

cudaError_t load_module(const void* image, uint32_t* out) {
  auto* words = static_cast<const uint32_t*>(image);
  auto* text = static_cast<const char*>(image);
  std::string content;
  if (words[0] == FAT_BINARY) {
    content = fat_binary(image);
  } else if (words[0] == WRAPPER) {
    auto* wrapper = static_cast<const FatBinary*>(image);
    if (wrapper->version != LINKED_VERSION)
      return load_module(wrapper->data, out);
    *out = ~0u;
    for (auto** one = static_cast<void**>(wrapper->file); one && *one; one++)
      if (cudaError_t error = link_module(*one, out))
        return error;
    return cudaSuccess;
  } else if (words[0] == LINKED_IMAGE) {
    return load_linked_image(text, out);
  } else if (!memcmp(text, "\177ELF", 4)) {
    return cudaErrorNoKernelImageForDevice;  // machine code: nothing here runs it
  } else {
    content = text;
  }
  Answer known = ask(Request::MODULE, content);
  *out = unpacked<uint32_t>(known.data);
  return known.error;
}

std::string image_of(const void* data, size_t bytes) {
  auto* words = static_cast<const uint32_t*>(data);
  if (bytes >= 4 && words[0] == WRAPPER)
    return fat_binary(static_cast<const FatBinary*>(data)->data);
  return std::string(static_cast<const char*>(data), bytes);
}

cudaError_t link_module(const void* image, uint32_t* out) {
  auto* words = static_cast<const uint32_t*>(image);
  if (words[0] == WRAPPER)
    return link_module(static_cast<const FatBinary*>(image)->data, out);
  Answer known = ask(Request::LINKED, packed(*out) + fat_binary(image));
  *out = unpacked<uint32_t>(known.data);
  return known.error;
}

Kernel* kernel_named(uint32_t module, const char* name) {
  std::lock_guard held(process().lock);
  auto& known = registered().loaded[{module, name}];
  if (!known) {
    known = new Kernel;
    known->module = module;
    known->name = name;
  }
  return learn(*known) ? nullptr : known;
}

cudaError_t variable_named(uint32_t module, const char* name, uint64_t* address, uint64_t* bytes) {
  Answer told = ask(Request::VARIABLE, packed(module, uint32_t(0)) + name);
  if (told.error)
    return told.error;
  *address = unpacked<uint64_t>(told.data);
  *bytes = unpacked<uint64_t>(told.data, 8);
  adopt(*address, *bytes, Kind::VARIABLE);
  return cudaSuccess;
}

cudaError_t learn(Kernel& kernel) {
  if (kernel.known)
    return cudaSuccess;
  Answer told = ask(Request::FUNCTION, packed(kernel.module) + kernel.name);
  if (told.error)
    return told.error;
  kernel.facts = unpacked<FunctionFacts>(told.data);
  for (uint32_t i = 0; i < kernel.facts.params; i++)
    kernel.params.push_back(unpacked<Param>(told.data, sizeof(FunctionFacts) + i * sizeof(Param)));
  kernel.dynamic_limit = std::max(
      0, attribute(cudaDevAttrMaxSharedMemoryPerBlock) - kernel.facts.shared_bytes);
  kernel.known = true;
  return cudaSuccess;
}

Kernel* kernel_of(const void* stub) {
  auto found = registered().kernels.find(stub);
  if (found != registered().kernels.end())
    return &found->second;
  // cudaKernel_t, which launches take for a stub too: a kernel's own address.
  for (auto& [name, kernel] : registered().loaded)
    if (kernel == stub)
      return kernel;
  for (auto& [symbol, kernel] : registered().kernels)
    if (&kernel == stub)
      return &kernel;
  return nullptr;
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
#define CALLER __builtin_return_address(0)

#pragma GCC visibility push(default)
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  uint32_t number = 0;
  load_module(wrapper, &number);
  return new void*[1]{reinterpret_cast<void*>(uintptr_t(number))};
}
void __cudaRegisterFatBinaryEnd(void**) {}
// Of relocatable code: each object calls it by a stub that build/relocatable_code.py makes.
void __cudaRegisterLinkedBinary(void (*callback)(void**), void* wrapper) {
  static uint32_t number = ~0u;
  link_module(wrapper, &number);
  callback(new void*[1]{reinterpret_cast<void*>(uintptr_t(number))});
}
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

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  configurations.push_back({{grid, block, dim3(0), shared}, stream, CALLER});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty())
    return cudaErrorMissingConfiguration;
  Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.geometry.grid, *block = last.geometry.block, *shared = last.geometry.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  configured_at = last.caller;
  return cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t* out, const void* stub) {
  if (!out)
    FINISHED(cudaErrorInvalidValue);
  *out = reinterpret_cast<cudaKernel_t>(kernel_of(stub));
  FINISHED(*out ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* stub) {
  *out = reinterpret_cast<cudaKernel_t>(kernel_of(stub));
  return *out ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                               size_t shared, cudaStream_t stream) {
  const void* caller = configured_at ? configured_at : CALLER;
  configured_at = nullptr;
  Geometry geometry{grid, block, dim3(0), shared};
  geometry.stream = stream;
  return finished("a launch", launch(*reinterpret_cast<Kernel*>(kernel), geometry, args, caller),
                  caller);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                                    size_t shared, cudaStream_t stream) {
  ThreadDefault now;
  return __cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** args, size_t shared,
                             cudaStream_t stream) {
  Kernel* kernel = kernel_of(stub);
  if (!kernel)
    FINISHED(unknown_kernel());
  FINISHED(launch(*kernel, {grid, block, dim3(0), shared, false, nullptr, stream}, args, CALLER));
}

cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** args,
                                        size_t shared, cudaStream_t stream) {
  Kernel* kernel = kernel_of(stub);
  if (!kernel)
    FINISHED(unknown_kernel());
  FINISHED(launch(*kernel, {grid, block, dim3(0), shared, true, nullptr, stream}, args, CALLER));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** args) {
  Kernel* kernel = kernel_of(stub);
  if (!kernel || !config)
    FINISHED(config ? unknown_kernel() : cudaErrorInvalidValue);
  Geometry geometry{config->gridDim, config->blockDim, dim3(0), config->dynamicSmemBytes};
  geometry.stream = config->stream;
  take_attributes(geometry, config->attrs, config->numAttrs, CALLER);
  FINISHED(launch(*kernel, geometry, args, CALLER));
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* out, const void* stub) {
  Kernel* kernel = kernel_of(stub);
  *out = reinterpret_cast<cudaFunction_t>(kernel);
  FINISHED(kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
}
#pragma GCC visibility pop
