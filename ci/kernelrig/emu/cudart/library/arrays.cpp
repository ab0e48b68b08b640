// Arrays: allocations of elements, and copies to and from them.

#include "arrays.hpp"

#include "graphs.hpp"

#include <set>

namespace cudart {
namespace {

std::set<cudaArray_const_t>& arrays() {
  static auto* all = new std::set<cudaArray_const_t>;
  return *all;
}

bool is_format(const cudaChannelFormatDesc& format) {
  const int bits[] = {format.x, format.y, format.z, format.w};
  int channels = 0;
  while (channels < 4 && bits[channels])
    channels++;
  for (int i = 0; i < 4; i++)
    if (bits[i] != (i < channels ? format.x : 0))
      return false;
  bool known = format.f == cudaChannelFormatKindSigned ||
               format.f == cudaChannelFormatKindUnsigned || format.f == cudaChannelFormatKindFloat;
  bool sized = format.x == 8 || format.x == 16 || format.x == 32;
  return known && sized && channels != 3 &&
         (format.f != cudaChannelFormatKindFloat || format.x >= 16);
}

cudaError_t make(cudaArray_t* out, const cudaChannelFormatDesc* format, cudaExtent extent,
                 unsigned flags, const void* caller) {
  if (!out || !format || !is_format(*format) || !extent.width)
    return cudaErrorInvalidValue;
  if ((flags & cudaArrayCubemap) && (extent.width != extent.height || extent.depth % 6))
    return cudaErrorInvalidValue;
  auto made = new cudaArray{*format, extent, flags};
  void* bytes = nullptr;
  if (cudaError_t error = allocate(&bytes, made->bytes(), Kind::DEVICE, caller)) {
    delete made;
    return error;
  }
  made->address = reinterpret_cast<uint64_t>(bytes);
  std::lock_guard held(process().lock);
  arrays().insert(made);
  *out = made;
  return cudaSuccess;
}

cudaMemcpy3DParms to_array(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch,
                           size_t width, size_t rows, cudaMemcpyKind kind) {
  cudaMemcpy3DParms how{};
  size_t element = is_array(to) ? to->element_bytes() : 1;
  how.srcPtr = {const_cast<void*>(from), pitch, width, rows};
  how.dstArray = to;
  how.dstPos = {x / element, y, 0};
  how.extent = {width / element, rows, 1};
  how.kind = kind;
  return how;
}

cudaMemcpy3DParms from_array(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                             size_t width, size_t rows, cudaMemcpyKind kind) {
  cudaMemcpy3DParms how{};
  size_t element = is_array(from) ? from->element_bytes() : 1;
  how.srcArray = const_cast<cudaArray_t>(from);
  how.srcPos = {x / element, y, 0};
  how.dstPtr = {to, pitch, width, rows};
  how.extent = {width / element, rows, 1};
  how.kind = kind;
  return how;
}

// One side of a copy: where its first element is, and how far rows and slices are apart.
struct Side {
  char* first;
  size_t pitch, rows;
};

bool side_of(cudaArray_const_t array, const cudaPitchedPtr& memory, const cudaPos& at,
             const cudaExtent& extent, size_t element, Side* out) {
  if (!array) {
    *out = {static_cast<char*>(memory.ptr) + (at.z * memory.ysize + at.y) * memory.pitch + at.x,
            memory.pitch, memory.ysize};
    return extent.width * element <= memory.pitch || extent.height * extent.depth <= 1;
  }
  if (!is_array(array) || at.x + extent.width > array->extent.width ||
      at.y + extent.height > array->rows() || at.z + extent.depth > array->slices())
    return false;
  size_t start = (at.z * array->rows() + at.y) * array->pitch() + at.x * element;
  *out = {reinterpret_cast<char*>(array->address) + start, array->pitch(), array->rows()};
  return true;
}

// Bytes in a row's order, from the element at (x, y) on, as the calls without 2D have them.
cudaError_t copy_bytes(cudaArray_const_t array, size_t x, size_t y, void* to, const void* from,
                       size_t bytes, cudaMemcpyKind kind, const void* caller) {
  if (!is_array(array) || y * array->pitch() + x + bytes > array->bytes())
    return cudaErrorInvalidValue;
  auto* at = reinterpret_cast<char*>(array->address) + y * array->pitch() + x;
  return copy(to ? to : at, to ? at : from, bytes, kind, caller);
}

}  // namespace

bool is_array(cudaArray_const_t array) {
  std::lock_guard held(process().lock);
  return arrays().count(array);
}

cudaError_t copy_arrays(const cudaMemcpy3DParms& how, const void* caller) {
  for (cudaArray_const_t array : {how.srcArray, how.dstArray})
    if (array && !is_array(array))
      return cudaErrorInvalidResourceHandle;
  size_t element = (how.srcArray ? how.srcArray : how.dstArray)->element_bytes();
  if (how.srcArray && how.dstArray && how.dstArray->element_bytes() != element)
    return cudaErrorInvalidValue;
  Side from{}, to{};
  if (!side_of(how.srcArray, how.srcPtr, how.srcPos, how.extent, element, &from) ||
      !side_of(how.dstArray, how.dstPtr, how.dstPos, how.extent, element, &to))
    return cudaErrorInvalidValue;
  for (size_t z = 0; z < how.extent.depth; z++)
    for (size_t y = 0; y < how.extent.height; y++)
      if (cudaError_t error = copy(to.first + (z * to.rows + y) * to.pitch,
                                   from.first + (z * from.rows + y) * from.pitch,
                                   how.extent.width * element, how.kind, caller))
        return error;
  return cudaSuccess;
}

}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)

