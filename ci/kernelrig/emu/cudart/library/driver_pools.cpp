// The driver's memory pools, and what it is told of managed memory: they are the runtime's.

#include "graphs.hpp"

using namespace cudart;

extern "C" {

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  return CUresult(cudaDeviceGetDefaultMemPool(out, device));
}
CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  return CUresult(cudaDeviceGetMemPool(out, device));
}
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return CUresult(cudaDeviceSetMemPool(device, pool));
}
CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* how) {
  return CUresult(cudaMemPoolCreate(out, reinterpret_cast<const cudaMemPoolProps*>(how)));
}
CUresult cuMemPoolDestroy(CUmemoryPool pool) { return CUresult(cudaMemPoolDestroy(pool)); }
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
  return CUresult(cudaMemPoolTrimTo(pool, bytes));
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  return CUresult(cudaMemPoolSetAttribute(pool, cudaMemPoolAttr(which), value));
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  return CUresult(cudaMemPoolGetAttribute(pool, cudaMemPoolAttr(which), value));
}
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* how, size_t count) {
  return CUresult(
      cudaMemPoolSetAccess(pool, reinterpret_cast<const cudaMemAccessDesc*>(how), count));
}
CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* place) {
  return CUresult(cudaMemPoolGetAccess(reinterpret_cast<cudaMemAccessFlags*>(flags), pool,
                                       reinterpret_cast<cudaMemLocation*>(place)));
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  return CUresult(cudaMallocFromPoolAsync(reinterpret_cast<void**>(out), bytes, pool, stream));
}

CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) { return CUDA_SUCCESS; }
CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  return CUresult(cudaHostGetFlags(flags, pointer));
}
}
