// Nodes of graphs of any type by one call, what a graph looks like, and its picture in DOT.

#include "graphs.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>

namespace cudart {
namespace {

const char* type_text(cudaGraphNodeType type) {
  switch (type) {
  case cudaGraphNodeTypeKernel:
    return "KERNEL";
  case cudaGraphNodeTypeMemcpy:
    return "MEMCPY";
  case cudaGraphNodeTypeMemset:
    return "MEMSET";
  case cudaGraphNodeTypeHost:
    return "HOST";
  case cudaGraphNodeTypeGraph:
    return "GRAPH";
  case cudaGraphNodeTypeWaitEvent:
    return "EVENT_WAIT";
  case cudaGraphNodeTypeEventRecord:
    return "EVENT_RECORD";
  case cudaGraphNodeTypeMemAlloc:
    return "MEM_ALLOC";
  case cudaGraphNodeTypeMemFree:
    return "MEM_FREE";
  default:
    return "EMPTY";
  }
}

// Writes a graph, and those in it as clusters; `name` is what its nodes' names begin with.
void draw(std::ofstream& out, const CUgraph_st& graph, const std::string& name) {
  std::map<const CUgraphNode_st*, std::string> names;
  for (size_t n = 0; n < graph.nodes.size(); n++)
    names[graph.nodes[n].get()] = name + "_node_" + std::to_string(n);
  out << "subgraph \"cluster_" << name << "\" {\nlabel=\"" << name << "\";\n";
  for (auto& node : graph.nodes) {
    std::string label = type_text(node->type);
    if (node->type == cudaGraphNodeTypeKernel)
      if (Kernel* kernel = kernel_of(node->kernel.func))
        label += "\\n" + kernel->name;
    out << "\"" << names[node.get()] << "\" [shape=box label=\"" << label << "\"];\n";
  }
  for (auto& node : graph.nodes)
    for (auto* needed : node->needs)
      out << "\"" << names[needed] << "\" -> \"" << names[node.get()] << "\";\n";
  out << "}\n";
  for (auto& node : graph.nodes)
    if (node->child)
      draw(out, *node->child, names[node.get()]);
}

// Gives nodes to a program that asks first how many there are.
cudaError_t give_nodes(const std::vector<CUgraphNode_st*>& found, cudaGraphNode_t* out,
                       cudaGraphEdgeData* edges, size_t* count) {
  if (!count)
    return cudaErrorInvalidValue;
  const size_t given = out ? std::min(*count, found.size()) : found.size();
  for (size_t n = 0; n < given; n++) {
    if (out)
      out[n] = found[n];
    if (out && edges)
      edges[n] = {};
  }
  for (size_t n = given; out && n < *count; n++)
    out[n] = nullptr;
  *count = given;
  return cudaSuccess;
}

cudaKernelNodeParams plain(const cudaKernelNodeParamsV2& all) {
  return {all.func, all.gridDim, all.blockDim, all.sharedMemBytes, all.kernelParams, all.extra};
}
cudaMemsetParams plain(const cudaMemsetParamsV2& all) {
  return {all.dst, all.pitch, all.value, all.elementSize, all.width, all.height};
}
cudaHostNodeParams plain(const cudaHostNodeParamsV2& all) { return {all.fn, all.userData}; }

[[noreturn]] void refuse_node(cudaGraphNodeType type, const void* caller) {
  unsupported(type == cudaGraphNodeTypeConditional
                  ? "conditional nodes of graphs are not emulated"
                  : "graph nodes of type " + std::to_string(int(type)) + " are not emulated",
              caller);
}

}  // namespace
}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)

