// Memory: allocations, pinned pages, symbols.

#include "arrays.hpp"
#include "graphs.hpp"
#include "watched_pages.hpp"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

namespace cudart {

std::map<uint64_t, Allocation>::iterator allocation_of(uint64_t address) {
  auto& all = process().allocations;
  auto next = all.upper_bound(address);
  if (next == all.begin())
    return all.end();
  auto found = std::prev(next);
  // One of no bytes holds its own address, as cudaFree takes it.
  return address - found->first < std::max<uint64_t>(found->second.bytes, 1) ? found : all.end();
}

void adopt(uint64_t address, uint64_t bytes, Kind kind) {
  Process& p = process();
  static uint64_t last_id = 0;
  p.allocations[address] = {bytes, kind, false, ++last_id};
  if (kind != Kind::MANAGED && kind != Kind::HOST)
    return;
  uint64_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
  mprotect(reinterpret_cast<void*>(address), pages, PROT_READ | PROT_WRITE);
  // What the host writes there is not seen: all of it counts as written.
  memset(p.marks + (address - DEVICE_BASE), 1, bytes);
}

cudaError_t allocate(void** out, uint64_t bytes, Kind kind, const void* caller, bool captured) {
  Process& p = process();
  std::lock_guard held(p.lock);
  if (!out)
    return cudaErrorInvalidValue;
  *out = nullptr;
  if (p.sticky)
    return p.sticky;
  if (cudaError_t error = captured ? cudaSuccess : unsafe_in_capture())
    return error;
  if (!bytes)
    return cudaSuccess;
  Answer made = ask(Request::ALLOCATE, packed(bytes, static_cast<uint32_t>(kind),
                                              callers_of(caller)));
  if (made.error)
    return made.error;
  auto address = unpacked<uint64_t>(made.data);
  adopt(address, bytes, kind);
  made_new(address, bytes);
  *out = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

// Memory of the program's own that kernels are to reach: its pages become those of an allocation,
// which has the device's address for them, and stay where the program has them.
cudaError_t pin(void* pointer, size_t bytes, const void* caller) {
  Process& p = process();
  std::lock_guard held(p.lock);
  auto address = reinterpret_cast<uint64_t>(pointer);
  if (!address || !bytes || is_device_address(address))
    return cudaErrorInvalidValue;
  uint64_t start = address / PAGE * PAGE, size = (address + bytes - start + PAGE - 1) / PAGE * PAGE;
  for (auto& [at, one] : p.pinned)
    if (at < start + size && start < at + one.bytes)
      return cudaErrorHostMemoryAlreadyRegistered;
  void* made = nullptr;
  if (cudaError_t error = allocate(&made, size, Kind::HOST, caller))
    return error;
  auto device = reinterpret_cast<uint64_t>(made);
  auto* pages = reinterpret_cast<void*>(start);
  memcpy(made, pages, size);
  if (mmap(pages, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p.memory_file,
           off_t(device - DEVICE_BASE)) != pages)
    return cudaErrorOperatingSystem;
  p.pinned[start] = {size, device, address};
  return cudaSuccess;
}

cudaError_t unpin(void* pointer, const void* caller) {
  Process& p = process();
  std::lock_guard held(p.lock);
  auto found = std::find_if(p.pinned.begin(), p.pinned.end(), [&](auto& one) {
    return one.second.pointer == reinterpret_cast<uint64_t>(pointer);
  });
  if (found == p.pinned.end())
    return cudaErrorHostMemoryNotRegistered;
  auto [start, one] = *found;
  auto* made = reinterpret_cast<void*>(one.device);
  auto* pages = reinterpret_cast<void*>(start);
  stop_watching(one.device);
  if (mmap(pages, one.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
           0) != pages)
    return cudaErrorOperatingSystem;
  memcpy(pages, made, one.bytes);
  p.pinned.erase(found);
  return release(made, true, caller, Frees::USUALLY_WAITING);
}

cudaError_t release(void* pointer, bool host, const void* caller, Frees how) {
  Process& p = process();
  std::lock_guard held(p.lock);
  auto address = reinterpret_cast<uint64_t>(pointer);
  if (!address)
    return cudaSuccess;
  auto found = p.allocations.find(address);
  if (found == p.allocations.end() || (found->second.kind == Kind::HOST) != host ||
      found->second.kind >= Kind::VARIABLE)
    return cudaErrorInvalidValue;
  if (how == Frees::WAITING && (found->second.of_stream || found->second.of_graph))
    how = Frees::AT_ONCE;
  freed(address, found->second.bytes, how, callers_of(caller));
  if (found->second.of_graph)
    return unwrite(pointer, found->second.bytes);
  uint64_t pages = (found->second.bytes + PAGE - 1) / PAGE * PAGE;
  if (found->second.kind != Kind::DEVICE)
    mprotect(pointer, pages, PROT_NONE);
  p.allocations.erase(found);
  return ask(Request::FREE, packed(address)).error;
}

// What a node allocates is freed by whoever frees it, and is there again at the next launch.
cudaError_t keep_for_graph(void* at) {
  std::lock_guard held(process().lock);
  auto found = process().allocations.find(reinterpret_cast<uint64_t>(at));
  if (found == process().allocations.end())
    return cudaErrorInvalidValue;
  found->second.of_graph = true;
  return cudaSuccess;
}

namespace {

// An allocation of a stream; of a captured one its bytes are new at each launch of the graph.
cudaError_t allocate_in(cudaStream_t stream, void** out, size_t bytes, const void* caller) {
  if (!is_stream(stream))
    return cudaErrorInvalidResourceHandle;
  if (cudaError_t error = allocate(out, bytes, Kind::DEVICE, caller, true))
    return error;
  if (!*out)
    return cudaSuccess;
  CUstream_st* one = stream_of(stream);
  const Doing doing{What::ALLOCATION, callers_of(caller)};
  auto begins = [start = reinterpret_cast<uint64_t>(*out), bytes] {
    operation()->accessed(start, start + bytes, WRITE);
    return cudaSuccess;
  };
  if (!one || !one->capture) {
    std::lock_guard held(process().lock);
    allocation_of(reinterpret_cast<uint64_t>(*out))->second.of_stream = true;
    return enqueue(stream, node_of(cudaGraphNodeTypeMemAlloc, doing, begins));
  }
  if (cudaError_t error = keep_for_graph(*out))
    return error;
  return enqueue(stream, node_of(cudaGraphNodeTypeMemAlloc, doing,
                                 [at = *out, bytes] { return unwrite(at, bytes); }));
}

}  // namespace
}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)

