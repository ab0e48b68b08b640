// Graphs: nodes that are run in the order of their dependencies, one after the other, at each launch.
// What of them could run at the same time is an order that is missing where it conflicts (order.hpp).

#include "graphs.hpp"

#include <algorithm>
#include <unordered_map>

struct CUgraphExec_st {
  CUgraph_st graph;
  std::unordered_map<CUgraphNode_st*, CUgraphNode_st*> copies;  // by the node of the graph
  std::vector<CUgraphNode_st*> order;
  cudart::Clock done;  // of its launches: it runs beside none of its own
};

namespace cudart {
namespace {

std::set<Capture*>& captures() {
  static auto* all = new std::set<Capture*>;
  return *all;
}
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

// The nodes of a graph, each behind those it needs; fewer than all where they need one another.
std::vector<CUgraphNode_st*> ordered(const CUgraph_st& graph) {
  std::vector<CUgraphNode_st*> order;
  std::set<CUgraphNode_st*> done;
  for (size_t before = size_t(-1); before != order.size();) {
    before = order.size();
    for (auto& node : graph.nodes)
      if (!done.count(node.get()) &&
          std::all_of(node->needs.begin(), node->needs.end(),
                      [&](CUgraphNode_st* one) { return done.count(one); })) {
        done.insert(node.get());
        order.push_back(node.get());
      }
  }
  return order;
}

void copy_nodes(const CUgraph_st& from, CUgraph_st& to,
                std::unordered_map<CUgraphNode_st*, CUgraphNode_st*>& copies) {
  for (auto& node : from.nodes) {
    to.nodes.push_back(std::make_unique<CUgraphNode_st>(*node));
    copies[node.get()] = to.nodes.back().get();
  }
  for (auto& node : to.nodes)
    for (auto& needed : node->needs)
      needed = copies[needed];
}

// Runs nodes behind `begin` until a kernel fails: the call that launched it returns success, as on a
// GPU. `*end` is when all are complete.
cudaError_t run(const std::vector<CUgraphNode_st*>& order, const Operation& whole,
                const Clock begin, Clock* end) {
  struct Ran {
    Clock clock;
    uint32_t chain;
  };
  std::unordered_map<CUgraphNode_st*, Ran> done;
  std::set<uint32_t> used;
  cudaError_t error = cudaSuccess;
  for (CUgraphNode_st* node : order) {
    if (process().failing || error)
      break;
    Clock at = begin;
    uint32_t chain = whole.chain;
    for (CUgraphNode_st* needed : node->needs) {
      at.join(done[needed].clock);
      chain = chain_goes_on(chain, at) ? chain : done[needed].chain;
    }
    if (!chain_goes_on(chain, at))
      chain = take_chain(at);
    used.insert(chain);
    Operation operation(whole, at, chain, node->doing);
    if (node->child)
      error = run(ordered(*node->child), operation, operation.clock, &operation.clock);
    else if (node->work)
      error = node->work();
    operation.finish();
    done[node] = {operation.clock, chain};
    end->join(operation.clock);
  }
  for (uint32_t chain : used)
    if (chain != whole.chain)
      end_chain(chain);
  return error;
}

cudaError_t run(cudaGraphExec_t exec) {
  Operation& whole = *operation();
  if (!whole.of_graph())
    whole.is_graph(next_graph());
  whole.goes_on_behind(exec->done);
  cudaError_t error = run(exec->order, whole, whole.clock, &whole.clock);
  exec->done = whole.clock;
  return error;
}

cudaError_t add(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* needs, size_t count,
                CUgraphNode_st node) {
  std::lock_guard held(process().lock);
  if (!out || !graph || (count && !needs))
    return cudaErrorInvalidValue;
  node.needs.assign(needs, needs + count);
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(node)));
  *out = graph->nodes.back().get();
  return cudaSuccess;
}

