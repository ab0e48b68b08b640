// The device that the program sees: attributes, properties, occupancy, attributes of kernels.

#include "order.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <unistd.h>

namespace cudart {
namespace {

constexpr int DEVICE_ONLY = 0;
constexpr int WARP = 32;

cudaError_t of_device(int device) {
  return device == DEVICE_ONLY ? cudaSuccess : cudaErrorInvalidDevice;
}

int rounded(int64_t value, int unit) { return int((value + unit - 1) / unit * unit); }

}  // namespace

// CTAs of a kernel that an SM holds, by threads, registers, shared memory and its own limit.
cudaError_t occupancy(int* out, Kernel* kernel, int threads, size_t dynamic) {
  if (!out || threads <= 0)
    return cudaErrorInvalidValue;
  if (!kernel)
    return cudaErrorInvalidDeviceFunction;
  std::lock_guard held(process().lock);
  if (cudaError_t error = learn(*kernel))
    return error;
  const FunctionFacts& facts = kernel->facts;
  *out = 0;
  if (dynamic > size_t(kernel->dynamic_limit))
    return cudaSuccess;
  int warps = (threads + WARP - 1) / WARP;
  int count = attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  count = std::min(count, attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / (warps * WARP));
  if (facts.registers > 0) {
    // Registers are given to warps in units of 256, to each of four schedulers its quarter.
    int of_warp = rounded(int64_t(facts.registers) * WARP, 256);
    int resident = attribute(cudaDevAttrMaxRegistersPerMultiprocessor) / 4 / of_warp * 4;
    count = std::min(count, resident / warps);
  }
  int64_t shared = rounded(facts.shared_bytes + int64_t(dynamic), 128);
  if (int64_t(facts.shared_bytes + dynamic) > attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))
    return cudaSuccess;
  shared += attribute(cudaDevAttrReservedSharedMemoryPerBlock);
  count = int(std::min<int64_t>(
      count, attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / shared));
  *out = count;
  return cudaSuccess;
}

cudaError_t set_attribute(Kernel& kernel, cudaFuncAttribute which, int value) {
  std::lock_guard held(process().lock);
  if (cudaError_t error = learn(kernel))
    return error;
  switch (which) {
  case cudaFuncAttributeMaxDynamicSharedMemorySize:
    if (value < 0 ||
        value + kernel.facts.shared_bytes > attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))
      return cudaErrorInvalidValue;
    kernel.dynamic_limit = value;
    break;
  case cudaFuncAttributePreferredSharedMemoryCarveout:
    kernel.carveout = value;
    break;
  case cudaFuncAttributeNonPortableClusterSizeAllowed:
    kernel.any_cluster_size = value;
    break;
  default:
    break;
  }
  return cudaSuccess;
}

}  // namespace cudart