extern "C" {

cudaError_t cudaMalloc(void** out, size_t bytes) {
  FINISHED(allocate(out, bytes, Kind::DEVICE, CALLER));
}
cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned flags) {
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)
    FINISHED(cudaErrorInvalidValue);
  FINISHED(allocate(out, bytes, Kind::MANAGED, CALLER));
}
cudaError_t cudaMallocHost(void** out, size_t bytes) {
  FINISHED(allocate(out, bytes, Kind::HOST, CALLER));
}
cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) {
  FINISHED(allocate(out, bytes, Kind::HOST, CALLER));
}
cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t stream) {
  FINISHED(allocate_in(stream, out, bytes, CALLER));
}
cudaError_t cudaMallocFromPoolAsync(void** out, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  if (!is_pool(pool))
    FINISHED(cudaErrorInvalidValue);
  FINISHED(allocate_in(stream, out, bytes, CALLER));
}
cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t rows) {
  if (!pitch)
    FINISHED(cudaErrorInvalidValue);
  if (width > SIZE_MAX - 511 || (rows && (width + 511) / 512 * 512 > SIZE_MAX / rows))
    FINISHED(cudaErrorMemoryAllocation);
  *pitch = (width + 511) / 512 * 512;
  FINISHED(allocate(out, *pitch * rows, Kind::DEVICE, CALLER));
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* out, cudaExtent extent) {
  if (!out)
    FINISHED(cudaErrorInvalidValue);
  if (extent.depth && extent.height > SIZE_MAX / extent.depth)
    FINISHED(cudaErrorMemoryAllocation);
  *out = {nullptr, 0, extent.width, extent.height};
  return cudaMallocPitch(&out->ptr, &out->pitch, extent.width, extent.height * extent.depth);
}
cudaError_t cudaFree(void* pointer) {
  if (cudaError_t error = pointer ? unsafe_in_capture() : cudaSuccess)
    FINISHED(error);
  FINISHED(release(pointer, false, CALLER));
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  CUstream_st* one = is_stream(stream) ? stream_of(stream) : nullptr;
  if (!one || !one->capture)
    FINISHED(enqueue(stream, NODE_OF(cudaGraphNodeTypeMemFree, What::FREE, Returns::AT_ONCE,
                                     release(pointer, false, caller))));
  auto found = allocation_of(reinterpret_cast<uint64_t>(pointer));
  if (found == process().allocations.end())
    FINISHED(cudaErrorInvalidValue);
  FINISHED(enqueue(stream, NODE_OF(cudaGraphNodeTypeMemFree, What::FREE, Returns::AT_ONCE,
                                   unwrite(pointer, bytes), bytes = found->second.bytes)));
}
cudaError_t cudaFreeHost(void* pointer) {
  FINISHED(release(pointer, true, CALLER, Frees::USUALLY_WAITING));
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  FINISHED(pin(pointer, bytes, CALLER));
}
cudaError_t cudaHostUnregister(void* pointer) { FINISHED(unpin(pointer, CALLER)); }
cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  std::lock_guard held(process().lock);
  auto found = allocation_of(reinterpret_cast<uint64_t>(pointer));
  if (!flags || found == process().allocations.end() || found->second.kind != Kind::HOST)
    FINISHED(cudaErrorInvalidValue);
  *flags = cudaHostAllocMapped;
  FINISHED(cudaSuccess);
}