cudaError_t set_kernel(CUgraphNode_st* node, const cudaKernelNodeParams* params,
                       const void* caller) {
  if (!node || !params)
    return cudaErrorInvalidValue;
  Kernel* kernel = kernel_of(params->func);
  if (!kernel)
    return cudaErrorInvalidDeviceFunction;
  if (params->extra)
    return cudaErrorNotSupported;
  std::string arguments;
  if (cudaError_t error = keep_arguments(*kernel, params->kernelParams, &arguments))
    return error;
  Geometry geometry{params->gridDim, params->blockDim, dim3(0), params->sharedMemBytes};
  node->type = cudaGraphNodeTypeKernel;
  node->kernel = *params;
  node->doing = {What::KERNEL, callers_of(caller)};
  node->work = [=] { return launch_now(*kernel, geometry, arguments, caller); };
  return cudaSuccess;
}

Work memset_of(const cudaMemsetParams& p) {
  return [p] {
    for (size_t row = 0; row < p.height; row++) {
      auto at = reinterpret_cast<uint64_t>(p.dst) + row * p.pitch;
      cudaError_t error = p.elementSize == 4   ? fill_words(at, p.value, p.width)
                          : p.elementSize == 2 ? fill_halves(at, uint16_t(p.value), p.width)
                                               : fill(reinterpret_cast<void*>(at), int(p.value),
                                                      p.width);
      if (error)
        return error;
    }
    return cudaSuccess;
  };
}

cudaError_t instantiate(cudaGraphExec_t* out, cudaGraph_t graph) {
  if (!out || !graph)
    return cudaErrorInvalidValue;
  std::lock_guard held(process().lock);
  auto* made = new CUgraphExec_st;
  copy_nodes(*graph, made->graph, made->copies);
  made->order = ordered(made->graph);
  if (made->order.size() != made->graph.nodes.size()) {
    delete made;  // nodes that need one another
    return cudaErrorInvalidValue;
  }
  *out = made;
  return cudaSuccess;
}

CUgraphNode_st* copy_in(cudaGraphExec_t exec, cudaGraphNode_t node) {
  auto found = exec->copies.find(node);
  return found == exec->copies.end() ? nullptr : found->second;
}

// Captures into a graph of its own, or into the program's behind these nodes of it.
cudaError_t begin(cudaStream_t stream, cudaStreamCaptureMode mode, cudaGraph_t graph = nullptr,
                  std::vector<CUgraphNode_st*> needs = {}) {
  std::lock_guard held(process().lock);
  CUstream_st* one = is_stream(stream) ? stream_of(stream) : nullptr;
  if (!one)
    return is_stream(stream) ? cudaErrorStreamCaptureUnsupported : cudaErrorInvalidResourceHandle;
  if (one->capture)
    return cudaErrorIllegalState;
  static unsigned long long last_id = 0;
  auto* made = new Capture{graph ? graph : new CUgraph_st, one, mode, std::this_thread::get_id(),
                           ++last_id};
  made->borrowed = graph;
  made->before = made->graph->nodes.size();
  captures().insert(made);
  made->streams.insert(one);
  one->capture = made;
  one->last = std::move(needs);
  return cudaSuccess;
}

// Whether the stream that began a capture waits for all that others did in it.
bool joined(const Capture& capture) {
  std::set<CUgraphNode_st*> needed(capture.origin->last.begin(), capture.origin->last.end());
  auto& nodes = capture.graph->nodes;
  for (auto& node : nodes)
    needed.insert(node->needs.begin(), node->needs.end());
  return std::all_of(nodes.begin() + std::ptrdiff_t(capture.before), nodes.end(),
                     [&](auto& node) { return needed.count(node.get()); });
}

cudaError_t end(cudaStream_t stream, cudaGraph_t* out) {
  std::lock_guard held(process().lock);
  CUstream_st* one = is_stream(stream) ? stream_of(stream) : nullptr;
  if (!out || !one || !one->capture)
    return out ? cudaErrorIllegalState : cudaErrorInvalidValue;
  Capture* capture = one->capture;
  if (capture->origin != one)
    return cudaErrorStreamCaptureUnmatched;
  cudaError_t error = capture->invalid        ? cudaErrorStreamCaptureInvalidated
                      : !joined(*capture) ? cudaErrorStreamCaptureUnjoined
                                              : cudaSuccess;
  *out = error ? nullptr : capture->graph;
  for (CUstream_st* each : capture->streams)
    each->capture = nullptr, each->last.clear();
  captures().erase(capture);
  if (error && !capture->borrowed)
    delete capture->graph;
  delete capture;
  return error;
}

}  // namespace

