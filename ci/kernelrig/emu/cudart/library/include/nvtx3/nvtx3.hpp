// NVTX's C++ classes for toolkits whose packages leave them out: nothing is recorded.
#pragma once

#include "nvToolsExt.h"

#define NVTX3_CPP_DEFINITIONS_V1_0  // what CUB asks for, which takes its classes from nvtx3::v1

namespace nvtx3 {
inline namespace v1 {
struct domain {
  struct global {};
};
struct rgb {
  constexpr rgb(uint8_t, uint8_t, uint8_t) {}
};
struct argb {
  constexpr argb(uint8_t, uint8_t, uint8_t, uint8_t) {}
};
struct color {
  template <class... Any> constexpr color(const Any&...) {}
};
struct category {
  constexpr explicit category(uint32_t) {}
};
template <class Domain> struct named_category_in {
  template <class... Any> explicit named_category_in(const Any&...) {}
  template <class Name> static const named_category_in& get() {
    static const named_category_in one(0);
    return one;
  }
};
using named_category = named_category_in<domain::global>;
template <class Domain> struct registered_string_in {
  template <class... Any> explicit registered_string_in(const Any&...) {}
  template <class Message> static const registered_string_in& get() {
    static const registered_string_in one("");
    return one;
  }
};
using registered_string = registered_string_in<domain::global>;
struct message {
  template <class Any> constexpr message(const Any&) {}
};
struct payload {
  template <class Any> constexpr explicit payload(Any) {}
};
struct event_attributes {
  template <class... Any> constexpr event_attributes(const Any&...) {}
};
struct range_handle {};
template <class Domain> struct scoped_range_in {
  template <class... Any> explicit scoped_range_in(const Any&...) {}
  ~scoped_range_in() {}
  scoped_range_in(const scoped_range_in&) = delete;
  scoped_range_in& operator=(const scoped_range_in&) = delete;
};
using scoped_range = scoped_range_in<domain::global>;
using thread_range = scoped_range;
template <class Domain> struct unique_range_in {
  template <class... Any> explicit unique_range_in(const Any&...) {}
  ~unique_range_in() {}
};
using unique_range = unique_range_in<domain::global>;
template <class Domain = domain::global, class... Any> void mark_in(const Any&...) {}
template <class... Any> void mark(const Any&...) {}
template <class Domain = domain::global, class... Any> range_handle start_range_in(const Any&...) {
  return {};
}
template <class... Any> range_handle start_range(const Any&...) { return {}; }
template <class Domain = domain::global> void end_range_in(range_handle) {}
inline void end_range(range_handle) {}
}  // namespace v1
}  // namespace nvtx3

#define NVTX3_FUNC_RANGE() ::nvtx3::scoped_range nvtx3_range__(__func__)
#define NVTX3_FUNC_RANGE_IN(D) ::nvtx3::scoped_range_in<D> nvtx3_range__(__func__)
#define NVTX3_FUNC_RANGE_IF(condition) NVTX3_FUNC_RANGE()
#define NVTX3_FUNC_RANGE_IF_IN(D, condition) NVTX3_FUNC_RANGE_IN(D)
