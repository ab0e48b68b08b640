// The driver's graphs: they are the runtime's, by the names and structures of cuda.h.

#include "graphs.hpp"

#include <cstring>

namespace cudart {
namespace {

cudaKernelNodeParams of_driver(const CUDA_KERNEL_NODE_PARAMS& all) {
  void* function = all.func ? static_cast<void*>(all.func) : static_cast<void*>(all.kern);
  return {function,
          dim3(all.gridDimX, all.gridDimY, all.gridDimZ),
          dim3(all.blockDimX, all.blockDimY, all.blockDimZ),
          all.sharedMemBytes,
          all.kernelParams,
          all.extra};
}
CUDA_KERNEL_NODE_PARAMS of_runtime(const cudaKernelNodeParams& all) {
  CUDA_KERNEL_NODE_PARAMS made{};
  made.func = reinterpret_cast<CUfunction>(kernel_of(all.func));
  made.gridDimX = all.gridDim.x, made.gridDimY = all.gridDim.y, made.gridDimZ = all.gridDim.z;
  made.blockDimX = all.blockDim.x, made.blockDimY = all.blockDim.y;
  made.blockDimZ = all.blockDim.z;
  made.sharedMemBytes = all.sharedMemBytes;
  made.kernelParams = all.kernelParams;
  return made;
}
cudaMemsetParams of_driver(const CUDA_MEMSET_NODE_PARAMS& all) {
  return {reinterpret_cast<void*>(all.dst), all.pitch, all.value, all.elementSize, all.width,
          all.height};
}
cudaHostNodeParams of_driver(const CUDA_HOST_NODE_PARAMS& all) { return {all.fn, all.userData}; }

}  // namespace
}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)
#define DRIVER(code) return CUresult(finished(__func__, cudaError_t(code), CALLER))

extern "C" {

CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  return CUresult(cudaGraphCreate(out, flags));
}
CUresult cuGraphDestroy(CUgraph graph) { return CUresult(cudaGraphDestroy(graph)); }
CUresult cuGraphClone(CUgraph* out, CUgraph graph) { return CUresult(cudaGraphClone(out, graph)); }

CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS* how) {
  if (!how)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  const cudaKernelNodeParams params = of_driver(*how);
  return CUresult(cudaGraphAddKernelNode(out, graph, needs, count, &params));
}
CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs,
                              size_t count, const CUDA_MEMCPY3D* how, CUcontext) {
  cudaMemcpy3DParms params;
  if (CUresult wrong = how ? runtime_copy(*how, &params) : CUDA_ERROR_INVALID_VALUE)
    DRIVER(wrong);
  return CUresult(cudaGraphAddMemcpyNode(out, graph, needs, count, &params));
}
CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* how, CUcontext) {
  if (!how)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  const cudaMemsetParams params = of_driver(*how);
  return CUresult(cudaGraphAddMemsetNode(out, graph, needs, count, &params));
}
CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs, size_t count,
                            const CUDA_HOST_NODE_PARAMS* how) {
  if (!how)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  const cudaHostNodeParams params = of_driver(*how);
  return CUresult(cudaGraphAddHostNode(out, graph, needs, count, &params));
}
CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs,
                             size_t count) {
  return CUresult(cudaGraphAddEmptyNode(out, graph, needs, count));
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs,
                                  size_t count, CUgraph child) {
  return CUresult(cudaGraphAddChildGraphNode(out, graph, needs, count, child));
}
CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs,
                                   size_t count, CUevent event) {
  return CUresult(cudaGraphAddEventRecordNode(out, graph, needs, count, event));
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs,
                                 size_t count, CUevent event) {
  return CUresult(cudaGraphAddEventWaitNode(out, graph, needs, count, event));
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs,
                               size_t count, CUdeviceptr address) {
  return CUresult(
      cudaGraphAddMemFreeNode(out, graph, needs, count, reinterpret_cast<void*>(address)));
}
CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* how) {
  if (!how)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  cudaMemAllocNodeParams params{};
  params.bytesize = how->bytesize;
  const cudaError_t error = cudaGraphAddMemAllocNode(out, graph, needs, count, &params);
  how->dptr = reinterpret_cast<CUdeviceptr>(params.dptr);
  return CUresult(error);
}
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                const CUgraphEdgeData*, size_t count) {
  return CUresult(cudaGraphAddDependencies(graph, from, to, nullptr, count));
}
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData*, size_t count) {
  return CUresult(cudaGraphRemoveDependencies(graph, from, to, nullptr, count));
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* out, size_t* count) {
  return CUresult(cudaGraphGetNodes(graph, out, count));
}
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* out, size_t* count) {
  return CUresult(cudaGraphGetRootNodes(graph, out, count));
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* out) {
  cudaGraphNodeType type{};
  const cudaError_t error = cudaGraphNodeGetType(node, out ? &type : nullptr);
  if (!error)
    *out = CUgraphNodeType(type);
  return CUresult(error);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* edges,
                                    size_t* count) {
  const cudaError_t error = cudaGraphNodeGetDependencies(node, out, nullptr, count);
  if (!error && out && edges)
    memset(edges, 0, *count * sizeof *edges);
  return CUresult(error);
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out) {
  cudaKernelNodeParams params;
  const cudaError_t error = cudaGraphKernelNodeGetParams(node, out ? &params : nullptr);
  if (!error)
    *out = of_runtime(params);
  return CUresult(error);
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* how) {
  if (!how)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  const cudaKernelNodeParams params = of_driver(*how);
  return CUresult(cudaGraphKernelNodeSetParams(node, &params));
}
CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned flags) {
  return CUresult(cudaGraphDebugDotPrint(graph, path, flags));
}

CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return CUresult(cudaGraphInstantiateWithFlags(out, graph, flags));
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* how) {
  if (!how)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  const cudaKernelNodeParams params = of_driver(*how);
  return CUresult(cudaGraphExecKernelNodeSetParams(exec, node, &params));
}
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return CUresult(cudaGraphUpload(exec, stream));
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return CUresult(cudaGraphLaunch(exec, stream));
}
CUresult cuGraphExecDestroy(CUgraphExec exec) { return CUresult(cudaGraphExecDestroy(exec)); }

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return CUresult(cudaStreamBeginCapture(stream, cudaStreamCaptureMode(mode)));
}
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* needs,
                                     const CUgraphEdgeData*, size_t count,
                                     CUstreamCaptureMode mode) {
  return CUresult(cudaStreamBeginCaptureToGraph(stream, graph, needs, nullptr, count,
                                                cudaStreamCaptureMode(mode)));
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* out) {
  return CUresult(cudaStreamEndCapture(stream, out));
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* out) {
  cudaStreamCaptureStatus status{};
  const cudaError_t error = cudaStreamIsCapturing(stream, out ? &status : nullptr);
  if (!error)
    *out = CUstreamCaptureStatus(status);
  return CUresult(error);
}
}
