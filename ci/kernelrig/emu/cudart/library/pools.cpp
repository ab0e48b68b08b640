// Memory pools: what they are asked for comes from device memory like everything else.

#include "graphs.hpp"

#include <map>

struct CUmemPoolHandle_st {
  std::map<int, uint64_t> attributes;  // by cudaMemPoolAttr
};

namespace cudart {
namespace {

struct Pools {
  CUmemPoolHandle_st of_device;
  std::set<cudaMemPool_t> made;
};
Pools& pools() {
  static auto* all = new Pools;
  return *all;
}

// Those of cudaMemPoolAttr that are int; the others are 64 bits wide.
bool is_int(cudaMemPoolAttr which) { return which <= cudaMemPoolReuseAllowInternalDependencies; }

}  // namespace

bool is_pool(cudaMemPool_t pool) {
  std::lock_guard held(process().lock);
  return pool == &pools().of_device || pools().made.count(pool);
}

}  // namespace cudart

using namespace cudart;

extern "C" {

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int device) {
  if (!out || device)
    FINISHED(out ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
  *out = &pools().of_device;
  FINISHED(cudaSuccess);
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* out, int device) {
  return cudaDeviceGetDefaultMemPool(out, device);
}
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  FINISHED(device ? cudaErrorInvalidDevice : is_pool(pool) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* out, const cudaMemPoolProps* props) {
  if (!out || !props)
    FINISHED(cudaErrorInvalidValue);
  std::lock_guard held(process().lock);
  *out = new CUmemPoolHandle_st;
  pools().made.insert(*out);
  FINISHED(cudaSuccess);
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  std::lock_guard held(process().lock);
  if (!pools().made.erase(pool))
    FINISHED(cudaErrorInvalidValue);
  delete pool;
  FINISHED(cudaSuccess);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  FINISHED(is_pool(pool) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc*, size_t) {
  FINISHED(is_pool(pool) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                 cudaMemLocation* place) {
  if (!flags || !place || !is_pool(pool))
    FINISHED(cudaErrorInvalidValue);
  *flags = cudaMemAccessFlagsProtReadWrite;
  FINISHED(cudaSuccess);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  if (!value || !is_pool(pool))
    FINISHED(cudaErrorInvalidValue);
  pool->attributes[which] =
      is_int(which) ? uint64_t(*static_cast<int*>(value)) : *static_cast<uint64_t*>(value);
  FINISHED(cudaSuccess);
}
// What is used and reserved is all device memory that is allocated: pools are not told apart.
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  if (!value || !is_pool(pool))
    FINISHED(cudaErrorInvalidValue);
  std::lock_guard held(process().lock);
  uint64_t found = is_int(which) ? 1 : 0;
  if (which >= cudaMemPoolAttrReservedMemCurrent)
    for (auto& [address, one] : process().allocations)
      found += one.kind == Kind::DEVICE ? one.bytes : 0;
  if (auto set = pool->attributes.find(which); set != pool->attributes.end())
    found = set->second;
  if (is_int(which))
    *static_cast<int*>(value) = int(found);
  else
    *static_cast<uint64_t*>(value) = found;
  FINISHED(cudaSuccess);
}
}
