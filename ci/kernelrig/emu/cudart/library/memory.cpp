// Memory: allocations, copies, fills, symbols.

#include "arrays.hpp"
#include "graphs.hpp"

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

cudaError_t unpin(void* pointer) {
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
  if (mmap(pages, one.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
           0) != pages)
    return cudaErrorOperatingSystem;
  memcpy(pages, made, one.bytes);
  p.pinned.erase(found);
  return release(made, true);
}

cudaError_t release(void* pointer, bool host) {
  Process& p = process();
  std::lock_guard held(p.lock);
  auto address = reinterpret_cast<uint64_t>(pointer);
  if (!address)
    return cudaSuccess;
  auto found = p.allocations.find(address);
  if (found == p.allocations.end() || (found->second.kind == Kind::HOST) != host ||
      found->second.kind >= Kind::VARIABLE)
    return cudaErrorInvalidValue;
  if (found->second.of_graph)
    return unwrite(pointer, found->second.bytes);
  uint64_t pages = (found->second.bytes + PAGE - 1) / PAGE * PAGE;
  if (found->second.kind != Kind::DEVICE)
    mprotect(pointer, pages, PROT_NONE);
  p.allocations.erase(found);
  return ask(Request::FREE, packed(address)).error;
}

namespace {

// Where the process reaches `pointer`, which a call names with `bytes` bytes.
struct Place {
  uint8_t* bytes = nullptr;
  uint8_t* marks = nullptr;  // of memory that kernels can reach
  bool device = false;       // that only kernels can reach
  cudaError_t error = cudaSuccess;
};

Place place_of(const void* pointer, size_t bytes) {
  auto address = reinterpret_cast<uint64_t>(pointer);
  if (!is_device_address(address))
    return {static_cast<uint8_t*>(const_cast<void*>(pointer))};
  auto found = allocation_of(address);
  if (found == process().allocations.end() || bytes > found->second.bytes - (address - found->first))
    return {nullptr, nullptr, true, cudaErrorInvalidValue};
  uint64_t offset = address - DEVICE_BASE;
  Kind kind = found->second.kind;
  return {process().view + offset, process().marks + offset,
          kind != Kind::MANAGED && kind != Kind::HOST};
}

}  // namespace

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 const void* caller) {
  Process& p = process();
  std::lock_guard held(p.lock);
  if (p.sticky)
    return p.sticky;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  if (!bytes)
    return cudaSuccess;
  if (!to || !from)
    return cudaErrorInvalidValue;
  Place target = place_of(to, bytes), source = place_of(from, bytes);
  if (target.error || source.error)
    return cudaErrorInvalidValue;
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault) {
    // Memory of one side alone must be named as such; managed and pinned memory is of both.
    bool wrong = (to_device && !target.marks) || (from_device && !source.marks) ||
                 (!to_device && target.device) || (!from_device && source.device);
    if (wrong)
      return cudaErrorInvalidValue;
  }
  memmove(target.bytes, source.bytes, bytes);
  if (target.marks) {
    if (source.device)
      memmove(target.marks, source.marks, bytes);
    else
      memset(target.marks, 1, bytes);
  } else if (source.marks) {
    if (auto first = static_cast<uint8_t*>(memchr(source.marks, 0, bytes))) {
      uint64_t unwritten = 0;
      for (size_t i = first - source.marks; i < bytes; i++)
        unwritten += !source.marks[i];
      Note note{Noted::UNWRITTEN_COPY, 0, reinterpret_cast<uint64_t>(from) + (first - source.marks),
                unwritten, callers_of(caller)};
      ask(Request::NOTE, packed(note) + "cudaMemcpy");
    }
  }
  return cudaSuccess;
}

// Copies rows of rows.
cudaError_t copy_3d(const cudaMemcpy3DParms& how, const void* caller) {
  if (how.srcArray || how.dstArray)
    return copy_arrays(how, caller);
  const cudaPitchedPtr &from = how.srcPtr, &to = how.dstPtr;
  const cudaPos &first = how.srcPos, &place = how.dstPos;
  if (how.extent.width > from.pitch || how.extent.width > to.pitch)
    return cudaErrorInvalidPitchValue;
  for (size_t z = 0; z < how.extent.depth; z++)
    for (size_t y = 0; y < how.extent.height; y++) {
      size_t source = ((first.z + z) * from.ysize + first.y + y) * from.pitch + first.x;
      size_t target = ((place.z + z) * to.ysize + place.y + y) * to.pitch + place.x;
      if (cudaError_t error = copy(static_cast<char*>(to.ptr) + target,
                                   static_cast<const char*>(from.ptr) + source, how.extent.width,
                                   how.kind, caller))
        return error;
    }
  return cudaSuccess;
}

