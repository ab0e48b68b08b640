// Streams and events. Every call has done its work when it returns; what they order, and what they do
// not, is kept as clocks (order.hpp). Elapsed times are never numbers.

#include "graphs.hpp"

#include <algorithm>
#include <cmath>

namespace cudart {
namespace {

struct Handles {
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
};
Handles& handles() {
  static auto* all = new Handles;
  return *all;
}

bool is_event(cudaEvent_t event) {
  std::lock_guard held(process().lock);
  return handles().events.count(event);
}

// Of calls that wait for a stream or an event, or ask it: none may be made while it is captured.
cudaError_t of_stream(cudaStream_t stream) {
  if (!is_stream(stream))
    return cudaErrorInvalidResourceHandle;
  CUstream_st* one = stream_of(stream);
  if (one && one->capture) {
    one->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

cudaError_t of_event(cudaEvent_t event) {
  if (!is_event(event))
    return cudaErrorInvalidResourceHandle;
  return event->capture ? cudaErrorCapturedEvent : cudaSuccess;
}

cudaError_t host_waits_for_stream(cudaStream_t stream, bool as_work = false) {
  std::lock_guard held(process().lock);
  cudaError_t error = of_stream(stream);
  if (!error)
    host_waits_for(as_work ? moment_of(line_of(stream)) : complete_in(line_of(stream)));
  return error;
}

cudaError_t host_waits_for_event(cudaEvent_t event) {
  std::lock_guard held(process().lock);
  cudaError_t error = of_event(event);
  if (!error)
    host_waits_for(event->order);
  return error;
}

cudaError_t make_stream(cudaStream_t* out, unsigned flags, int priority, const void* caller) {
  if (!out || flags > cudaStreamNonBlocking)
    return cudaErrorInvalidValue;
  std::lock_guard held(process().lock);
  *out = new CUstream_st{flags, priority};
  (*out)->line.number = next_line();
  (*out)->line.made = callers_of(caller);
  (*out)->line.blocking = !(flags & cudaStreamNonBlocking);
  handles().streams.insert(*out);
  return cudaSuccess;
}

cudaError_t make_event(cudaEvent_t* out, unsigned flags) {
  if (!out || flags > 7)
    return cudaErrorInvalidValue;
  std::lock_guard held(process().lock);
  *out = new CUevent_st{flags};
  handles().events.insert(*out);
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
  if (!is_event(event) || !is_stream(stream))
    return cudaErrorInvalidResourceHandle;
  std::lock_guard held(process().lock);
  CUstream_st* one = stream_of(stream);
  event->capture = one ? one->capture : nullptr;
  event->recorded = !event->capture;
  event->last.clear();
  if (event->capture)
    event->last = one->last;
  else
    event->order = moment_of(line_of(stream));
  return cudaSuccess;
}

// A stream that waits for an event of a capture is captured with it from here on.
cudaError_t wait(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (!is_event(event) || !is_stream(stream))
    return cudaErrorInvalidResourceHandle;
  std::lock_guard held(process().lock);
  CUstream_st* one = stream_of(stream);
  if (!event->capture) {
    bool isolated = one && one->capture && event->recorded && !(flags & cudaEventWaitExternal);
    if (!isolated && event->recorded && !(one && one->capture))
      waits_for(line_of(stream), event->order);
    return isolated ? cudaErrorStreamCaptureIsolation : cudaSuccess;
  }
  if (!one)
    return cudaErrorStreamCaptureImplicit;
  if (one->capture && one->capture != event->capture)
    return cudaErrorStreamCaptureMerge;
  one->capture = event->capture;
  event->capture->streams.insert(one);
  for (cudaGraphNode_t node : event->last)
    if (std::find(one->last.begin(), one->last.end(), node) == one->last.end())
      one->last.push_back(node);
  return cudaSuccess;
}

cudaError_t elapsed(float* ms, cudaEvent_t first, cudaEvent_t last) {
  if (ms && is_event(first) && is_event(last) && (first->capture || last->capture))
    return cudaErrorCapturedEvent;
  if (!ms || !is_event(first) || !is_event(last))
    return ms ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
  *ms = NAN;
  host_waits_for(last->order);  // it is no success before
  bool timed = !((first->flags | last->flags) & cudaEventDisableTiming);
  return timed && first->recorded && last->recorded ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

}  // namespace

bool is_stream(cudaStream_t stream) {
  auto number = reinterpret_cast<uintptr_t>(stream);
  std::lock_guard held(process().lock);
  return number <= 2 || handles().streams.count(stream);  // 0: default, 1: legacy, 2: per thread
}

namespace {
thread_local int thread_default = 0;
}
ThreadDefault::ThreadDefault() { thread_default++; }
ThreadDefault::~ThreadDefault() { thread_default--; }

CUstream_st* stream_of(cudaStream_t stream) {
  static thread_local CUstream_st of_thread = [] {
    CUstream_st made;
    made.line.number = THREAD_STREAM;
    return made;
  }();
  auto number = reinterpret_cast<uintptr_t>(stream);
  return number == 2 || (!number && thread_default) ? &of_thread : number < 2 ? nullptr : stream;
}

Line& line_of(cudaStream_t stream) {
  CUstream_st* one = stream_of(stream);
  return one ? one->line : legacy_line();
}

void record_event(cudaEvent_t event, const Clock& clock) {
  if (!is_event(event))
    return;
  event->capture = nullptr;
  event->recorded = true;
  event->order = clock;
}

}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* out) { FINISHED(make_stream(out, 0, 0, CALLER)); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  FINISHED(make_stream(out, flags, 0, CALLER));
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  FINISHED(make_stream(out, flags, priority, CALLER));
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::lock_guard held(process().lock);
  if (!handles().streams.erase(stream))
    FINISHED(cudaErrorInvalidResourceHandle);
  forget_captures(stream);
  end_chain(stream->line.chain);
  delete stream;
  FINISHED(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  FINISHED(host_waits_for_stream(stream));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { FINISHED(host_waits_for_stream(stream)); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  FINISHED(wait(stream, event, flags));
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  CUstream_st* one = is_stream(stream) ? stream_of(stream) : nullptr;
  *flags = one ? one->flags : 0;
  FINISHED(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  CUstream_st* one = is_stream(stream) ? stream_of(stream) : nullptr;
  *priority = one ? one->priority : 0;
  FINISHED(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (!function)
    FINISHED(cudaErrorInvalidValue);
  FINISHED(enqueue(stream, NODE_OF(cudaGraphNodeTypeHost, What::HOST_FUNCTION, Returns::AT_ONCE,
                                   (host_runs(*operation()), function(data), cudaSuccess))));
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                                  unsigned) {
  if (!function)
    FINISHED(cudaErrorInvalidValue);
  if (cudaError_t error = host_waits_for_stream(stream, true))
    FINISHED(error);
  function(stream, process().sticky, data);
  FINISHED(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t* out) { FINISHED(make_event(out, 0)); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  FINISHED(make_event(out, flags));
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::lock_guard held(process().lock);
  if (!handles().events.erase(event))
    FINISHED(cudaErrorInvalidResourceHandle);
  delete event;
  FINISHED(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FINISHED(record(event, stream));
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  FINISHED(record(event, stream));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { FINISHED(host_waits_for_event(event)); }
cudaError_t cudaEventQuery(cudaEvent_t event) { FINISHED(host_waits_for_event(event)); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t first, cudaEvent_t last) {
  FINISHED(elapsed(ms, first, last));
}
cudaError_t cudaDeviceSynchronize() {
  std::lock_guard held(process().lock);
  if (cudaError_t error = unsafe_in_capture())
    FINISHED(error);
  host_waits_for_all();
  FINISHED(cudaSuccess);
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t, unsigned) {
  std::lock_guard held(process().lock);
  auto found = allocation_of(reinterpret_cast<uint64_t>(pointer));
  bool managed = found != process().allocations.end() && found->second.kind == Kind::MANAGED;
  FINISHED(managed ? of_stream(stream) : cudaErrorInvalidValue);
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* out) {
  if (!out)
    FINISHED(cudaErrorInvalidValue);
  *out = reinterpret_cast<uintptr_t>(stream);
  FINISHED(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  if (!device)
    FINISHED(cudaErrorInvalidValue);
  *device = 0;
  FINISHED(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
// Access policies, synchronisation policies and priorities order nothing here.
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID,
                                   const cudaStreamAttrValue*) {
  FINISHED(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
}
