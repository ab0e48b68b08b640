// A tensor map for the device, encoded by the driver from the record that describe writes. The
// driver function is looked up through the runtime, so that describe runs without libcuda.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "failure.cuh"
#include "tensor_map_rules.cuh"

namespace kernelrig {

static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) >= 64,
              "passed by value it is a parameter of 128 bytes, aligned to 64 bytes");

namespace tensor_map_numbers {

template <class Entry, size_t COUNT>
constexpr bool is_at(const Entry (&table)[COUNT], size_t number, const char *name) {
  return std::string_view(name_of(table[number])) == name;
}

static_assert(is_at(TENSOR_MAP_TYPES, CU_TENSOR_MAP_DATA_TYPE_UINT8, "u8") &&
              is_at(TENSOR_MAP_TYPES, CU_TENSOR_MAP_DATA_TYPE_UINT16, "u16") &&
              is_at(TENSOR_MAP_TYPES, CU_TENSOR_MAP_DATA_TYPE_UINT32, "u32") &&
              is_at(TENSOR_MAP_TYPES, CU_TENSOR_MAP_DATA_TYPE_INT32, "i32") &&
              is_at(TENSOR_MAP_TYPES, CU_TENSOR_MAP_DATA_TYPE_UINT64, "u64") &&
              is_at(TENSOR_MAP_TYPES, CU_TENSOR_MAP_DATA_TYPE_INT64, "i64") &&
              is_at(TENSOR_MAP_TYPES, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, "f16") &&
              is_at(TENSOR_MAP_TYPES, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, "f32") &&
              is_at(TENSOR_MAP_TYPES, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, "f64") &&
              is_at(TENSOR_MAP_TYPES, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, "bf16"));
static_assert(is_at(INTERLEAVES, CU_TENSOR_MAP_INTERLEAVE_NONE, "none") &&
              is_at(INTERLEAVES, CU_TENSOR_MAP_INTERLEAVE_16B, "16B") &&
              is_at(INTERLEAVES, CU_TENSOR_MAP_INTERLEAVE_32B, "32B"));
static_assert(is_at(SWIZZLES, CU_TENSOR_MAP_SWIZZLE_NONE, "none") &&
              is_at(SWIZZLES, CU_TENSOR_MAP_SWIZZLE_32B, "32B") &&
              is_at(SWIZZLES, CU_TENSOR_MAP_SWIZZLE_64B, "64B") &&
              is_at(SWIZZLES, CU_TENSOR_MAP_SWIZZLE_128B, "128B") &&
              is_at(SWIZZLES, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B, "128B_ATOM_32B") &&
              is_at(SWIZZLES, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B,
                    "128B_ATOM_32B_FLIP_8B") &&
              is_at(SWIZZLES, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B, "128B_ATOM_64B"));
static_assert(is_at(L2_PROMOTIONS, CU_TENSOR_MAP_L2_PROMOTION_NONE, "none") &&
              is_at(L2_PROMOTIONS, CU_TENSOR_MAP_L2_PROMOTION_L2_64B, "64B") &&
              is_at(L2_PROMOTIONS, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, "128B") &&
              is_at(L2_PROMOTIONS, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, "256B"));
static_assert(is_at(OOB_FILLS, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, "zeros") &&
              is_at(OOB_FILLS, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA, "nan"));

} // namespace tensor_map_numbers

// The driver function `name` as of CUDA 12.0, which introduced tensor maps.
template <class Function> Function driver_function(const char *name) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSymbolNotFound;
  KERNELRIG_CUDA(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &answer));
  if (found == nullptr || answer != cudaDriverEntryPointSuccess) {
    throw Failure{EXIT_CUDA, "kernelrigNoDriverFunction", static_cast<int>(answer),
                  std::string("the driver has no ") + name, source_place(__FILE__, __LINE__)};
  }
  return reinterpret_cast<Function>(found);
}

inline std::string driver_error_name(CUresult status) {
  const char *name = nullptr;
  const auto name_of_status = driver_function<decltype(&cuGetErrorName)>("cuGetErrorName");
  if (name_of_status(status, &name) != CUDA_SUCCESS || name == nullptr)
    return "CUresult";
  return name;
}

// Throws Failure: with map and field where a rule is violated, with the CUresult where the driver
// rejects what the rules allow.
inline CUtensorMap encode(const TensorMap &map, const void *global_address) {
  const std::string refusal = refusal_of(map, reinterpret_cast<uintptr_t>(global_address));
  if (!refusal.empty()) {
    throw Failure{EXIT_CUDA, "kernelrigTensorMap", 0, refusal, source_place(__FILE__, __LINE__)};
  }
  const auto encode_tiled =
      driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  CUtensorMap encoded{};
  const CUresult status = encode_tiled(
      &encoded, static_cast<CUtensorMapDataType>(number_of(TENSOR_MAP_TYPES, map.dtype)),
      static_cast<cuuint32_t>(map.dims.size()), const_cast<void *>(global_address), map.dims.data(),
      map.strides_bytes.data(), map.box.data(), map.element_strides.data(),
      static_cast<CUtensorMapInterleave>(number_of(INTERLEAVES, map.interleave)),
      static_cast<CUtensorMapSwizzle>(number_of(SWIZZLES, map.swizzle)),
      static_cast<CUtensorMapL2promotion>(number_of(L2_PROMOTIONS, map.l2_promotion)),
      static_cast<CUtensorMapFloatOOBfill>(number_of(OOB_FILLS, map.oob_fill)));
  if (status != CUDA_SUCCESS) {
    throw Failure{EXIT_CUDA, driver_error_name(status), static_cast<int>(status),
                  "cuTensorMapEncodeTiled refuses the tensor map " + map.name,
                  source_place(__FILE__, __LINE__)};
  }
  return encoded;
}

} // namespace kernelrig