cudaError_t unwrite(void* at, size_t bytes) {
  std::lock_guard held(process().lock);
  Place place = place_of(at, bytes);
  if (place.marks)
    memset(place.marks, 0, bytes);
  return place.error;
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

template <class T> cudaError_t fill_elements(uint64_t to, T value, size_t count) {
  std::lock_guard held(process().lock);
  if (cudaError_t error = fill(reinterpret_cast<void*>(to), 0, count * sizeof(T)))
    return error;
  auto* at = process().view + (to - DEVICE_BASE);
  for (size_t i = 0; i < count; i++)
    memcpy(at + i * sizeof(T), &value, sizeof(T));
  return cudaSuccess;
}

}  // namespace

cudaError_t fill_halves(uint64_t to, uint16_t value, size_t count) {
  return fill_elements(to, value, count);
}
cudaError_t fill_words(uint64_t to, uint32_t value, size_t count) {
  return fill_elements(to, value, count);
}

cudaError_t fill(void* to, int value, size_t bytes) {
  Process& p = process();
  std::lock_guard held(p.lock);
  if (p.sticky)
    return p.sticky;
  if (!bytes)
    return cudaSuccess;
  Place target = place_of(to, bytes);
  if (target.error || !target.marks)
    return cudaErrorInvalidValue;
  memset(target.bytes, value, bytes);
  memset(target.marks, 1, bytes);
  return cudaSuccess;
}

namespace {

cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                      size_t rows, cudaMemcpyKind kind, const void* caller) {
  if (width > to_pitch || width > from_pitch)
    return cudaErrorInvalidPitchValue;
  for (size_t row = 0; row < rows; row++) {
    cudaError_t error = copy(static_cast<char*>(to) + row * to_pitch,
                             static_cast<const char*>(from) + row * from_pitch, width, kind, caller);
    if (error)
      return error;
  }
  return cudaSuccess;
}

// Copies to or from a device variable, `offset` bytes into it.
cudaError_t copy_symbol(const void* symbol, void* host, const void* source, size_t bytes,
                        size_t offset, cudaMemcpyKind kind, const void* caller) {
  auto* found = variable_of(symbol);
  if (!found)
    return cudaErrorInvalidSymbol;
  if (offset + bytes > found->second.bytes || offset + bytes < offset)
    return cudaErrorInvalidValue;
  auto place = reinterpret_cast<char*>(found->first) + offset;
  return host ? copy(host, place, bytes, kind, caller) : copy(place, source, bytes, kind, caller);
}

// An allocation of a stream; of a captured one its bytes are new at each launch of the graph.
cudaError_t allocate_in(cudaStream_t stream, void** out, size_t bytes, const void* caller) {
  if (!is_stream(stream))
    return cudaErrorInvalidResourceHandle;
  if (cudaError_t error = allocate(out, bytes, Kind::DEVICE, caller, true))
    return error;
  CUstream_st* one = stream_of(stream);
  if (!one || !one->capture)
    return cudaSuccess;
  if (cudaError_t error = *out ? keep_for_graph(*out) : cudaSuccess)
    return error;
  return enqueue(stream, cudaGraphNodeTypeMemAlloc, [at = *out, bytes] { return unwrite(at, bytes); });
}

cudaError_t fill_rows(void* to, size_t pitch, int value, size_t width, size_t rows) {
  for (size_t row = 0; row < rows; row++)
    if (cudaError_t error = fill(static_cast<char*>(to) + row * pitch, value, width))
      return error;
  return cudaSuccess;
}

