// The driver's copies of two and three dimensions, its fills of rows, and what it says of pointers.

#include "arrays.hpp"
#include "graphs.hpp"

#include <cstring>

namespace cudart {
namespace {

// One side of a copy, as the driver's structures name it.
struct CopySide {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  size_t x, y, z, pitch, height;
};

// Puts a side into the runtime's parameters, where positions in arrays count elements.
CUresult take_side(const CopySide& side, size_t width, size_t rows, size_t slices, cudaPitchedPtr* memory,
              cudaArray_t* array, cudaPos* at) {
  *at = {side.x, side.y, side.z};
  if (side.type == CU_MEMORYTYPE_ARRAY) {
    *array = reinterpret_cast<cudaArray_t>(side.array);
    if (!is_array(*array))
      return CUDA_ERROR_INVALID_HANDLE;
    at->x /= (*array)->element_bytes();
    return CUDA_SUCCESS;
  }
  const bool one_row = rows <= 1 && slices <= 1;
  const size_t pitch = side.pitch || !one_row ? side.pitch : side.x + width;
  if (pitch < side.x + width)
    return CUDA_ERROR_INVALID_VALUE;
  void* start = side.type == CU_MEMORYTYPE_HOST ? const_cast<void*>(side.host)
                                                : reinterpret_cast<void*>(side.device);
  const size_t height = side.height ? side.height : side.y + rows;
  if (slices > 1 && height < side.y + rows)
    return CUDA_ERROR_INVALID_VALUE;
  *memory = {start, pitch, pitch, height};
  return CUDA_SUCCESS;
}

cudaMemcpyKind copy_kind(CUmemorytype from, CUmemorytype to) {
  if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
    return cudaMemcpyDefault;
  if (from == CU_MEMORYTYPE_HOST)
    return to == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  return to == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

bool is_memory_type(CUmemorytype type) {
  return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
}

CUresult copy_of_sides(const CopySide& from, const CopySide& to, size_t width, size_t rows, size_t slices,
                      cudaMemcpy3DParms* out) {
  if (!is_memory_type(from.type) || !is_memory_type(to.type))
    return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  CUresult wrong = take_side(from, width, rows, slices, &out->srcPtr, &out->srcArray, &out->srcPos);
  if (!wrong)
    wrong = take_side(to, width, rows, slices, &out->dstPtr, &out->dstArray, &out->dstPos);
  if (wrong)
    return wrong;
  cudaArray_const_t array = out->srcArray ? out->srcArray : out->dstArray;
  const size_t element = array ? array->element_bytes() : 1;
  if (width % element)
    return CUDA_ERROR_INVALID_VALUE;
  out->extent = {width / element, rows, slices};
  out->kind = copy_kind(from.type, to.type);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult runtime_copy(const CUDA_MEMCPY3D& how, cudaMemcpy3DParms* out) {
  const CopySide from{how.srcMemoryType, how.srcHost, how.srcDevice, how.srcArray, how.srcXInBytes,
                  how.srcY, how.srcZ, how.srcPitch, how.srcHeight};
  const CopySide to{how.dstMemoryType, how.dstHost, how.dstDevice, how.dstArray, how.dstXInBytes,
                how.dstY, how.dstZ, how.dstPitch, how.dstHeight};
  return copy_of_sides(from, to, how.WidthInBytes, how.Height, how.Depth, out);
}

static CUresult runtime_copy(const CUDA_MEMCPY2D& how, cudaMemcpy3DParms* out) {
  const CopySide from{how.srcMemoryType, how.srcHost, how.srcDevice, how.srcArray, how.srcXInBytes,
                  how.srcY, 0, how.srcPitch, 0};
  const CopySide to{how.dstMemoryType, how.dstHost, how.dstDevice, how.dstArray, how.dstXInBytes,
                how.dstY, 0, how.dstPitch, 0};
  return copy_of_sides(from, to, how.WidthInBytes, how.Height, 1, out);
}

namespace {

template <class T>
cudaError_t driver_copy(const T* how, CUstream stream, Returns returns, const void* caller) {
  cudaMemcpy3DParms all;
  if (!how)
    return cudaErrorInvalidValue;
  if (CUresult wrong = runtime_copy(*how, &all))
    return cudaError_t(wrong);
  if (!how->WidthInBytes || !how->Height)
    return cudaSuccess;
  return enqueue(stream, node_of(cudaGraphNodeTypeMemcpy,
                                 {What::COPY, callers_of(caller), returns},
                                 [=] { return copy_3d(all, caller); }));
}

template <class T>
cudaError_t driver_fill(CUdeviceptr to, size_t pitch, T value, size_t width, size_t rows,
                   CUstream stream, Returns returns, const void* caller) {
  if (rows > 1 && pitch < width * sizeof(T))
    return cudaErrorInvalidValue;
  auto work = [=] {
    for (size_t row = 0; row < rows; row++) {
      const uint64_t at = to + row * pitch;
      cudaError_t error = cudaSuccess;
      if constexpr (sizeof(T) == 1)
        error = fill(reinterpret_cast<void*>(at), value, width);
      else if constexpr (sizeof(T) == 2)
        error = fill_halves(at, value, width);
      else
        error = fill_words(at, value, width);
      if (error)
        return error;
    }
    return cudaSuccess;
  };
  return enqueue(stream, node_of(cudaGraphNodeTypeMemset,
                                 {What::FILL, callers_of(caller), returns}, work));
}

// What is known of a pointer: its allocation, and where each side reaches it.
struct PointedAt {
  uint64_t start = 0, bytes = 0, id = 0;
  Kind kind = Kind::DEVICE;
  uint64_t device = 0;
  void* host = nullptr;
};

bool look_up_pointer(uint64_t address, PointedAt* out) {
  uint64_t device = address, host = address;
  for (auto& [start, one] : process().pinned) {  // pages of the program's own
    if (address - start < one.bytes)
      device = one.device + (address - start);
    else if (address - one.device < one.bytes)
      host = start + (address - one.device);
  }
  auto found = allocation_of(device);
  if (found == process().allocations.end())
    return false;
  const Kind kind = found->second.kind;
  const bool of_host = kind == Kind::MANAGED || kind == Kind::HOST;
  *out = {found->first, found->second.bytes, found->second.id, kind, device,
          of_host ? reinterpret_cast<void*>(host) : nullptr};
  return true;
}

template <class T> CUresult put_value(void* data, T value) {
  memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult say_of_pointer(void* data, CUpointer_attribute which, const PointedAt& at) {
  switch (which) {
  case CU_POINTER_ATTRIBUTE_CONTEXT: {
    CUcontext context = nullptr;
    cuCtxGetCurrent(&context);
    return put_value(data, context);
  }
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    return put_value(data, unsigned(at.kind == Kind::HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    return put_value(data, CUdeviceptr(at.device));
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    return at.host ? put_value(data, at.host) : CUDA_ERROR_INVALID_VALUE;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    return put_value(data, static_cast<unsigned long long>(at.id));
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    return put_value(data, unsigned(at.kind == Kind::MANAGED));
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:  // no other process gets it here
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    return put_value(data, 0);
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    return put_value(data, CUdeviceptr(at.start));
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    return put_value(data, size_t(at.bytes));
  case CU_POINTER_ATTRIBUTE_MAPPED:
    return put_value(data, 1);
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    return put_value(data, 0ULL);
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    return put_value(data, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// Bytes of an attribute's value.
size_t size_of_attribute(CUpointer_attribute which) {
  switch (which) {
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case CU_POINTER_ATTRIBUTE_MAPPED:
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    return sizeof(int);
  default:
    return sizeof(uint64_t);
  }
}

}  // namespace
}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)
#define DRIVER(code) return CUresult(finished(__func__, cudaError_t(code), CALLER))

extern "C" {

CUresult cuMemcpy2D(const CUDA_MEMCPY2D* how) { DRIVER(driver_copy(how, nullptr, Returns::AFTER_COPY, CALLER)); }
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* how) { DRIVER(driver_copy(how, nullptr, Returns::AFTER_COPY, CALLER)); }
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* how, CUstream stream) {
  DRIVER(driver_copy(how, stream, Returns::AT_ONCE, CALLER));
}
CUresult cuMemcpy3D(const CUDA_MEMCPY3D* how) { DRIVER(driver_copy(how, nullptr, Returns::AFTER_COPY, CALLER)); }
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* how, CUstream stream) {
  DRIVER(driver_copy(how, stream, Returns::AT_ONCE, CALLER));
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return cuMemcpyDtoD(to, from, bytes);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                           CUstream stream) {
  return cuMemcpyDtoDAsync(to, from, bytes, stream);
}

CUresult cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                      size_t rows) {
  DRIVER(driver_fill(to, pitch, value, width, rows, nullptr, Returns::AFTER_FILL, CALLER));
}
CUresult cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                       size_t rows) {
  DRIVER(driver_fill(to, pitch, value, width, rows, nullptr, Returns::AFTER_FILL, CALLER));
}
CUresult cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t rows) {
  DRIVER(driver_fill(to, pitch, value, width, rows, nullptr, Returns::AFTER_FILL, CALLER));
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t rows, CUstream stream) {
  DRIVER(driver_fill(to, pitch, value, width, rows, stream, Returns::AT_ONCE, CALLER));
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t rows, CUstream stream) {
  DRIVER(driver_fill(to, pitch, value, width, rows, stream, Returns::AT_ONCE, CALLER));
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                            size_t rows, CUstream stream) {
  DRIVER(driver_fill(to, pitch, value, width, rows, stream, Returns::AT_ONCE, CALLER));
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr address) {
  std::lock_guard held(process().lock);
  PointedAt at;
  if (!data || !look_up_pointer(address, &at))
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  DRIVER(say_of_pointer(data, which, at));
}
// Of a pointer that CUDA does not know, or has no such value, it says 0.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** data,
                                CUdeviceptr address) {
  std::lock_guard held(process().lock);
  if (!which || !data)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  PointedAt at;
  const bool known = look_up_pointer(address, &at);
  for (unsigned n = 0; n < count; n++) {
    const CUresult said = known ? say_of_pointer(data[n], which[n], at) : CUDA_ERROR_INVALID_VALUE;
    if (said == CUDA_ERROR_NOT_SUPPORTED)
      DRIVER(said);
    if (said)
      memset(data[n], 0, size_of_attribute(which[n]));
  }
  DRIVER(CUDA_SUCCESS);
}
CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr address) {
  std::lock_guard held(process().lock);
  PointedAt at;
  const bool known = value && which == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && look_up_pointer(address, &at);
  DRIVER(known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
}
