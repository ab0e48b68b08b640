// Streams and events. Every call has done its work when it returns, so they order nothing; what can
// be wrong with them, a handle that is none, is still an error. Elapsed times are never numbers.

#include "runtime.hpp"

#include <cmath>
#include <set>

struct CUstream_st {
  unsigned flags;
  int priority;
};
struct CUevent_st {
  unsigned flags;
  bool recorded;
};

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

bool is_stream(cudaStream_t stream) {
  auto number = reinterpret_cast<uintptr_t>(stream);
  std::lock_guard held(process().lock);
  return number <= 2 || handles().streams.count(stream);  // 0: default, 1: legacy, 2: per thread
}

bool is_event(cudaEvent_t event) {
  std::lock_guard held(process().lock);
  return handles().events.count(event);
}

cudaError_t of_stream(cudaStream_t stream) {
  return is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t of_event(cudaEvent_t event) {
  return is_event(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t make_stream(cudaStream_t* out, unsigned flags, int priority) {
  if (!out || flags > cudaStreamNonBlocking)
    return cudaErrorInvalidValue;
  std::lock_guard held(process().lock);
  *out = new CUstream_st{flags, priority};
  handles().streams.insert(*out);
  return cudaSuccess;
}

cudaError_t make_event(cudaEvent_t* out, unsigned flags) {
  if (!out || flags > 7)
    return cudaErrorInvalidValue;
  std::lock_guard held(process().lock);
  *out = new CUevent_st{flags, false};
  handles().events.insert(*out);
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
  if (!is_event(event) || !is_stream(stream))
    return cudaErrorInvalidResourceHandle;
  event->recorded = true;
  return cudaSuccess;
}

cudaError_t elapsed(float* ms, cudaEvent_t first, cudaEvent_t last) {
  if (!ms || !is_event(first) || !is_event(last))
    return ms ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
  *ms = NAN;
  bool timed = !((first->flags | last->flags) & cudaEventDisableTiming);
  return timed && first->recorded && last->recorded ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

}  // namespace

void record_event(cudaEvent_t event) { record(event, nullptr); }

}  // namespace cudart

using namespace cudart;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* out) { FINISHED(make_stream(out, 0, 0)); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  FINISHED(make_stream(out, flags, 0));
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  FINISHED(make_stream(out, flags, priority));
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::lock_guard held(process().lock);
  if (!handles().streams.erase(stream))
    FINISHED(cudaErrorInvalidResourceHandle);
  delete stream;
  FINISHED(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { FINISHED(of_stream(stream)); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { FINISHED(of_stream(stream)); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  FINISHED(is_stream(stream) ? of_event(event) : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  *flags = reinterpret_cast<uintptr_t>(stream) > 2 && is_stream(stream) ? stream->flags : 0;
  FINISHED(of_stream(stream));
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = reinterpret_cast<uintptr_t>(stream) > 2 && is_stream(stream) ? stream->priority : 0;
  FINISHED(of_stream(stream));
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (!is_stream(stream) || !function)
    FINISHED(function ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
  function(data);
  FINISHED(cudaSuccess);
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                                  unsigned) {
  if (!is_stream(stream) || !function)
    FINISHED(function ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
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
cudaError_t cudaEventSynchronize(cudaEvent_t event) { FINISHED(of_event(event)); }
cudaError_t cudaEventQuery(cudaEvent_t event) { FINISHED(of_event(event)); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t first, cudaEvent_t last) {
  FINISHED(elapsed(ms, first, last));
}
cudaError_t cudaDeviceSynchronize() { FINISHED(cudaSuccess); }
}