extern "C" {

cudaError_t cudaGraphAddNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* needs,
                             const cudaGraphEdgeData*, size_t count, cudaGraphNodeParams* how) {
  if (!how)
    FINISHED(cudaErrorInvalidValue);
  switch (how->type) {
  case cudaGraphNodeTypeKernel: {
    const cudaKernelNodeParams params = plain(how->kernel);
    return cudaGraphAddKernelNode(out, graph, needs, count, &params);
  }
  case cudaGraphNodeTypeMemcpy:
    return cudaGraphAddMemcpyNode(out, graph, needs, count, &how->memcpy.copyParams);
  case cudaGraphNodeTypeMemset: {
    const cudaMemsetParams params = plain(how->memset);
    return cudaGraphAddMemsetNode(out, graph, needs, count, &params);
  }
  case cudaGraphNodeTypeHost: {
    const cudaHostNodeParams params = plain(how->host);
    return cudaGraphAddHostNode(out, graph, needs, count, &params);
  }
  case cudaGraphNodeTypeGraph:
    return cudaGraphAddChildGraphNode(out, graph, needs, count, how->graph.graph);
  case cudaGraphNodeTypeEmpty:
    return cudaGraphAddEmptyNode(out, graph, needs, count);
  case cudaGraphNodeTypeWaitEvent:
    return cudaGraphAddEventWaitNode(out, graph, needs, count, how->eventWait.event);
  case cudaGraphNodeTypeEventRecord:
    return cudaGraphAddEventRecordNode(out, graph, needs, count, how->eventRecord.event);
  case cudaGraphNodeTypeMemAlloc: {
    cudaMemAllocNodeParams params{};
    params.poolProps = how->alloc.poolProps;
    params.bytesize = how->alloc.bytesize;
    cudaError_t error = cudaGraphAddMemAllocNode(out, graph, needs, count, &params);
    how->alloc.dptr = params.dptr;
    return error;
  }
  case cudaGraphNodeTypeMemFree:
    return cudaGraphAddMemFreeNode(out, graph, needs, count, how->free.dptr);
  default:
    refuse_node(how->type, CALLER);
  }
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* how) {
  if (!how || !node || node->type != how->type)
    FINISHED(cudaErrorInvalidValue);
  switch (how->type) {
  case cudaGraphNodeTypeKernel: {
    const cudaKernelNodeParams params = plain(how->kernel);
    return cudaGraphExecKernelNodeSetParams(exec, node, &params);
  }
  case cudaGraphNodeTypeMemcpy:
    return cudaGraphExecMemcpyNodeSetParams(exec, node, &how->memcpy.copyParams);
  case cudaGraphNodeTypeMemset: {
    const cudaMemsetParams params = plain(how->memset);
    return cudaGraphExecMemsetNodeSetParams(exec, node, &params);
  }
  case cudaGraphNodeTypeHost: {
    const cudaHostNodeParams params = plain(how->host);
    return cudaGraphExecHostNodeSetParams(exec, node, &params);
  }
  default:
    refuse_node(how->type, CALLER);
  }
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* out, cudaGraph_t graph,
                                           const cudaGraphNode_t* needs, size_t count,
                                           const void* symbol, const void* from, size_t bytes,
                                           size_t offset, cudaMemcpyKind kind) {
  void* to = nullptr;
  if (cudaError_t error = cudaGetSymbolAddress(&to, symbol))
    return error;
  return cudaGraphAddMemcpyNode1D(out, graph, needs, count, static_cast<char*>(to) + offset, from,
                                  bytes, kind);
}
cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* out, cudaGraph_t graph,
                                             const cudaGraphNode_t* needs, size_t count, void* to,
                                             const void* symbol, size_t bytes, size_t offset,
                                             cudaMemcpyKind kind) {
  void* from = nullptr;
  if (cudaError_t error = cudaGetSymbolAddress(&from, symbol))
    return error;
  return cudaGraphAddMemcpyNode1D(out, graph, needs, count, to, static_cast<char*>(from) + offset,
                                  bytes, kind);
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* edges, size_t* count) {
  if (!graph || !count || !from != !to)
    FINISHED(cudaErrorInvalidValue);
  std::vector<CUgraphNode_st*> first, second;
  for (auto& node : graph->nodes)
    for (auto* needed : node->needs)
      first.push_back(needed), second.push_back(node.get());
  size_t again = *count;
  if (cudaError_t error = give_nodes(first, from, edges, &again))
    FINISHED(error);
  FINISHED(give_nodes(second, to, nullptr, count));
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* out,
                                         cudaGraphEdgeData* edges, size_t* count) {
  FINISHED(node ? give_nodes(node->needs, out, edges, count) : cudaErrorInvalidValue);
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* out) {
  if (!node || !out || !node->child)
    FINISHED(cudaErrorInvalidValue);
  *out = node->child.get();
  FINISHED(cudaSuccess);
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                        size_t count) {
  if (!graph || (count && (!from || !to)))
    FINISHED(cudaErrorInvalidValue);
  for (size_t n = 0; n < count; n++) {
    auto& needs = to[n]->needs;
    auto found = std::find(needs.begin(), needs.end(), from[n]);
    if (found == needs.end())
      FINISHED(cudaErrorInvalidValue);
    needs.erase(found);
  }
  FINISHED(cudaSuccess);
}
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  if (!exec || !flags)
    FINISHED(cudaErrorInvalidValue);
  *flags = 0;
  FINISHED(cudaSuccess);
}

// Types, kernels and edges; what `flags` asks for besides is left out.
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  if (!graph || !path)
    FINISHED(cudaErrorInvalidValue);
  std::ofstream out(path);
  out << "digraph dot {\n";
  draw(out, *graph, "graph_0");
  out << "}\n";
  out.close();
  FINISHED(out ? cudaSuccess : cudaErrorOperatingSystem);
}
}