using namespace cudart;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  FINISHED(cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  *device = DEVICE_ONLY;
  FINISHED(cudaSuccess);
}
cudaError_t cudaSetDevice(int device) { FINISHED(of_device(device)); }
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { FINISHED(of_device(device)); }
cudaError_t cudaSetDeviceFlags(unsigned) { FINISHED(cudaSuccess); }
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  FINISHED(cudaSuccess);
}
cudaError_t cudaDeviceReset() {
  std::lock_guard held(process().lock);
  host_waits_for_all();
  std::vector<std::pair<uint64_t, Kind>> all;
  for (auto& [address, allocation] : process().allocations)
    if (allocation.kind < Kind::VARIABLE)
      all.emplace_back(address, allocation.kind);
  for (auto& [address, kind] : all)
    release(reinterpret_cast<void*>(address), kind == Kind::HOST, __builtin_return_address(0));
  process().sticky = last_error = cudaSuccess;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = 0;
  FINISHED(of_device(device) || of_device(peer) ? cudaErrorInvalidDevice : cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (of_device(device))
    FINISHED(cudaErrorInvalidDevice);
  auto found = process().attributes.find(which);
  if (!value || found == process().attributes.end())
    FINISHED(cudaErrorInvalidValue);
  *value = found->second;
  FINISHED(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (!out || of_device(device))
    FINISHED(out ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
  *out = {};
  strncpy(out->name, process().device.name, sizeof out->name - 1);
  out->totalGlobalMem = process().device.memory_bytes;
#define TAKE(member, which) out->member = attribute(cudaDevAttr##which)
  TAKE(sharedMemPerBlock, MaxSharedMemoryPerBlock);
  TAKE(regsPerBlock, MaxRegistersPerBlock);
  TAKE(warpSize, WarpSize);
  TAKE(memPitch, MaxPitch);
  TAKE(maxThreadsPerBlock, MaxThreadsPerBlock);
  TAKE(maxThreadsDim[0], MaxBlockDimX);
  TAKE(maxThreadsDim[1], MaxBlockDimY);
  TAKE(maxThreadsDim[2], MaxBlockDimZ);
  TAKE(maxGridSize[0], MaxGridDimX);
  TAKE(maxGridSize[1], MaxGridDimY);
  TAKE(maxGridSize[2], MaxGridDimZ);
  TAKE(totalConstMem, TotalConstantMemory);
  TAKE(major, ComputeCapabilityMajor);
  TAKE(minor, ComputeCapabilityMinor);
  TAKE(textureAlignment, TextureAlignment);
  TAKE(texturePitchAlignment, TexturePitchAlignment);
  TAKE(maxTexture1D, MaxTexture1DWidth);
  TAKE(maxTexture1DMipmap, MaxTexture1DMipmappedWidth);
  TAKE(maxTexture2D[0], MaxTexture2DWidth);
  TAKE(maxTexture2D[1], MaxTexture2DHeight);
  TAKE(maxTexture2DMipmap[0], MaxTexture2DMipmappedWidth);
  TAKE(maxTexture2DMipmap[1], MaxTexture2DMipmappedHeight);
  TAKE(maxTexture2DLinear[0], MaxTexture2DLinearWidth);
  TAKE(maxTexture2DLinear[1], MaxTexture2DLinearHeight);
  TAKE(maxTexture2DLinear[2], MaxTexture2DLinearPitch);
  TAKE(maxTexture2DGather[0], MaxTexture2DGatherWidth);
  TAKE(maxTexture2DGather[1], MaxTexture2DGatherHeight);
  TAKE(maxTexture3D[0], MaxTexture3DWidth);
  TAKE(maxTexture3D[1], MaxTexture3DHeight);
  TAKE(maxTexture3D[2], MaxTexture3DDepth);
  TAKE(maxTexture3DAlt[0], MaxTexture3DWidthAlt);
  TAKE(maxTexture3DAlt[1], MaxTexture3DHeightAlt);
  TAKE(maxTexture3DAlt[2], MaxTexture3DDepthAlt);
  TAKE(maxTextureCubemap, MaxTextureCubemapWidth);
  TAKE(maxTexture1DLayered[0], MaxTexture1DLayeredWidth);
  TAKE(maxTexture1DLayered[1], MaxTexture1DLayeredLayers);
  TAKE(maxTexture2DLayered[0], MaxTexture2DLayeredWidth);
  TAKE(maxTexture2DLayered[1], MaxTexture2DLayeredHeight);
  TAKE(maxTexture2DLayered[2], MaxTexture2DLayeredLayers);
  TAKE(maxTextureCubemapLayered[0], MaxTextureCubemapLayeredWidth);
  TAKE(maxTextureCubemapLayered[1], MaxTextureCubemapLayeredLayers);
  TAKE(maxSurface1D, MaxSurface1DWidth);
  TAKE(maxSurface2D[0], MaxSurface2DWidth);
  TAKE(maxSurface2D[1], MaxSurface2DHeight);
  TAKE(maxSurface3D[0], MaxSurface3DWidth);
  TAKE(maxSurface3D[1], MaxSurface3DHeight);
  TAKE(maxSurface3D[2], MaxSurface3DDepth);
  TAKE(maxSurface1DLayered[0], MaxSurface1DLayeredWidth);
  TAKE(maxSurface1DLayered[1], MaxSurface1DLayeredLayers);
  TAKE(maxSurface2DLayered[0], MaxSurface2DLayeredWidth);
  TAKE(maxSurface2DLayered[1], MaxSurface2DLayeredHeight);
  TAKE(maxSurface2DLayered[2], MaxSurface2DLayeredLayers);
  TAKE(maxSurfaceCubemap, MaxSurfaceCubemapWidth);
  TAKE(maxSurfaceCubemapLayered[0], MaxSurfaceCubemapLayeredWidth);
  TAKE(maxSurfaceCubemapLayered[1], MaxSurfaceCubemapLayeredLayers);
  TAKE(multiProcessorCount, MultiProcessorCount);
  TAKE(integrated, Integrated);
  TAKE(canMapHostMemory, CanMapHostMemory);
  TAKE(surfaceAlignment, SurfaceAlignment);
  TAKE(concurrentKernels, ConcurrentKernels);
  TAKE(ECCEnabled, EccEnabled);
  TAKE(asyncEngineCount, AsyncEngineCount);
  TAKE(unifiedAddressing, UnifiedAddressing);
  TAKE(memoryBusWidth, GlobalMemoryBusWidth);
  TAKE(l2CacheSize, L2CacheSize);
  TAKE(persistingL2CacheMaxSize, MaxPersistingL2CacheSize);
  TAKE(maxThreadsPerMultiProcessor, MaxThreadsPerMultiProcessor);
  TAKE(streamPrioritiesSupported, StreamPrioritiesSupported);
  TAKE(globalL1CacheSupported, GlobalL1CacheSupported);
  TAKE(localL1CacheSupported, LocalL1CacheSupported);
  TAKE(sharedMemPerMultiprocessor, MaxSharedMemoryPerMultiprocessor);
  TAKE(regsPerMultiprocessor, MaxRegistersPerMultiprocessor);
  TAKE(managedMemory, ManagedMemory);
  TAKE(hostNativeAtomicSupported, HostNativeAtomicSupported);
  TAKE(pageableMemoryAccess, PageableMemoryAccess);
  TAKE(concurrentManagedAccess, ConcurrentManagedAccess);
  TAKE(computePreemptionSupported, ComputePreemptionSupported);
  TAKE(canUseHostPointerForRegisteredMem, CanUseHostPointerForRegisteredMem);
  TAKE(cooperativeLaunch, CooperativeLaunch);
  TAKE(sharedMemPerBlockOptin, MaxSharedMemoryPerBlockOptin);
  TAKE(maxBlocksPerMultiProcessor, MaxBlocksPerMultiprocessor);
  TAKE(accessPolicyMaxWindowSize, MaxAccessPolicyWindowSize);
  TAKE(reservedSharedMemPerBlock, ReservedSharedMemoryPerBlock);
  TAKE(memoryPoolsSupported, MemoryPoolsSupported);
  TAKE(clusterLaunch, ClusterLaunch);
  out->unifiedFunctionPointers = 1;
#undef TAKE
  FINISHED(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  FINISHED(cudaSuccess);
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  FINISHED(cudaSuccess);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  FINISHED(cudaSuccess);
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { FINISHED(cudaSuccess); }
// Banks are 4 bytes wide on every GPU that is emulated, whatever is asked for.
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { FINISHED(cudaSuccess); }
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* out) {
  if (!out)
    FINISHED(cudaErrorInvalidValue);
  *out = cudaSharedMemBankSizeFourByte;
  FINISHED(cudaSuccess);
}
cudaError_t cudaFuncSetSharedMemConfig(const void* stub, cudaSharedMemConfig) {
  FINISHED(kernel_of(stub) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
cudaError_t cudaSetValidDevices(int* devices, int count) {
  for (int i = 0; i < count; i++)
    if (of_device(devices[i]))
      FINISHED(cudaErrorInvalidDevice);
  FINISHED(cudaSuccess);
}
cudaError_t cudaDeviceSetLimit(cudaLimit which, size_t value) {
  if (which != cudaLimitMallocHeapSize || !value)
    FINISHED(cudaSuccess);
  std::lock_guard held(process().lock);
  process().heap_bytes = value;
  uint64_t bytes = value;
  ask(Request::ALLOCATE, packed(bytes, static_cast<uint32_t>(Kind::HEAP),
                                callers_of(__builtin_return_address(0))));
  FINISHED(cudaSuccess);
}
cudaError_t cudaDeviceGetLimit(size_t* out, cudaLimit which) {
  if (!out)
    FINISHED(cudaErrorInvalidValue);
  // What a GPU answers before any is set; here none of them limits anything.
  *out = which == cudaLimitStackSize ? 1024 : which == cudaLimitMallocHeapSize ? process().heap_bytes
                                          : which == cudaLimitPrintfFifoSize ? 1 << 20 : 0;
  FINISHED(cudaSuccess);
}
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* out) {
  if (!out)
    FINISHED(cudaErrorInvalidValue);
  *out = cudaFuncCachePreferNone;
  FINISHED(cudaSuccess);
}
cudaError_t cudaCtxResetPersistingL2Cache() { FINISHED(cudaSuccess); }
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) {
  *device = DEVICE_ONLY;
  FINISHED(cudaSuccess);
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { FINISHED(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceDisablePeerAccess(int) { FINISHED(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) {
  *value = 0;
  FINISHED(cudaErrorInvalidDevice);
}
cudaError_t cudaDeviceGetPCIBusId(char* out, int size, int device) {
  if (!out || size < 13 || of_device(device))
    FINISHED(of_device(device) ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
  snprintf(out, size_t(size), "0000:00:00.0");
  FINISHED(cudaSuccess);
}
cudaError_t cudaFuncGetName(const char** out, const void* stub) {
  Kernel* kernel = kernel_of(stub);
  if (!kernel || !out)
    FINISHED(out ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue);
  *out = kernel->name.c_str();
  FINISHED(cudaSuccess);
}
cudaError_t cudaProfilerStart() { FINISHED(cudaSuccess); }
cudaError_t cudaProfilerStop() { FINISHED(cudaSuccess); }

cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute which, int value) {
  Kernel* kernel = kernel_of(stub);
  FINISHED(kernel ? set_attribute(*kernel, which, value) : cudaErrorInvalidDeviceFunction);
}
cudaError_t cudaFuncSetCacheConfig(const void* stub, cudaFuncCache) {
  FINISHED(kernel_of(stub) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* stub) {
  Kernel* kernel = kernel_of(stub);
  if (!kernel || !out)
    FINISHED(out ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue);
  std::lock_guard held(process().lock);
  if (cudaError_t error = learn(*kernel))
    FINISHED(error);
  const FunctionFacts& facts = kernel->facts;
  *out = {};
  out->sharedSizeBytes = facts.shared_bytes;
  out->constSizeBytes = facts.constant_bytes;
  out->localSizeBytes = facts.local_bytes;
  out->maxThreadsPerBlock = facts.max_threads;
  out->numRegs = facts.registers;
  out->ptxVersion = facts.ptx_version;
  out->binaryVersion = facts.binary_version;
  out->maxDynamicSharedSizeBytes = kernel->dynamic_limit;
  out->preferredShmemCarveout = kernel->carveout;
  out->clusterDimMustBeSet = facts.required_cluster[0] > 0;
  out->requiredClusterWidth = facts.required_cluster[0];
  out->requiredClusterHeight = facts.required_cluster[1];
  out->requiredClusterDepth = facts.required_cluster[2];
  out->nonPortableClusterSizeAllowed = kernel->any_cluster_size;
  FINISHED(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* out, const void* stub, int threads,
                                                          size_t dynamic) {
  FINISHED(occupancy(out, kernel_of(stub), threads, dynamic));
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, const void* stub,
                                                                   int threads, size_t dynamic,
                                                                   unsigned) {
  FINISHED(occupancy(out, kernel_of(stub), threads, dynamic));
}

// Clusters that fit on the device. An SM holds at most 8 CTAs of clusters, and GPCs have SMs that
// clusters of 4 and more leave out (both as an H200 answers).
cudaError_t cudaOccupancyMaxActiveClusters(int* out, const void* stub,
                                           const cudaLaunchConfig_t* config) {
  if (!out || !config)
    FINISHED(cudaErrorInvalidValue);
  Geometry geometry{config->gridDim, config->blockDim};
  take_attributes(geometry, config->attrs, config->numAttrs, __builtin_return_address(0));
  int resident = 0;
  dim3 block = config->blockDim;
  if (cudaError_t error = occupancy(&resident, kernel_of(stub), int(block.x * block.y * block.z),
                                    config->dynamicSmemBytes))
    FINISHED(error);
  dim3 c = geometry.cluster;
  unsigned ctas = c.x ? c.x * c.y * c.z : 1;
  int sms = ctas >= 4 ? process().device.clustered_sms
                      : attribute(cudaDevAttrMultiProcessorCount);
  *out = int(unsigned(std::min(resident, 8) * sms) / ctas);
  FINISHED(cudaSuccess);
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* out, const void* stub,
                                                 const cudaLaunchConfig_t*) {
  Kernel* kernel = kernel_of(stub);
  if (!kernel || !out)
    FINISHED(cudaErrorInvalidDeviceFunction);
  *out = kernel->any_cluster_size ? 16 : 8;
  FINISHED(cudaSuccess);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* out, const void* stub, int ctas,
                                                      int) {
  Kernel* kernel = kernel_of(stub);
  if (!kernel || !out || ctas < 1)
    FINISHED(cudaErrorInvalidValue);
  std::lock_guard held(process().lock);
  if (cudaError_t error = learn(*kernel))
    FINISHED(error);
  int reserved = attribute(cudaDevAttrReservedSharedMemoryPerBlock);
  int each = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / ctas / 128 * 128 - reserved;
  *out = size_t(std::max(0, std::min(each, attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) -
                                kernel->facts.shared_bytes));
  FINISHED(cudaSuccess);
}
}
