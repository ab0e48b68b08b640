// The driver's arrays, texture and surface objects: they are the runtime's, by cuda.h's structures.

#include "arrays.hpp"

#include <cstring>

namespace cudart {
namespace {

// The runtime's format of elements; false of one that arrays do not have here.
bool element_format(CUarray_format format, unsigned channels, cudaChannelFormatDesc* out) {
  int bits = 0;
  cudaChannelFormatKind kind = cudaChannelFormatKindUnsigned;
  switch (format) {
  case CU_AD_FORMAT_UNSIGNED_INT8:
    bits = 8;
    break;
  case CU_AD_FORMAT_UNSIGNED_INT16:
    bits = 16;
    break;
  case CU_AD_FORMAT_UNSIGNED_INT32:
    bits = 32;
    break;
  case CU_AD_FORMAT_SIGNED_INT8:
    bits = 8, kind = cudaChannelFormatKindSigned;
    break;
  case CU_AD_FORMAT_SIGNED_INT16:
    bits = 16, kind = cudaChannelFormatKindSigned;
    break;
  case CU_AD_FORMAT_SIGNED_INT32:
    bits = 32, kind = cudaChannelFormatKindSigned;
    break;
  case CU_AD_FORMAT_HALF:
    bits = 16, kind = cudaChannelFormatKindFloat;
    break;
  case CU_AD_FORMAT_FLOAT:
    bits = 32, kind = cudaChannelFormatKindFloat;
    break;
  default:
    return false;
  }
  if (channels != 1 && channels != 2 && channels != 4)
    return false;
  *out = {bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 2 ? bits : 0, kind};
  return true;
}

CUresult runtime_resource(const CUDA_RESOURCE_DESC& how, cudaResourceDesc* out,
                          const void* caller) {
  *out = {};
  switch (how.resType) {
  case CU_RESOURCE_TYPE_ARRAY:
    out->resType = cudaResourceTypeArray;
    out->res.array.array = reinterpret_cast<cudaArray_t>(how.res.array.hArray);
    return CUDA_SUCCESS;
  case CU_RESOURCE_TYPE_LINEAR: {
    auto& linear = how.res.linear;
    out->resType = cudaResourceTypeLinear;
    out->res.linear.devPtr = reinterpret_cast<void*>(linear.devPtr);
    out->res.linear.sizeInBytes = linear.sizeInBytes;
    return element_format(linear.format, linear.numChannels, &out->res.linear.desc)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  }
  case CU_RESOURCE_TYPE_PITCH2D: {
    auto& rows = how.res.pitch2D;
    out->resType = cudaResourceTypePitch2D;
    out->res.pitch2D.devPtr = reinterpret_cast<void*>(rows.devPtr);
    out->res.pitch2D.width = rows.width;
    out->res.pitch2D.height = rows.height;
    out->res.pitch2D.pitchInBytes = rows.pitchInBytes;
    return element_format(rows.format, rows.numChannels, &out->res.pitch2D.desc)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  }
  case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
    unsupported("a texture of a mipmapped array is not emulated", caller);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

// Elements of 8 and 16 bits are read as floats unless they are asked for as integers.
bool reads_as_float(const cudaResourceDesc& resource, unsigned flags) {
  const cudaChannelFormatDesc* format = nullptr;
  if (resource.resType == cudaResourceTypeArray)
    format = is_array(resource.res.array.array) ? &resource.res.array.array->format : nullptr;
  else
    format = resource.resType == cudaResourceTypeLinear ? &resource.res.linear.desc
                                                        : &resource.res.pitch2D.desc;
  return format && format->f != cudaChannelFormatKindFloat && format->x < 32 &&
         !(flags & CU_TRSF_READ_AS_INTEGER);
}

}  // namespace
}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)
#define DRIVER(code) return CUresult(finished(__func__, cudaError_t(code), CALLER))

extern "C" {

CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* how) {
  cudaChannelFormatDesc format;
  if (!out || !how || !element_format(how->Format, how->NumChannels, &format))
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  return CUresult(cudaMalloc3DArray(reinterpret_cast<cudaArray_t*>(out), &format,
                                    {how->Width, how->Height, how->Depth}, how->Flags));
}
CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* how) {
  if (!how)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  const CUDA_ARRAY3D_DESCRIPTOR all{how->Width,  how->Height,      0,
                                    how->Format, how->NumChannels, 0};
  return cuArray3DCreate(out, &all);
}
CUresult cuArrayDestroy(CUarray array) {
  return CUresult(cudaFreeArray(reinterpret_cast<cudaArray_t>(array)));
}

CUresult cuMemcpyHtoA(CUarray to, size_t offset, const void* from, size_t bytes) {
  return CUresult(cudaMemcpyToArray(reinterpret_cast<cudaArray_t>(to), offset, 0, from, bytes,
                                    cudaMemcpyHostToDevice));
}
CUresult cuMemcpyAtoH(void* to, CUarray from, size_t offset, size_t bytes) {
  return CUresult(cudaMemcpyFromArray(to, reinterpret_cast<cudaArray_t>(from), offset, 0, bytes,
                                      cudaMemcpyDeviceToHost));
}
CUresult cuMemcpyDtoA(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return CUresult(cudaMemcpyToArray(reinterpret_cast<cudaArray_t>(to), offset, 0,
                                    reinterpret_cast<void*>(from), bytes,
                                    cudaMemcpyDeviceToDevice));
}
CUresult cuMemcpyAtoD(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return CUresult(cudaMemcpyFromArray(reinterpret_cast<void*>(to),
                                      reinterpret_cast<cudaArray_t>(from), offset, 0, bytes,
                                      cudaMemcpyDeviceToDevice));
}

CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                           const CUDA_TEXTURE_DESC* how, const CUDA_RESOURCE_VIEW_DESC* view) {
  if (!out || !resource || !how)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  if (view && view->format != CU_RES_VIEW_FORMAT_NONE)
    unsupported("cuTexObjectCreate with a resource view is not emulated", CALLER);
  cudaResourceDesc made;
  if (CUresult wrong = runtime_resource(*resource, &made, CALLER))
    DRIVER(wrong);
  cudaTextureDesc texture{};
  for (int i = 0; i < 3; i++)
    texture.addressMode[i] = cudaTextureAddressMode(how->addressMode[i]);
  texture.filterMode = cudaTextureFilterMode(how->filterMode);
  texture.normalizedCoords = (how->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  texture.sRGB = (how->flags & CU_TRSF_SRGB) != 0;
  texture.readMode =
      reads_as_float(made, how->flags) ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
  memcpy(texture.borderColor, how->borderColor, sizeof texture.borderColor);
  return CUresult(cudaCreateTextureObject(out, &made, &texture, nullptr));
}
CUresult cuTexObjectDestroy(CUtexObject object) {
  return CUresult(cudaDestroyTextureObject(object));
}
CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  if (!out || !resource)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  cudaResourceDesc made;
  if (CUresult wrong = runtime_resource(*resource, &made, CALLER))
    DRIVER(wrong);
  return CUresult(cudaCreateSurfaceObject(out, &made));
}
CUresult cuSurfObjectDestroy(CUsurfObject object) {
  return CUresult(cudaDestroySurfaceObject(object));
}
}
