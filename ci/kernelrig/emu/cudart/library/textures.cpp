// Texture and surface objects: each is the address of a description that kernels' instructions read.

#include "arrays.hpp"

#include <cstring>

namespace cudart {
namespace {

constexpr uint32_t TEXTURE = 0x54584554, SURFACE = 0x46525553;  // isa/texture_object.py

#pragma pack(push, 1)
struct Description {  // isa/texture_object.py reads it
  uint32_t magic;
  uint32_t linear;  // memory without rows: what is out of range reads as zero
  uint64_t address;
  uint32_t width, height, depth;  // 0 where there is no such dimension
  uint32_t layers, cube;
  uint32_t channels, bits, kind;  // kind: of cudaChannelFormatKind
  uint64_t pitch;
  uint32_t modes[3];  // of cudaTextureAddressMode
  uint32_t filtered, normalized, as_float, srgb;
  float border[4];
  uint8_t unused[28];
};
#pragma pack(pop)
static_assert(sizeof(Description) == 128);

struct Object {
  cudaResourceDesc resource;
  cudaTextureDesc texture;
};

std::map<unsigned long long, Object>& objects() {
  static auto* all = new std::map<unsigned long long, Object>;
  return *all;
}

void set_format(Description& d, const cudaChannelFormatDesc& format) {
  d.channels = (format.x > 0) + (format.y > 0) + (format.z > 0) + (format.w > 0);
  d.bits = format.x;
  d.kind = format.f;
}

cudaError_t describe(const cudaResourceDesc& resource, Description& d) {
  switch (resource.resType) {
  case cudaResourceTypeArray: {
    cudaArray_t array = resource.res.array.array;
    if (!is_array(array))
      return cudaErrorInvalidResourceHandle;
    set_format(d, array->format);
    d.address = array->address;
    d.pitch = array->pitch();
    d.width = array->extent.width;
    d.height = array->extent.height;
    d.depth = array->layered() ? 0 : array->extent.depth;
    d.layers = array->layered() ? array->extent.depth : 0;
    d.cube = (array->flags & cudaArrayCubemap) != 0;
    return cudaSuccess;
  }
  case cudaResourceTypeLinear: {
    auto& linear = resource.res.linear;
    set_format(d, linear.desc);
    d.linear = 1;
    d.address = reinterpret_cast<uint64_t>(linear.devPtr);
    size_t element = d.channels * d.bits / 8;
    if (!element || d.address % element)
      return cudaErrorInvalidValue;
    d.width = linear.sizeInBytes / element;
    d.pitch = linear.sizeInBytes;
    return cudaSuccess;
  }
  case cudaResourceTypePitch2D: {
    auto& rows = resource.res.pitch2D;
    set_format(d, rows.desc);
    d.address = reinterpret_cast<uint64_t>(rows.devPtr);
    d.pitch = rows.pitchInBytes;
    d.width = rows.width;
    d.height = rows.height;
    return d.bits && d.pitch % 32 == 0 ? cudaSuccess : cudaErrorInvalidValue;
  }
  default:
    return cudaErrorInvalidValue;
  }
}

cudaError_t make(unsigned long long* out, const Description& description, const Object& object,
                 const void* caller) {
  void* place = nullptr;
  if (cudaError_t error = allocate(&place, sizeof description, Kind::DEVICE, caller))
    return error;
  if (cudaError_t error =
          copy(place, &description, sizeof description, cudaMemcpyHostToDevice, caller))
    return error;
  std::lock_guard held(process().lock);
  *out = reinterpret_cast<uint64_t>(place);
  objects()[*out] = object;
  return cudaSuccess;
}

cudaError_t destroy(unsigned long long object) {
  if (!object)
    return cudaSuccess;
  std::lock_guard held(process().lock);
  if (!objects().erase(object))
    return cudaErrorInvalidValue;
  return release(reinterpret_cast<void*>(object), false, nullptr, Frees::UNJUDGED);
}

const Object* object_of(unsigned long long object) {
  std::lock_guard held(process().lock);
  auto found = objects().find(object);
  return found == objects().end() ? nullptr : &found->second;
}

}  // namespace
}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)

#pragma GCC visibility push(default)
extern "C" {

cudaError_t cudaCreateTextureObject(cudaTextureObject_t* out, const cudaResourceDesc* resource,
                                    const cudaTextureDesc* texture,
                                    const cudaResourceViewDesc* view) {
  if (!out || !resource || !texture)
    FINISHED(cudaErrorInvalidValue);
  if (view && view->format != cudaResViewFormatNone)
    unsupported("cudaCreateTextureObject with a resource view is not emulated", CALLER);
  if (resource->resType == cudaResourceTypeMipmappedArray)
    unsupported("a texture of a mipmapped array is not emulated", CALLER);
  Description d{};
  if (cudaError_t error = describe(*resource, d))
    FINISHED(error);
  d.magic = TEXTURE;
  for (int i = 0; i < 3; i++)
    d.modes[i] = texture->addressMode[i];
  d.filtered = texture->filterMode == cudaFilterModeLinear;
  d.normalized = texture->normalizedCoords != 0;
  d.as_float = texture->readMode == cudaReadModeNormalizedFloat;
  d.srgb = texture->sRGB != 0;
  memcpy(d.border, texture->borderColor, sizeof d.border);
  bool whole_numbers = d.kind != cudaChannelFormatKindFloat;
  if ((d.as_float && (!whole_numbers || d.bits == 32)) ||
      (d.filtered && whole_numbers && !d.as_float))
    FINISHED(cudaErrorInvalidChannelDescriptor);
  FINISHED(make(out, d, {*resource, *texture}, CALLER));
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) { FINISHED(destroy(object)); }
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* out, cudaTextureObject_t object) {
  const Object* found = object_of(object);
  if (!out || !found)
    FINISHED(cudaErrorInvalidValue);
  *out = found->resource;
  FINISHED(cudaSuccess);
}
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* out, cudaTextureObject_t object) {
  const Object* found = object_of(object);
  if (!out || !found)
    FINISHED(cudaErrorInvalidValue);
  *out = found->texture;
  FINISHED(cudaSuccess);
}
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* out, const cudaResourceDesc* resource) {
  if (!out || !resource || resource->resType != cudaResourceTypeArray)
    FINISHED(cudaErrorInvalidValue);
  Description d{};
  if (cudaError_t error = describe(*resource, d))
    FINISHED(error);
  if (!(resource->res.array.array->flags & cudaArraySurfaceLoadStore))
    FINISHED(cudaErrorInvalidValue);
  d.magic = SURFACE;
  FINISHED(make(out, d, {*resource, {}}, CALLER));
}
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) { FINISHED(destroy(object)); }
cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* out, cudaSurfaceObject_t object) {
  return cudaGetTextureObjectResourceDesc(out, object);
}
}
#pragma GCC visibility pop
