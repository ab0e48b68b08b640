// One launch of an operation: the numbers of its case, its grid, and its parameters, which are
// checked against the kernel's signature and the declared tensors before anything runs.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "failure.cuh"
#include "launch.cuh"
#include "options.cuh"
#include "tensor.cuh"
#include "tensor_map_rules.cuh"

namespace kernelrig {

constexpr char WORKSPACE[] = "workspace"; // the buffer's name in a launch's parameters

// The named whole numbers of a case, as kernels.yaml has them.
class Case {
public:
  explicit Case(const std::vector<std::pair<std::string, long long>> &numbers)
      : numbers_(numbers) {}

  // Throws UsageError where the case has no such number.
  long long operator[](const std::string &name) const {
    for (const auto &[known, number] : numbers_) {
      if (known == name)
        return number;
    }
    std::string all;
    for (const auto &[known, number] : numbers_)
      all += (all.empty() ? "" : ", ") + known;
    throw UsageError{"the case has no number '" + name + "', which the kernel needs; it has " +
                     all};
  }

  long long get(const std::string &name, long long otherwise) const {
    for (const auto &[known, number] : numbers_) {
      if (known == name)
        return number;
    }
    return otherwise;
  }

private:
  const std::vector<std::pair<std::string, long long>> &numbers_;
};

struct Launch {
  Geometry geometry;
  LaunchArgs arguments;
  size_t workspace_bytes = 0; // of Argument::buffer("workspace")
};

// The tensor map of a whole row-major tensor, of which `box` elements are copied at once; extents
// fastest first, as CUDA has them. `dtype` is a tensor map's: u8 for FP8.
inline TensorMap whole_tensor_map(const std::string &buffer, const std::string &dtype,
                                  const std::vector<uint64_t> &extents,
                                  const std::vector<uint32_t> &box,
                                  const std::string &swizzle = "none") {
  TensorMap map;
  map.name = buffer + "_map";
  map.buffer = buffer;
  map.dtype = dtype;
  map.dims = extents;
  map.box = box;
  map.element_strides.assign(extents.size(), 1);
  map.swizzle = swizzle;
  const int number = number_of(TENSOR_MAP_TYPES, dtype);
  uint64_t stride = number < 0 ? 1 : TENSOR_MAP_TYPES[number].bytes;
  for (size_t i = 0; i + 1 < extents.size(); ++i)
    map.strides_bytes.push_back(stride *= extents[i]);
  return map;
}

inline size_t argument_bytes(const Argument &argument) {
  if (argument.kind == "buffer")
    return sizeof(void *);
  if (argument.kind == "tensor_map")
    return 128;
  return argument.kind == "i64" || argument.kind == "u64" || argument.kind == "f64" ? 8 : 4;
}

namespace operation_launch {

inline const TensorSpec *tensor_named(const Options &options, const std::string &name) {
  for (const std::vector<TensorSpec> *tensors : {&options.inputs, &options.outputs}) {
    for (const TensorSpec &tensor : *tensors) {
      if (tensor.name == name)
        return &tensor;
    }
  }
  return nullptr;
}

inline uint64_t bytes_of(const Options &options, const Launch &launch, const std::string &buffer) {
  const TensorSpec *tensor = tensor_named(options, buffer);
  if (tensor != nullptr)
    return tensor->bytes();
  return buffer == WORKSPACE ? launch.workspace_bytes : 0;
}

inline void require_buffer(const Options &options, const Launch &launch, const std::string &what,
                           const std::string &buffer) {
  if (bytes_of(options, launch, buffer) > 0)
    return;
  std::string known = launch.workspace_bytes > 0 ? std::string(", ") + WORKSPACE : "";
  for (const std::vector<TensorSpec> *tensors : {&options.inputs, &options.outputs}) {
    for (const TensorSpec &tensor : *tensors)
      known += ", " + tensor.name;
  }
  throw UsageError{what + " names the buffer '" + buffer + "'; declared are " + known.substr(2)};
}

inline void require_map(const Options &options, const Launch &launch, const TensorMap &map) {
  require_buffer(options, launch, "tensor map " + map.name, map.buffer);
  const std::string refusal = refusal_of(map, 0);
  if (!refusal.empty())
    throw UsageError{refusal};
  const int number = number_of(TENSOR_MAP_TYPES, map.dtype);
  uint64_t end = TENSOR_MAP_TYPES[number].bytes * map.dims[0];
  for (size_t i = 1; i < map.dims.size(); ++i)
    end += (map.dims[i] - 1) * map.strides_bytes[i - 1];
  const uint64_t held = bytes_of(options, launch, map.buffer);
  if (end > held) {
    throw UsageError{"tensor map " + map.name + " covers " + std::to_string(end) + " bytes, " +
                     map.buffer + " has " + std::to_string(held)};
  }
}

template <class... Parameter>
void require_parameters(void (*)(Parameter...), const LaunchArgs &arguments) {
  const size_t wanted[] = {sizeof(Parameter)..., 0};
  const size_t count = sizeof...(Parameter);
  if (arguments.args.size() != count) {
    throw UsageError{"the launch lists " + std::to_string(arguments.args.size()) +
                     " arguments, the kernel has " + std::to_string(count) + " parameters"};
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = argument_bytes(arguments.args[i]);
    if (bytes != wanted[i]) {
      throw UsageError{"argument " + std::to_string(i + 1) + " is a " + arguments.args[i].kind +
                       " of " + std::to_string(bytes) + " bytes, the kernel's parameter has " +
                       std::to_string(wanted[i])};
    }
  }
}

} // namespace operation_launch

// The launch of the case, once all that it names exists and fits. Throws UsageError.
template <class Operation> Launch checked_launch(const Options &options, int sm_count) {
  using namespace operation_launch;
  const Launch launch = Operation::launch(Case(options.numbers), sm_count);
  require_parameters(Operation::KERNEL, launch.arguments);
  for (const TensorMap &map : launch.arguments.tensor_maps)
    require_map(options, launch, map);
  size_t number = 0;
  for (const Argument &argument : launch.arguments.args) {
    const std::string what = "argument " + std::to_string(++number);
    if (argument.kind == "buffer")
      require_buffer(options, launch, what, argument.name);
    bool known = argument.kind != "tensor_map";
    for (const TensorMap &map : launch.arguments.tensor_maps)
      known = known || map.name == argument.name;
    if (!known)
      throw UsageError{what + " names the tensor map '" + argument.name + "', which is not listed"};
  }
  return launch;
}

} // namespace kernelrig
