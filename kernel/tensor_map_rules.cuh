// A tensor map as a record of names and numbers, and the rules that cuTensorMapEncodeTiled has for
// it (cuda.h, CUDA 13.0). The driver returns the same code for every violation and names no field;
// here each has a sentence. Plain C++, as describe works without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kernelrig {

// The arguments of cuTensorMapEncodeTiled; describe and encode() read the same record. dims and box
// fastest first; strides_bytes without the fastest.
struct TensorMap {
  std::string name;
  std::string buffer;
  std::string dtype;
  std::vector<uint64_t> dims;
  std::vector<uint64_t> strides_bytes;
  std::vector<uint32_t> box;
  std::vector<uint32_t> element_strides;
  std::string interleave = "none";
  std::string swizzle = "none";
  std::string l2_promotion = "none";
  std::string oob_fill = "zeros";
};

struct TensorMapType {
  const char *name;
  unsigned bytes;
  bool is_float;
};

// The index of a name in its table is its number in cuda.h, as tensor_map.cuh asserts.
inline constexpr TensorMapType TENSOR_MAP_TYPES[] = {
    {"u8", 1, false},  {"u16", 2, false}, {"u32", 4, false}, {"i32", 4, false}, {"u64", 8, false},
    {"i64", 8, false}, {"f16", 2, true},  {"f32", 4, true},  {"f64", 8, true},  {"bf16", 2, true}};
inline constexpr const char *INTERLEAVES[] = {"none", "16B", "32B"};
inline constexpr const char *SWIZZLES[] = {
    "none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"};
inline constexpr const char *L2_PROMOTIONS[] = {"none", "64B", "128B", "256B"};
inline constexpr const char *OOB_FILLS[] = {"zeros", "nan"};

constexpr unsigned SWIZZLE_SPANS[] = {0, 32, 64, 128, 128, 128, 128}; // bytes, in the order of SWIZZLES

constexpr const char *name_of(const char *entry) { return entry; }
constexpr const char *name_of(const TensorMapType &entry) { return entry.name; }

// The number of `name` in its table, -1 where it is not there.
template <class Entry, size_t COUNT>
int number_of(const Entry (&table)[COUNT], const std::string &name) {
  for (size_t i = 0; i < COUNT; ++i) {
    if (name == name_of(table[i]))
      return static_cast<int>(i);
  }
  return -1;
}

namespace tensor_map_rules {

template <class Entry, size_t COUNT>
std::string refuse_name(const char *field, const Entry (&table)[COUNT], const std::string &name) {
  if (number_of(table, name) >= 0)
    return "";
  std::string known;
  for (const Entry &entry : table)
    known += std::string(known.empty() ? "" : ", ") + name_of(entry);
  return std::string(field) + " is '" + name + "': expected one of " + known;
}

inline std::string refuse_count(const char *field, size_t count, size_t wanted) {
  if (count == wanted)
    return "";
  return std::string(field) + " has " + std::to_string(count) + " entries: the rank of dims asks " +
         "for " + std::to_string(wanted);
}

inline std::string entry_of(const char *field, size_t i, uint64_t value) {
  return std::string(field) + "[" + std::to_string(i) + "] is " + std::to_string(value);
}

template <class Number>
std::string refuse_range(const char *field, const std::vector<Number> &values, uint64_t high) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 1 || values[i] > high)
      return entry_of(field, i, values[i]) + ": 1 to " + std::to_string(high) + " is allowed";
  }
  return "";
}

inline std::string refuse_strides(const TensorMap &map) {
  const uint64_t unit = map.interleave == "32B" ? 32 : 16;
  for (size_t i = 0; i < map.strides_bytes.size(); ++i) {
    const uint64_t stride = map.strides_bytes[i];
    if (stride % unit != 0 || stride >= uint64_t{1} << 40) {
      return entry_of("strides_bytes", i, stride) + ": expected a multiple of " +
             std::to_string(unit) + " below 2^40";
    }
  }
  return "";
}

inline std::string refuse_box_row(const TensorMap &map) {
  const unsigned row = map.box[0] * TENSOR_MAP_TYPES[number_of(TENSOR_MAP_TYPES, map.dtype)].bytes;
  const unsigned span = SWIZZLE_SPANS[number_of(SWIZZLES, map.swizzle)];
  const std::string found = "box[0] is " + std::to_string(map.box[0]) + " of " + map.dtype + ", " +
                            std::to_string(row) + " bytes: ";
  if (row % 16 != 0)
    return found + "expected a multiple of 16 bytes";
  if (map.interleave == "none" && span != 0 && row > span)
    return found + "at most " + std::to_string(span) + " fit the swizzle";
  return "";
}

inline std::string refuse_together(const TensorMap &map, uint64_t address) {
  const uint64_t alignment = map.interleave == "32B" ? 32 : 16;
  if (map.interleave != "none" && map.dims.size() < 3) {
    return "interleave is " + map.interleave + " with " + std::to_string(map.dims.size()) +
           " dims: expected at least 3";
  }
  if (map.interleave == "32B" && map.swizzle != "32B")
    return "swizzle is " + map.swizzle + ": interleave 32B goes with swizzle 32B alone";
  if (address % alignment != 0) {
    return "the address of " + map.buffer + " is " + std::to_string(address % alignment) +
           " past a multiple of " + std::to_string(alignment) + " bytes: expected a multiple";
  }
  if (map.oob_fill == "nan" && !TENSOR_MAP_TYPES[number_of(TENSOR_MAP_TYPES, map.dtype)].is_float)
    return "oob_fill is nan: " + map.dtype + " has none, expected zeros";
  return "";
}

inline std::string first_refusal(const TensorMap &map, uint64_t address) {
  const size_t rank = map.dims.size();
  if (rank < 1 || rank > 5)
    return "dims has " + std::to_string(rank) + " entries: 1 to 5 are allowed";
  // the later rules need known names and as many entries as these check
  for (const std::string &refusal :
       {refuse_name("dtype", TENSOR_MAP_TYPES, map.dtype),
        refuse_name("interleave", INTERLEAVES, map.interleave),
        refuse_name("swizzle", SWIZZLES, map.swizzle),
        refuse_name("l2_promotion", L2_PROMOTIONS, map.l2_promotion),
        refuse_name("oob_fill", OOB_FILLS, map.oob_fill),
        refuse_count("strides_bytes", map.strides_bytes.size(), rank - 1),
        refuse_count("box", map.box.size(), rank),
        refuse_count("element_strides", map.element_strides.size(), rank)}) {
    if (!refusal.empty())
      return refusal;
  }
  for (const std::string &refusal :
       {refuse_range("dims", map.dims, uint64_t{1} << 32), refuse_strides(map),
        refuse_range("box", map.box, 256),
        // TMA ignores the element stride of the fastest dimension unless interleaved; the driver
        // of an H100 (580.159.04) looks at it all the same
        refuse_range("element_strides", map.element_strides, 8), refuse_box_row(map),
        refuse_together(map, address)}) {
    if (!refusal.empty())
      return refusal;
  }
  return "";
}

} // namespace tensor_map_rules

// Why the driver would reject `map` for a buffer at `address`: one sentence with map and field, or
// an empty string.
inline std::string refusal_of(const TensorMap &map, uint64_t address) {
  const std::string refusal = tensor_map_rules::first_refusal(map, address);
  return refusal.empty() ? "" : "tensor map " + map.name + ": " + refusal;
}

} // namespace kernelrig
