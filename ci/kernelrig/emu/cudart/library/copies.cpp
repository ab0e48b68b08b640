// Copies and fills, of device variables too.

#include "arrays.hpp"
#include "graphs.hpp"

#include <algorithm>
#include <cstring>

namespace cudart {
namespace {

constexpr uint8_t UNWRITTEN = 0x5a;  // large and finite in every type

// Where the process reaches `pointer`, which a call names with `bytes` bytes.
struct Place {
  uint8_t* bytes = nullptr;
  uint8_t* marks = nullptr;  // of memory that kernels can reach
  bool device = false;       // that only kernels can reach
  cudaError_t error = cudaSuccess;
  MemorySide side = MemorySide::DEVICE;
  uint64_t address = 0;  // of registered memory the device's
};

// Memory of the program's own, which it may have registered.
Place host_place(const void* pointer) {
  auto address = reinterpret_cast<uint64_t>(pointer);
  auto* bytes = static_cast<uint8_t*>(const_cast<void*>(pointer));
  auto after = process().pinned.upper_bound(address);
  if (after != process().pinned.begin()) {
    auto& [start, pinned] = *std::prev(after);
    if (address - start < pinned.bytes)
      // By the view: the program's own pages may be closed to the host.
      return {process().view + (pinned.device - DEVICE_BASE) + (address - start), nullptr, false,
              cudaSuccess, MemorySide::PINNED, pinned.device + (address - start)};
  }
  return {bytes, nullptr, false, cudaSuccess, MemorySide::PAGEABLE, address};
}

Place place_of(const void* pointer, size_t bytes) {
  auto address = reinterpret_cast<uint64_t>(pointer);
  if (!is_device_address(address))
    return host_place(pointer);
  auto found = allocation_of(address);
  if (found == process().allocations.end() || bytes > found->second.bytes - (address - found->first))
    return {nullptr, nullptr, true, cudaErrorInvalidValue};
  uint64_t offset = address - DEVICE_BASE;
  Kind kind = found->second.kind;
  return {process().view + offset, process().marks + offset,
          kind != Kind::MANAGED && kind != Kind::HOST, cudaSuccess,
          kind == Kind::HOST ? MemorySide::PINNED : MemorySide::DEVICE, address};
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
  if (Operation* now = operation())
    now->copied(target.side, target.address, source.side, source.address, bytes);
  memmove(target.bytes, source.bytes, bytes);
  if (target.marks) {
    if (source.device)
      memmove(target.marks, source.marks, bytes);
    else
      memset(target.marks, 1, bytes);
  }
  if (source.device && !target.device) {
    if (auto first = static_cast<uint8_t*>(memchr(source.marks, 0, bytes))) {
      uint64_t unwritten = 0;
      for (size_t i = first - source.marks; i < bytes; i++)
        if (!source.marks[i]) {
          // New memory is zeros here, and anything on a GPU: a check must not find zeros right.
          target.bytes[i] = UNWRITTEN;
          unwritten++;
        }
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
  if (Operation* now = place.marks ? operation() : nullptr)
    now->accessed(place.address, place.address + bytes, WRITE);
  return place.error;
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
  if (Operation* now = operation()) {
    now->accessed(target.address, target.address + bytes, WRITE);
    now->filled(target.device ? MemorySide::DEVICE : MemorySide::PINNED);
  }
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

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  FINISHED(COPIED_NOW(copy(to, from, bytes, kind, caller)));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  FINISHED(COPIED(stream, copy(to, from, bytes, kind, caller)));
}
cudaError_t cudaMemcpyPeer(void* to, int device, const void* from, int other, size_t bytes) {
  if (device || other)
    FINISHED(cudaErrorInvalidDevice);
  FINISHED(COPIED_NOW(copy(to, from, bytes, cudaMemcpyDefault, caller)));
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
  FINISHED(COPIED_NOW(copy_3d(all, caller), all = *how));
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* how, cudaStream_t stream) {
  if (!how)
    FINISHED(cudaErrorInvalidValue);
  FINISHED(COPIED(stream, copy_3d(all, caller), all = *how));
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t rows, cudaMemcpyKind kind) {
  FINISHED(COPIED_NOW(copy_rows(to, to_pitch, from, from_pitch, width, rows, kind, caller)));
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t rows, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  FINISHED(COPIED(stream, copy_rows(to, to_pitch, from, from_pitch, width, rows, kind, caller)));
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  FINISHED(FILLED_NOW(fill(to, value, bytes)));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  FINISHED(FILLED(stream, fill(to, value, bytes)));
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t rows) {
  FINISHED(FILLED_NOW(fill_rows(to, pitch, value, width, rows)));
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t rows,
                              cudaStream_t stream) {
  FINISHED(FILLED(stream, fill_rows(to, pitch, value, width, rows)));
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  FINISHED(FILLED_NOW(fill_slices(to, value, extent)));
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent,
                              cudaStream_t stream) {
  FINISHED(FILLED(stream, fill_slices(to, value, extent)));
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  FINISHED(COPIED_NOW(copy_symbol(symbol, nullptr, from, bytes, offset, kind, caller)));
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  FINISHED(COPIED(stream, copy_symbol(symbol, nullptr, from, bytes, offset, kind, caller)));
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  FINISHED(COPIED_NOW(copy_symbol(symbol, to, nullptr, bytes, offset, kind, caller)));
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  FINISHED(COPIED(stream, copy_symbol(symbol, to, nullptr, bytes, offset, kind, caller)));
}
}
