// What streams do: at once, or kept as a node of a graph while the stream is being captured.
#pragma once

#include "order.hpp"

#include <functional>
#include <memory>
#include <set>
#include <thread>

using Work = std::function<cudaError_t()>;

struct CUgraphNode_st {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  Work work;
  std::vector<CUgraphNode_st*> needs;
  cudaKernelNodeParams kernel{};
  std::shared_ptr<CUgraph_st> child;
  void* memory = nullptr;  // that the node allocates or frees
  cudart::Doing doing{};
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

namespace cudart {

// A capture that goes on: what streams are asked for goes into `graph`.
struct Capture {
  cudaGraph_t graph;
  CUstream_st* origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  unsigned long long id;
  bool invalid = false;
  std::set<CUstream_st*> streams;
  size_t before = 0;      // nodes that the graph had when the capture began
  bool borrowed = false;  // the graph is the program's
};

}  // namespace cudart

struct CUstream_st {
  unsigned flags = 0;
  int priority = 0;
  cudart::Capture* capture = nullptr;
  std::vector<cudaGraphNode_t> last;  // of the capture: what the next node of this stream needs
  cudart::Line line{};
};

struct CUevent_st {
  unsigned flags = 0;
  bool recorded = false;
  cudart::Capture* capture = nullptr;
  std::vector<cudaGraphNode_t> last;
  cudart::Clock order{};  // what is complete when it is
};

namespace cudart {

bool is_stream(cudaStream_t stream);
// The stream's state; null for the default stream, which is never captured.
CUstream_st* stream_of(cudaStream_t stream);
Line& line_of(cudaStream_t stream);
// While there is one, the thread's default stream is its own (cudaStreamPerThread).
struct ThreadDefault {
  ThreadDefault();
  ~ThreadDefault();
};

// Does the work, or keeps it if `stream` is being captured.
cudaError_t enqueue(cudaStream_t stream, CUgraphNode_st node);
inline CUgraphNode_st node_of(cudaGraphNodeType type, const Doing& doing, Work work) {
  CUgraphNode_st node;
  node.type = type;
  node.doing = doing;
  node.work = std::move(work);
  return node;
}

// Nodes of work that the call at CALLER asks for, which returns as `returns` says; what follows the
// work is captured besides.
#define NODE_OF(type, what, returns, work, ...)                                                    \
  node_of(type, Doing{what, callers_of(CALLER), returns},                                          \
          [=, caller = CALLER __VA_OPT__(, ) __VA_ARGS__]() -> cudaError_t {                       \
            (void)caller;                                                                          \
            return work;                                                                           \
          })
#define COPY_NODE(returns, work, ...)                                                              \
  NODE_OF(cudaGraphNodeTypeMemcpy, What::COPY, returns, work, __VA_ARGS__)
#define FILL_NODE(returns, work, ...)                                                              \
  NODE_OF(cudaGraphNodeTypeMemset, What::FILL, returns, work, __VA_ARGS__)
#define COPIED(stream, ...) enqueue(stream, COPY_NODE(Returns::AT_ONCE, __VA_ARGS__))
#define COPIED_NOW(...) enqueue(nullptr, COPY_NODE(Returns::AFTER_COPY, __VA_ARGS__))
#define FILLED(stream, ...) enqueue(stream, FILL_NODE(Returns::AT_ONCE, __VA_ARGS__))
#define FILLED_NOW(...) enqueue(nullptr, FILL_NODE(Returns::AFTER_FILL, __VA_ARGS__))

void record_event(cudaEvent_t event, const Clock& clock);

// The error of a call that may not be made while some stream is captured, which ends that capture.
cudaError_t unsafe_in_capture();

void forget_captures(CUstream_st* stream);

bool is_pool(cudaMemPool_t pool);

}  // namespace cudart
