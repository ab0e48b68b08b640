// The properties of a device, from the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <string>

#include "failure.cuh"
#include "json.cuh"

namespace kernelrig {

struct DeviceFacts {
  bool known = false;
  std::string name, uuid, compute_capability, driver;
  int driver_cuda = 0, runtime_cuda = 0;
  int sm_count = 0, l2_bytes = 0, memory_bus_width_bits = 0;
  int memory_clock_khz = 0, max_sm_clock_khz = 0;
};

inline DeviceFacts device_facts(int device) {
  cudaDeviceProp properties{};
  KERNELRIG_CUDA(cudaGetDeviceProperties(&properties, device));
  DeviceFacts facts;
  facts.known = true;
  facts.name = properties.name;
  const auto *id = reinterpret_cast<const unsigned char *>(properties.uuid.bytes);
  char uuid[48];
  std::snprintf(uuid, sizeof uuid,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0],
                id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11],
                id[12], id[13], id[14], id[15]);
  facts.uuid = uuid;
  facts.compute_capability =
      std::to_string(properties.major) + "." + std::to_string(properties.minor);
  facts.sm_count = properties.multiProcessorCount;
  facts.l2_bytes = properties.l2CacheSize;
  facts.memory_bus_width_bits = properties.memoryBusWidth;
  KERNELRIG_CUDA(cudaDriverGetVersion(&facts.driver_cuda));
  KERNELRIG_CUDA(cudaRuntimeGetVersion(&facts.runtime_cuda));
  KERNELRIG_CUDA(
      cudaDeviceGetAttribute(&facts.memory_clock_khz, cudaDevAttrMemoryClockRate, device));
  KERNELRIG_CUDA(cudaDeviceGetAttribute(&facts.max_sm_clock_khz, cudaDevAttrClockRate, device));
  return facts;
}

inline void append_device(Json &json, const DeviceFacts &device) {
  json.key("device");
  if (!device.known) {
    json.null();
    return;
  }
  json.open('{').field("name", device.name).field("uuid", device.uuid);
  json.field("compute_capability", device.compute_capability).field("driver", device.driver);
  json.field("driver_cuda", device.driver_cuda).field("runtime_cuda", device.runtime_cuda);
  json.field("sm_count", device.sm_count).field("l2_bytes", device.l2_bytes);
  json.field("memory_bus_width_bits", device.memory_bus_width_bits);
  json.field("memory_clock_khz", device.memory_clock_khz);
  json.field("max_sm_clock_khz", device.max_sm_clock_khz).close('}');
}

} // namespace kernelrig
