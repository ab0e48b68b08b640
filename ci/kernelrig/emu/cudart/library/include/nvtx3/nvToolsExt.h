/* NVTX for toolkits whose packages leave it out: its calls do nothing, as where no tool listens. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define NVTX_VERSION 3
#define NVTX_SUCCESS 0
#define NVTX_NO_PUSH_POP_TRACKING ((int)-2)
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))

typedef uint64_t nvtxRangeId_t;
typedef struct nvtxDomainRegistration_st* nvtxDomainHandle_t;
typedef struct nvtxStringRegistration_st* nvtxStringHandle_t;

enum { NVTX_COLOR_UNKNOWN = 0, NVTX_COLOR_ARGB = 1 };
enum {
  NVTX_MESSAGE_UNKNOWN = 0,
  NVTX_MESSAGE_TYPE_ASCII = 1,
  NVTX_MESSAGE_TYPE_UNICODE = 2,
  NVTX_MESSAGE_TYPE_REGISTERED = 3
};
enum {
  NVTX_PAYLOAD_UNKNOWN = 0,
  NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 = 1,
  NVTX_PAYLOAD_TYPE_INT64 = 2,
  NVTX_PAYLOAD_TYPE_DOUBLE = 3,
  NVTX_PAYLOAD_TYPE_UNSIGNED_INT32 = 4,
  NVTX_PAYLOAD_TYPE_INT32 = 5,
  NVTX_PAYLOAD_TYPE_FLOAT = 6
};

typedef union {
  const char* ascii;
  const wchar_t* unicode;
  nvtxStringHandle_t registered;
} nvtxMessageValue_t;

typedef struct nvtxEventAttributes_v2 {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved0;
  union {
    uint64_t ullValue;
    int64_t llValue;
    double dValue;
    uint32_t uiValue;
    int32_t iValue;
    float fValue;
  } payload;
  int32_t messageType;
  nvtxMessageValue_t message;
} nvtxEventAttributes_t;

#define NVTX_NOTHING(declared) static inline void declared {}
#define NVTX_ZERO(type, declared) \
  static inline type declared { return (type)0; }

NVTX_NOTHING(nvtxInitialize(const void* reserved))
NVTX_NOTHING(nvtxMarkEx(const nvtxEventAttributes_t* event))
NVTX_NOTHING(nvtxMarkA(const char* message))
NVTX_NOTHING(nvtxMarkW(const wchar_t* message))
NVTX_ZERO(nvtxRangeId_t, nvtxRangeStartEx(const nvtxEventAttributes_t* event))
NVTX_ZERO(nvtxRangeId_t, nvtxRangeStartA(const char* message))
NVTX_ZERO(nvtxRangeId_t, nvtxRangeStartW(const wchar_t* message))
NVTX_NOTHING(nvtxRangeEnd(nvtxRangeId_t range))
NVTX_ZERO(int, nvtxRangePushEx(const nvtxEventAttributes_t* event))
NVTX_ZERO(int, nvtxRangePushA(const char* message))
NVTX_ZERO(int, nvtxRangePushW(const wchar_t* message))
NVTX_ZERO(int, nvtxRangePop(void))
NVTX_NOTHING(nvtxNameCategoryA(uint32_t category, const char* name))
NVTX_NOTHING(nvtxNameOsThreadA(uint32_t thread, const char* name))
NVTX_ZERO(nvtxDomainHandle_t, nvtxDomainCreateA(const char* name))
NVTX_ZERO(nvtxDomainHandle_t, nvtxDomainCreateW(const wchar_t* name))
NVTX_NOTHING(nvtxDomainDestroy(nvtxDomainHandle_t domain))
NVTX_NOTHING(nvtxDomainMarkEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event))
NVTX_ZERO(nvtxRangeId_t,
          nvtxDomainRangeStartEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event))
NVTX_NOTHING(nvtxDomainRangeEnd(nvtxDomainHandle_t domain, nvtxRangeId_t range))
NVTX_ZERO(int,
          nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event))
NVTX_ZERO(int, nvtxDomainRangePop(nvtxDomainHandle_t domain))
NVTX_ZERO(nvtxStringHandle_t,
          nvtxDomainRegisterStringA(nvtxDomainHandle_t domain, const char* string))
NVTX_NOTHING(nvtxDomainNameCategoryA(nvtxDomainHandle_t domain, uint32_t category,
                                     const char* name))

#undef NVTX_NOTHING
#undef NVTX_ZERO

#ifdef UNICODE
#define nvtxMark nvtxMarkW
#define nvtxRangeStart nvtxRangeStartW
#define nvtxRangePush nvtxRangePushW
#else
#define nvtxMark nvtxMarkA
#define nvtxRangeStart nvtxRangeStartA
#define nvtxRangePush nvtxRangePushA
#endif