cudaError_t unsafe_in_capture() {
  std::lock_guard held(process().lock);
  for (Capture* one : captures()) {
    bool mine = one->thread == std::this_thread::get_id();
    if ((one->mode == cudaStreamCaptureModeGlobal && thread_mode != cudaStreamCaptureModeRelaxed) ||
        (one->mode == cudaStreamCaptureModeThreadLocal && mine)) {
      one->invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, CUgraphNode_st node) {
  std::lock_guard held(process().lock);
  if (process().sticky)
    return process().sticky;
  if (!is_stream(stream))
    return cudaErrorInvalidResourceHandle;
  CUstream_st* one = stream_of(stream);
  if (one && one->capture) {
    if (one->capture->invalid)
      return cudaErrorStreamCaptureInvalidated;
    node.needs = one->last;
    one->capture->graph->nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(node)));
    one->last = {one->capture->graph->nodes.back().get()};
    return cudaSuccess;
  }
  if (!one)  // the default stream waits for all others that do not say otherwise
    for (Capture* each : captures())
      if (!(each->origin->flags & cudaStreamNonBlocking)) {
        each->invalid = true;
        return cudaErrorStreamCaptureImplicit;
      }
  Operation operation(line_of(stream), node.doing);
  cudaError_t error = node.work ? node.work() : cudaSuccess;
  operation.finish();
  return error;
}

