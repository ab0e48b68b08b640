// A stand-in for CUPTI: the activity records of the launches that a stand-in program makes.
#include <cupti.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {
CUpti_BuffersCallbackRequestFunc request;
CUpti_BuffersCallbackCompleteFunc complete;
CUpti_CallbackFunc on_call;
std::vector<CUpti_ActivityKernel10> held;
std::vector<std::string *> names;

bool refuses(const char *call) {
  const char *named = std::getenv("STAND_IN_REFUSES");
  return named && std::strcmp(named, call) == 0;
}
} // namespace

extern "C" {
// What the program calls in place of a launch.
void stand_in_launch(const char *name, uint64_t start, uint64_t end) {
  CUpti_ActivityKernel10 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.start = start;
  record.end = end;
  names.push_back(new std::string(name));
  record.name = names.back()->c_str();
  held.push_back(record);
}

// cudaDeviceReset: what is not flushed before it is lost.
void stand_in_reset() {
  CUpti_CallbackData data{};
  data.callbackSite = CUPTI_API_ENTER;
  if (on_call)
    on_call(nullptr, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020,
            &data);
  held.clear();
}

CUptiResult cuptiGetVersion(uint32_t *version) {
  *version = 130001;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc a,
                                           CUpti_BuffersCallbackCompleteFunc b) {
  request = a;
  complete = b;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind) {
  return refuses("cuptiActivityEnable") ? CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                                        : CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  for (size_t at = 0; at < held.size();) {
    uint8_t *buffer = nullptr;
    size_t size = 0, most = 0;
    request(&buffer, &size, &most);
    const size_t fit = size / sizeof held[0];
    const size_t count = held.size() - at < fit ? held.size() - at : fit;
    std::memcpy(buffer, &held[at], count * sizeof held[0]);
    complete(nullptr, 0, buffer, size, count * sizeof held[0]);
    at += count;
  }
  held.clear();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
  auto next = *record ? reinterpret_cast<uint8_t *>(*record) + sizeof held[0] : buffer;
  if (next >= buffer + valid)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity *>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *dropped) {
  *dropped = refuses("a record") ? 1 : 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char **text) {
  *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *, CUpti_CallbackFunc callback, void *) {
  on_call = callback;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain,
                                CUpti_CallbackId) {
  return CUPTI_SUCCESS;
}
}