cudaError_t cudaHostGetDevicePointer(void** out, void* host, unsigned) {
  auto address = reinterpret_cast<uint64_t>(host);
  std::lock_guard held(process().lock);
  if (auto after = process().pinned.upper_bound(address); out && after != process().pinned.begin()) {
    auto& [start, pinned] = *std::prev(after);
    if (address - start < pinned.bytes) {
      *out = reinterpret_cast<void*>(pinned.device + (address - start));
      FINISHED(cudaSuccess);
    }
  }
  auto found = allocation_of(address);
  if (!out || found == process().allocations.end() || found->second.kind != Kind::HOST)
    FINISHED(cudaErrorInvalidValue);
  *out = host;
  FINISHED(cudaSuccess);
}

cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  auto* found = variable_of(symbol);
  if (!found)
    FINISHED(cudaErrorInvalidSymbol);
  *out = reinterpret_cast<void*>(found->first);
  FINISHED(cudaSuccess);
}
cudaError_t cudaGetSymbolSize(size_t* out, const void* symbol) {
  auto* found = variable_of(symbol);
  if (!found)
    FINISHED(cudaErrorInvalidSymbol);
  *out = found->second.bytes;
  FINISHED(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  std::lock_guard held(process().lock);
  uint64_t used = 0;
  for (auto& [address, allocation] : process().allocations)
    used += allocation.kind == Kind::HOST ? 0 : allocation.bytes;
  *total = process().device.memory_bytes;
  *free_bytes = *total - std::min<uint64_t>(used, *total);
  FINISHED(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  if (!out)
    FINISHED(cudaErrorInvalidValue);
  std::lock_guard held(process().lock);
  *out = {};
  auto found = allocation_of(reinterpret_cast<uint64_t>(pointer));
  if (found == process().allocations.end()) {
    out->type = cudaMemoryTypeUnregistered;
    out->device = -2;  // cudaInvalidDeviceId
    out->hostPointer = const_cast<void*>(pointer);
    FINISHED(cudaSuccess);
  }
  Kind kind = found->second.kind;
  out->type = kind == Kind::MANAGED ? cudaMemoryTypeManaged
              : kind == Kind::HOST  ? cudaMemoryTypeHost
                                    : cudaMemoryTypeDevice;
  out->devicePointer = const_cast<void*>(pointer);
  out->hostPointer = kind == Kind::MANAGED || kind == Kind::HOST ? const_cast<void*>(pointer) : nullptr;
  FINISHED(cudaSuccess);
}

cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t) {
  FINISHED(cudaSuccess);
}
cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) {
  FINISHED(cudaSuccess);
}
}
