// Clocks, power, temperature and throttle reasons through NVML, loaded at run time: on a host
// without it, or with a partitioned GPU, these figures are missing and everything else works.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "json.cuh"

namespace kernelrig {

struct Clocks {
  bool known = false;
  unsigned sm_mhz = 0;
  unsigned memory_mhz = 0;
  double power_w = 0.0;
  double power_limit_w = 0.0;
  unsigned temperature_c = 0;
  unsigned long long throttle_reasons = 0;
};

inline void append_clocks(Json &json, const Clocks &clocks) {
  if (!clocks.known) {
    json.null();
    return;
  }
  char reasons[24];
  std::snprintf(reasons, sizeof reasons, "0x%016llx", clocks.throttle_reasons);
  json.open('{').field("sm_mhz", clocks.sm_mhz).field("memory_mhz", clocks.memory_mhz);
  json.field("power_w", clocks.power_w).field("power_limit_w", clocks.power_limit_w);
  json.field("temperature_c", clocks.temperature_c).field("throttle_reasons", reasons).close('}');
}

class Nvml {
public:
  // `uuid` as CUDA prints it, GPU-...: NVML and CUDA number devices differently.
  explicit Nvml(const std::string &uuid) {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr)
      return;
    const auto init = find<int (*)()>("nvmlInit_v2");
    const auto by_uuid = find<int (*)(const char *, void **)>("nvmlDeviceGetHandleByUUID");
    const auto driver = find<int (*)(char *, unsigned)>("nvmlSystemGetDriverVersion");
    if (init == nullptr || init() != 0)
      return;
    char text[96] = "";
    if (driver != nullptr && driver(text, sizeof text) == 0)
      driver_ = text;
    if (by_uuid == nullptr || by_uuid(uuid.c_str(), &device_) != 0)
      device_ = nullptr;
    clock_ = find<decltype(clock_)>("nvmlDeviceGetClockInfo");
    power_ = find<decltype(power_)>("nvmlDeviceGetPowerUsage");
    power_limit_ = find<decltype(power_limit_)>("nvmlDeviceGetEnforcedPowerLimit");
    temperature_ = find<decltype(temperature_)>("nvmlDeviceGetTemperature");
    reasons_ = find<decltype(reasons_)>("nvmlDeviceGetCurrentClocksThrottleReasons");
    if (reasons_ == nullptr) {
      reasons_ = find<decltype(reasons_)>("nvmlDeviceGetCurrentClocksEventReasons");
    }
  }

  // The library is never unloaded: its shutdown has hung with broken drivers.
  const std::string &driver() const { return driver_; }

  Clocks read() const {
    constexpr int SM = 1, MEMORY = 2, GPU_TEMPERATURE = 0; // NVML's own numbers
    Clocks clocks;
    if (device_ == nullptr || clock_ == nullptr)
      return clocks;
    clocks.known = clock_(device_, SM, &clocks.sm_mhz) == 0;
    clock_(device_, MEMORY, &clocks.memory_mhz);
    unsigned milliwatts = 0;
    if (power_ != nullptr && power_(device_, &milliwatts) == 0)
      clocks.power_w = milliwatts / 1e3;
    if (power_limit_ != nullptr && power_limit_(device_, &milliwatts) == 0) {
      clocks.power_limit_w = milliwatts / 1e3;
    }
    if (temperature_ != nullptr)
      temperature_(device_, GPU_TEMPERATURE, &clocks.temperature_c);
    if (reasons_ != nullptr)
      reasons_(device_, &clocks.throttle_reasons);
    return clocks;
  }

private:
  template <class Function> Function find(const char *name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  void *library_ = nullptr;
  void *device_ = nullptr;
  std::string driver_;
  int (*clock_)(void *, int, unsigned *) = nullptr;
  int (*power_)(void *, unsigned *) = nullptr;
  int (*power_limit_)(void *, unsigned *) = nullptr;
  int (*temperature_)(void *, int, unsigned *) = nullptr;
  int (*reasons_)(void *, unsigned long long *) = nullptr;
};

} // namespace kernelrig