void forget_captures(CUstream_st* stream) {
  for (Capture* one : captures())
    one->streams.erase(stream);
}

}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  FINISHED(begin(stream, mode));
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* needs, const cudaGraphEdgeData*,
                                          size_t count, cudaStreamCaptureMode mode) {
  if (!graph || (count && !needs))
    FINISHED(cudaErrorInvalidValue);
  FINISHED(begin(stream, mode, graph, {needs, needs + count}));
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* needs,
                                                const cudaGraphEdgeData*, size_t count,
                                                unsigned flags) {
  std::lock_guard held(process().lock);
  CUstream_st* one = is_stream(stream) ? stream_of(stream) : nullptr;
  if (!one || !one->capture || (count && !needs))
    FINISHED(one && !one->capture ? cudaErrorIllegalState : cudaErrorInvalidValue);
  if (flags != cudaStreamAddCaptureDependencies)
    one->last.clear();
  one->last.insert(one->last.end(), needs, needs + count);
  FINISHED(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  FINISHED(end(stream, out));
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  if (!out || !is_stream(stream))
    FINISHED(out ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
  CUstream_st* one = stream_of(stream);
  *out = !one || !one->capture  ? cudaStreamCaptureStatusNone
         : one->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
  FINISHED(cudaSuccess);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** needs, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  if (cudaError_t error = cudaStreamIsCapturing(stream, status))
    return error;
  if (*status != cudaStreamCaptureStatusActive)
    return cudaSuccess;
  CUstream_st* one = stream_of(stream);
  if (id)
    *id = one->capture->id;
  if (graph)
    *graph = one->capture->graph;
  if (needs)
    *needs = one->last.data();
  if (edges)
    *edges = nullptr;
  if (count)
    *count = one->last.size();
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (!mode)
    FINISHED(cudaErrorInvalidValue);
  std::swap(*mode, thread_mode);
  FINISHED(cudaSuccess);
}

cudaError_t cudaGraphCreate(cudaGraph_t* out, unsigned) {
  if (!out)
    FINISHED(cudaErrorInvalidValue);
  *out = new CUgraph_st;
  FINISHED(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  FINISHED(cudaSuccess);
}
cudaError_t cudaGraphClone(cudaGraph_t* out, cudaGraph_t graph) {
  if (!out || !graph)
    FINISHED(cudaErrorInvalidValue);
  std::unordered_map<CUgraphNode_st*, CUgraphNode_st*> copies;
  *out = new CUgraph_st;
  copy_nodes(*graph, **out, copies);
  FINISHED(cudaSuccess);
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                   const cudaGraphNode_t* needs, size_t count,
                                   const cudaKernelNodeParams* params) {
  CUgraphNode_st node;
  if (cudaError_t error = set_kernel(&node, params, CALLER))
    FINISHED(error);
  FINISHED(add(out, graph, needs, count, std::move(node)));
}
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                   const cudaGraphNode_t* needs, size_t count,
                                   const cudaMemcpy3DParms* params) {
  if (!params)
    FINISHED(cudaErrorInvalidValue);
  FINISHED(add(out, graph, needs, count, COPY_NODE(Returns::AT_ONCE, copy_3d(p, caller), p = *params)));
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* out, cudaGraph_t graph,
                                     const cudaGraphNode_t* needs, size_t count, void* to,
                                     const void* from, size_t bytes, cudaMemcpyKind kind) {
  FINISHED(add(out, graph, needs, count,
               COPY_NODE(Returns::AT_ONCE, copy(to, from, bytes, kind, caller))));
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                   const cudaGraphNode_t* needs, size_t count,
                                   const cudaMemsetParams* params) {
  if (!params)
    FINISHED(cudaErrorInvalidValue);
  FINISHED(add(out, graph, needs, count, FILL_NODE(Returns::AT_ONCE, work(), work = memset_of(*params))));
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                 const cudaGraphNode_t* needs, size_t count,
                                 const cudaHostNodeParams* params) {
  if (!params || !params->fn)
    FINISHED(cudaErrorInvalidValue);
  FINISHED(add(out, graph, needs, count,
               NODE_OF(cudaGraphNodeTypeHost, What::HOST_FUNCTION, Returns::AT_ONCE,
                       (host_runs(*operation()), p.fn(p.userData), cudaSuccess), p = *params)));
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                  const cudaGraphNode_t* needs, size_t count) {
  FINISHED(add(out, graph, needs, count, node_of(cudaGraphNodeTypeEmpty, {}, nullptr)));
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                       const cudaGraphNode_t* needs, size_t count,
                                       cudaGraph_t child) {
  if (!child)
    FINISHED(cudaErrorInvalidValue);
  CUgraphNode_st node = node_of(cudaGraphNodeTypeGraph, {}, nullptr);
  node.child = std::make_shared<CUgraph_st>();
  std::unordered_map<CUgraphNode_st*, CUgraphNode_st*> copies;
  copy_nodes(*child, *node.child, copies);
  FINISHED(add(out, graph, needs, count, std::move(node)));
}
cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                        const cudaGraphNode_t* needs, size_t count,
                                        cudaEvent_t event) {
  auto work = [=] { return record_event(event, operation()->before), cudaSuccess; };
  FINISHED(add(out, graph, needs, count, node_of(cudaGraphNodeTypeEventRecord, {}, work)));
}
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                      const cudaGraphNode_t* needs, size_t count,
                                      cudaEvent_t event) {
  auto work = [=] { return operation()->goes_on_behind(event->order), cudaSuccess; };
  FINISHED(add(out, graph, needs, count, node_of(cudaGraphNodeTypeWaitEvent, {}, work)));
}
cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                     const cudaGraphNode_t* needs, size_t count,
                                     cudaMemAllocNodeParams* params) {
  if (!params)
    FINISHED(cudaErrorInvalidValue);
  CUgraphNode_st node =
      NODE_OF(cudaGraphNodeTypeMemAlloc, What::ALLOCATION, Returns::AT_ONCE, cudaSuccess);
  if (cudaError_t error = allocate(&params->dptr, params->bytesize, Kind::DEVICE, CALLER, true))
    FINISHED(error);
  if (cudaError_t error = keep_for_graph(params->dptr))
    FINISHED(error);
  node.memory = params->dptr;
  node.work = [at = params->dptr, bytes = params->bytesize] { return unwrite(at, bytes); };
  FINISHED(add(out, graph, needs, count, std::move(node)));
}
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                    const cudaGraphNode_t* needs, size_t count, void* pointer) {
  auto found = allocation_of(reinterpret_cast<uint64_t>(pointer));
  if (found == process().allocations.end())
    FINISHED(cudaErrorInvalidValue);
  CUgraphNode_st node = NODE_OF(cudaGraphNodeTypeMemFree, What::FREE, Returns::AT_ONCE,
                                unwrite(pointer, bytes), bytes = found->second.bytes);
  node.memory = pointer;
  FINISHED(add(out, graph, needs, count, std::move(node)));
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                     size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i]->needs.push_back(from[i]);
  FINISHED(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* out, size_t* count) {
  if (!graph || !count)
    FINISHED(cudaErrorInvalidValue);
  size_t all = graph->nodes.size();
  for (size_t i = 0; out && i < std::min(*count, all); i++)
    out[i] = graph->nodes[i].get();
  *count = out ? std::min(*count, all) : all;
  FINISHED(cudaSuccess);
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* out, size_t* count) {
  if (!graph || !count)
    FINISHED(cudaErrorInvalidValue);
  size_t found = 0;
  for (auto& node : graph->nodes)
    if (node->needs.empty()) {
      if (out && found < *count)
        out[found] = node.get();
      found++;
    }
  *count = out ? std::min(*count, found) : found;
  FINISHED(cudaSuccess);
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* out) {
  if (!node || !out)
    FINISHED(cudaErrorInvalidValue);
  *out = node->type;
  FINISHED(cudaSuccess);
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* out) {
  if (!node || !out || node->type != cudaGraphNodeTypeKernel)
    FINISHED(cudaErrorInvalidValue);
  *out = node->kernel;
  FINISHED(cudaSuccess);
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  FINISHED(set_kernel(node, params, CALLER));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  FINISHED(instantiate(out, graph));
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph,
                                          unsigned long long) {
  FINISHED(instantiate(out, graph));
}
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* out, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* params) {
  cudaError_t error = instantiate(out, graph);
  if (params)
    params->result_out = error ? cudaGraphInstantiateError : cudaGraphInstantiateSuccess;
  FINISHED(error);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  FINISHED(exec ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (!exec)
    FINISHED(cudaErrorInvalidValue);
  FINISHED(enqueue(stream, node_of(cudaGraphNodeTypeGraph, {What::OTHER, callers_of(CALLER)},
                                   [=] { return run(exec); })));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  FINISHED(cudaSuccess);
}
// The new graph must have the nodes of the old one, in the same order and of the same types.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  if (!exec || !graph)
    FINISHED(cudaErrorInvalidValue);
  auto& old = exec->graph.nodes;
  bool same = old.size() == graph->nodes.size();
  for (size_t i = 0; same && i < old.size(); i++)
    same = old[i]->type == graph->nodes[i]->type &&
           old[i]->needs.size() == graph->nodes[i]->needs.size();
  if (info)
    *info = {same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged, nullptr,
             nullptr};
  if (!same)
    FINISHED(cudaErrorGraphExecUpdateFailure);
  for (size_t i = 0; i < old.size(); i++) {
    old[i]->work = graph->nodes[i]->work;
    old[i]->kernel = graph->nodes[i]->kernel;
    old[i]->child = graph->nodes[i]->child;
    old[i]->doing = graph->nodes[i]->doing;
    exec->copies[graph->nodes[i].get()] = old[i].get();
  }
  FINISHED(cudaSuccess);
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  FINISHED(exec ? set_kernel(copy_in(exec, node), params, CALLER) : cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* params) {
  CUgraphNode_st* found = exec && params ? copy_in(exec, node) : nullptr;
  if (found)
    found->work = [p = *params, caller = CALLER] { return copy_3d(p, caller); };
  FINISHED(found ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes,
                                               cudaMemcpyKind kind) {
  CUgraphNode_st* found = exec ? copy_in(exec, node) : nullptr;
  if (found)
    found->work = [=, caller = CALLER] { return copy(to, from, bytes, kind, caller); };
  FINISHED(found ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* params) {
  CUgraphNode_st* found = exec && params ? copy_in(exec, node) : nullptr;
  if (found)
    found->work = memset_of(*params);
  FINISHED(found ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* params) {
  CUgraphNode_st* found = exec && params && params->fn ? copy_in(exec, node) : nullptr;
  if (found)
    found->work = [p = *params] {
      host_runs(*operation());
      p.fn(p.userData);
      return cudaSuccess;
    };
  FINISHED(found ? cudaSuccess : cudaErrorInvalidValue);
}
// The memory of graphs is device memory like all other: none of it is set aside.
cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType, void* value) {
  if (!value || device)
    FINISHED(device ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
  *static_cast<uint64_t*>(value) = 0;
  FINISHED(cudaSuccess);
}
cudaError_t cudaDeviceGraphMemTrim(int device) {
  FINISHED(device ? cudaErrorInvalidDevice : cudaSuccess);
}
}
