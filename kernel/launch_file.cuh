// Mode describe: writes the launch as files (launch.json, comb.npy) for the emulator, without a
// CUDA call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "buffers.cuh"
#include "failure.cuh"
#include "json.cuh"
#include "options.cuh"
#include "problem.cuh"
#include "tensor.cuh"

namespace kernelrig {

#define KERNELRIG_FIRST_OF(first, ...) first

// The number of SMs where no device is present: that of the arch this program was built for.
inline int sm_count_of_build() {
#ifdef __CUDA_ARCH_LIST__
  constexpr int arch = KERNELRIG_FIRST_OF(__CUDA_ARCH_LIST__, 0);
#else
  constexpr int arch = 0;
#endif
  return arch >= 1000 && arch < 1100 ? 148 : 132;
}

template <class T> void append_list(Json &json, const char *name, const std::vector<T> &values) {
  json.key(name).open('[');
  for (const T value : values)
    json.value(value);
  json.close(']');
}

inline void append_extent(Json &json, const char *name, const dim3 &extent) {
  append_list(json, name, std::vector<unsigned>{extent.x, extent.y, extent.z});
}

inline void append_buffer(Json &json, const char *name, const char *dtype,
                          std::vector<uint64_t> shape) {
  json.line().key(name).open('{').field("dtype", dtype);
  append_list(json, "shape", shape);
  json.key("fill").open('{');
}

inline void append_operand(Json &json, const char *name, const Options &options,
                           std::vector<uint64_t> shape) {
  append_buffer(json, name, "e4m3", std::move(shape));
  json.field("kind", pattern_name(options.pattern));
  if (options.pattern == Pattern::CONSTANT) {
    json.field("value", 1.5);
  } else {
    json.field("seed", options.seed).field("role", "operand");
  }
  json.close('}').close('}');
}

inline void append_tensor_map(Json &json, const TensorMap &map) {
  json.line().key(map.name.c_str()).open('{').field("buffer", map.buffer).field("dtype", map.dtype);
  append_list(json, "dims", map.dims);
  append_list(json, "strides_bytes", map.strides_bytes);
  append_list(json, "box", map.box);
  append_list(json, "element_strides", map.element_strides);
  json.field("interleave", map.interleave).field("swizzle", map.swizzle);
  json.field("l2_promotion", map.l2_promotion).field("oob_fill", map.oob_fill).close('}');
}

inline void append_layout(Json &json, const LaunchArgs &launch) {
  json.line().key("shared_layout").open('[');
  for (const SharedRegion &region : launch.shared_layout) {
    if (region.count == 0)
      continue;
    json.line().open('{').field("name", region.name).field("kind", region.kind);
    json.field("offset_bytes", region.offset_bytes).field("stride_bytes", region.stride_bytes);
    json.field("count", region.count);
    if (region.size_bytes != region.stride_bytes)
      json.field("size_bytes", region.size_bytes);
    json.close('}');
  }
  json.close(']').line().key("tensor_layout").open('[');
  for (const TensorRegion &region : launch.tensor_layout) {
    json.line().open('{').field("name", region.name).field("column", region.column);
    json.field("columns", region.columns).field("count", region.count).close('}');
  }
  json.close(']');
}

// A launch file up to its buffers.
inline void append_head(Json &json, const std::string &entry, const Geometry &geometry) {
  json.open('{').line().field("schema", 2).line().field("entry", entry);
  append_extent(json.line(), "grid", geometry.grid);
  append_extent(json, "block", geometry.block);
  append_extent(json, "cluster", geometry.cluster);
  json.line().field("dynamic_smem_bytes", geometry.dynamic_smem_bytes);
  json.line().key("buffers").open('{');
}

// What follows the buffers.
inline void append_rest(Json &json, const LaunchArgs &launch) {
  json.close('}').line().key("tensor_maps").open('{');
  for (const TensorMap &map : launch.tensor_maps)
    append_tensor_map(json, map);
  json.close('}').line().key("args").open('[');
  for (const Argument &argument : launch.args) {
    json.open('{');
    if (argument.kind == "f32") {
      json.field("f32", argument.real);
    } else if (argument.kind == "f64") {
      json.key("f64").exact(argument.real);
    } else if (argument.name.empty()) {
      json.field(argument.kind.c_str(), argument.number);
    } else {
      json.field(argument.kind.c_str(), argument.name);
    }
    json.close('}');
  }
  json.close(']');
  append_layout(json, launch);
}

inline std::string launch_text(const Options &options, const Problem &p, const std::string &entry,
                               const Geometry &geometry, const LaunchArgs &launch,
                               uint64_t workspace_bytes, const std::vector<uint64_t> &phase_shape) {
  const uint64_t m = p.m, n = p.n, k = p.k;
  Json json;
  append_head(json, entry, geometry);
  append_operand(json, "A", options, {m, k});
  append_operand(json, "B", options, {n, k});
  append_buffer(json, "comb", "bf16", combined_shape(p));
  json.field("kind", "file").field("path", "comb.npy").close('}').close('}');
  append_buffer(json, "C", "bf16", {m, n});
  json.field("kind", "undefined").close('}').close('}');
  if (workspace_bytes > 0) {
    append_buffer(json, "workspace", "u8", {workspace_bytes});
    json.field("kind", "undefined").close('}').close('}');
  }
  if (!phase_shape.empty()) {
    append_buffer(json, "phase_clocks", "u64", phase_shape);
    json.field("kind", "undefined").close('}').close('}');
  }
  append_rest(json, launch);
  return json.close('}').text() + "\n";
}

// An .npy of 16-bit words; BF16 is written as its raw bits.
inline std::string npy_of_words(const std::vector<uint16_t> &words,
                                const std::vector<uint64_t> &shape) {
  std::string file = npy_head("<u2", shape);
  for (const uint16_t word : words) {
    file += static_cast<char>(word & 0xFF);
    file += static_cast<char>(word >> 8);
  }
  return file;
}

inline void write_launch_file(const Options &options, const Problem &p, const std::string &launch) {
  const std::string npy =
      npy_of_words(combined_table(p, options.pattern, options.seed), combined_shape(p));
  // comb.npy first: once launch.json exists, the files that it names exist
  std::string error = write_whole(options.out + "/comb.npy", npy.data(), npy.size());
  if (error.empty())
    error = write_whole(options.out + "/launch.json", launch.data(), launch.size());
  if (!error.empty())
    throw UsageError{error};
}

} // namespace kernelrig