cudaError_t fill_slices(cudaPitchedPtr to, int value, cudaExtent extent) {
  for (size_t z = 0; z < extent.depth; z++) {
    auto at = static_cast<char*>(to.ptr) + z * to.pitch * to.ysize;
    if (cudaError_t error = fill_rows(at, to.pitch, value, extent.width, extent.height))
      return error;
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)
// Work of a stream; `caller` is the program's call, and what follows is captured besides.
#define COPIED(stream, work, ...)                                                                  \
  enqueue(stream, cudaGraphNodeTypeMemcpy,                                                         \
          [=, caller = CALLER __VA_OPT__(, ) __VA_ARGS__]() -> cudaError_t { return work; })
#define FILLED(stream, work)                                                                       \
  enqueue(stream, cudaGraphNodeTypeMemset, [=]() -> cudaError_t { return work; })

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
  FINISHED(release(pointer, false));
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  CUstream_st* one = is_stream(stream) ? stream_of(stream) : nullptr;
  if (!one || !one->capture)
    FINISHED(is_stream(stream) ? release(pointer, false) : cudaErrorInvalidResourceHandle);
  auto found = allocation_of(reinterpret_cast<uint64_t>(pointer));
  if (found == process().allocations.end())
    FINISHED(cudaErrorInvalidValue);
  auto work = [=, bytes = found->second.bytes] { return unwrite(pointer, bytes); };
  FINISHED(enqueue(stream, cudaGraphNodeTypeMemFree, work));
}
cudaError_t cudaFreeHost(void* pointer) { FINISHED(release(pointer, true)); }

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  FINISHED(pin(pointer, bytes, CALLER));
}
cudaError_t cudaHostUnregister(void* pointer) { FINISHED(unpin(pointer)); }
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

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  FINISHED(COPIED(nullptr, copy(to, from, bytes, kind, caller)));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  FINISHED(COPIED(stream, copy(to, from, bytes, kind, caller)));
}
cudaError_t cudaMemcpyPeer(void* to, int device, const void* from, int other, size_t bytes) {
  if (device || other)
    FINISHED(cudaErrorInvalidDevice);
  FINISHED(COPIED(nullptr, copy(to, from, bytes, cudaMemcpyDefault, caller)));
}
cudaError_t cudaMemcpyPeerAsync(void* to, int device, const void* from, int other, size_t bytes,
                                cudaStream_t stream) {
  if (device || other)
    FINISHED(cudaErrorInvalidDevice);
  FINISHED(COPIED(stream, copy(to, from, bytes, cudaMemcpyDefault, caller)));
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* how) {
  if (!how)
    FINISHED(cudaErrorInvalidValue);
  FINISHED(COPIED(nullptr, copy_3d(all, caller), all = *how));
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* how, cudaStream_t stream) {
  if (!how)
    FINISHED(cudaErrorInvalidValue);
  FINISHED(COPIED(stream, copy_3d(all, caller), all = *how));
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t rows, cudaMemcpyKind kind) {
  FINISHED(COPIED(nullptr,
                  copy_rows(to, to_pitch, from, from_pitch, width, rows, kind, caller)));
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t rows, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  FINISHED(COPIED(stream, copy_rows(to, to_pitch, from, from_pitch, width, rows, kind, caller)));
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  FINISHED(FILLED(nullptr, fill(to, value, bytes)));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  FINISHED(FILLED(stream, fill(to, value, bytes)));
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t rows) {
  FINISHED(FILLED(nullptr, fill_rows(to, pitch, value, width, rows)));
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t rows,
                              cudaStream_t stream) {
  FINISHED(FILLED(stream, fill_rows(to, pitch, value, width, rows)));
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  FINISHED(FILLED(nullptr, fill_slices(to, value, extent)));
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent,
                              cudaStream_t stream) {
  FINISHED(FILLED(stream, fill_slices(to, value, extent)));
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  FINISHED(COPIED(nullptr, copy_symbol(symbol, nullptr, from, bytes, offset, kind, caller)));
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  FINISHED(COPIED(stream, copy_symbol(symbol, nullptr, from, bytes, offset, kind, caller)));
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  FINISHED(COPIED(nullptr, copy_symbol(symbol, to, nullptr, bytes, offset, kind, caller)));
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t) {
  FINISHED(COPIED(nullptr, copy_symbol(symbol, to, nullptr, bytes, offset, kind, caller)));
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