#pragma GCC visibility push(default)
extern "C" {

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}
cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* out, cudaArray_const_t array) {
  if (!out || !is_array(array))
    FINISHED(cudaErrorInvalidValue);
  *out = array->format;
  FINISHED(cudaSuccess);
}
cudaError_t cudaMallocArray(cudaArray_t* out, const cudaChannelFormatDesc* format, size_t width,
                            size_t height, unsigned flags) {
  FINISHED(make(out, format, {width, height, 0}, flags, CALLER));
}
cudaError_t cudaMalloc3DArray(cudaArray_t* out, const cudaChannelFormatDesc* format,
                              cudaExtent extent, unsigned flags) {
  FINISHED(make(out, format, extent, flags, CALLER));
}
cudaError_t cudaFreeArray(cudaArray_t array) {
  if (!array)
    FINISHED(cudaSuccess);
  std::lock_guard held(process().lock);
  if (!arrays().erase(array))
    FINISHED(cudaErrorInvalidValue);
  cudaError_t error = release(reinterpret_cast<void*>(array->address), false, CALLER);
  delete array;
  FINISHED(error);
}
cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent, unsigned* flags,
                             cudaArray_t array) {
  if (!is_array(array))
    FINISHED(cudaErrorInvalidValue);
  if (format)
    *format = array->format;
  if (extent)
    *extent = array->extent;
  if (flags)
    *flags = array->flags;
  FINISHED(cudaSuccess);
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch,
                                size_t width, size_t rows, cudaMemcpyKind kind) {
  auto how = to_array(to, x, y, from, pitch, width, rows, kind);
  FINISHED(COPIED_NOW(copy_arrays(how, caller)));
}
cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from,
                                     size_t pitch, size_t width, size_t rows, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
  auto how = to_array(to, x, y, from, pitch, width, rows, kind);
  FINISHED(COPIED(stream, copy_arrays(how, caller)));
}
cudaError_t cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x,
                                  size_t y, size_t width, size_t rows, cudaMemcpyKind kind) {
  auto how = from_array(to, pitch, from, x, y, width, rows, kind);
  FINISHED(COPIED_NOW(copy_arrays(how, caller)));
}
cudaError_t cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t x,
                                       size_t y, size_t width, size_t rows, cudaMemcpyKind kind,
                                       cudaStream_t stream) {
  auto how = from_array(to, pitch, from, x, y, width, rows, kind);
  FINISHED(COPIED(stream, copy_arrays(how, caller)));
}
cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y,
                                     cudaArray_const_t from, size_t x, size_t y, size_t width,
                                     size_t rows, cudaMemcpyKind kind) {
  auto how = to_array(to, to_x, to_y, nullptr, 0, width, rows, kind);
  how.srcPtr = {};
  how.srcArray = const_cast<cudaArray_t>(from);
  how.srcPos = {x / (is_array(from) ? from->element_bytes() : 1), y, 0};
  FINISHED(COPIED_NOW(copy_arrays(how, caller)));
}
cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes,
                              cudaMemcpyKind kind) {
  FINISHED(COPIED_NOW(copy_bytes(to, x, y, nullptr, from, bytes, kind, caller)));
}
cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from,
                                   size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  FINISHED(COPIED(stream, copy_bytes(to, x, y, nullptr, from, bytes, kind, caller)));
}
cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                cudaMemcpyKind kind) {
  FINISHED(COPIED_NOW(copy_bytes(from, x, y, to, nullptr, bytes, kind, caller)));
}
cudaError_t cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t from, size_t x, size_t y,
                                     size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  FINISHED(COPIED(stream, copy_bytes(from, x, y, to, nullptr, bytes, kind, caller)));
}
}
#pragma GCC visibility pop
