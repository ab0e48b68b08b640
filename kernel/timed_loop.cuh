// How the samples of mode time come about, for every harness program: alone after a load, or in the
// measurement slots of a relay.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <string>

#include "failure.cuh"
#include "nvml.cuh"
#include "options.cuh"
#include "relay.cuh"
#include "result.cuh"
#include "timing.cuh"
#include "watchdog.cuh"

namespace kernelrig {

// The number of samples of this process.
inline int timed_samples(const Options &options) {
  return options.samples *
         (options.relay.empty() ? 1 : static_cast<int>(options.slots.size()));
}

inline std::string regime_of(const Options &options) {
  char regime[64];
  std::snprintf(regime, sizeof regime,
                options.relay.empty() ? "steady after %.1f s"
                                      : "steady after %g s of each slot of a relay",
                options.warmup_s);
  return regime;
}

class TimedLoop {
public:
  TimedLoop(const Options &options, Result &result, Watchdog &watchdog, const Nvml &nvml,
            cudaStream_t stream)
      : options_(options), result_(result), watchdog_(watchdog), nvml_(nvml), stream_(stream) {}

  // Leaves the samples, the regime and the clocks of the load in the result. `work` is that of
  // timing.cuh.
  template <class Work> void run(const Work &work) {
    result_.regime = regime_of(options_);
    result_.sets = work.sets();
    options_.relay.empty() ? time_once(work) : time_in_relay(work);
    result_.after = nvml_.read();
  }

private:
  void doing(const std::string &what) { watchdog_.doing(what, result_); }

  template <class Work> void time_once(const Work &work) {
    doing("timing");
    const auto warm = [&](double seconds) { return seconds >= options_.warmup_s; };
    add(time_launches(work, stream_, warm, 0, options_.samples, nvml_, [] {}));
  }

  // The result has the samples of this process's slots in order, equally many of each. Returns when
  // the last slot of all processes is over, so that the verification does not disturb others. The
  // process of slot 0 puts load on the GPU while the others start: a power limiter takes seconds of
  // load to settle.
  template <class Work> void time_in_relay(const Work &work) {
    const Relay relay(options_.relay, options_.slots);
    work.launch(0); // loads the module; a launch error shows before the first slot
    KERNELRIG_CUDA(cudaStreamSynchronize(stream_));
    relay.ready();
    for (const int slot : options_.slots) {
      doing("waiting for slot " + std::to_string(slot));
      const bool leads = slot == 0;
      if (!leads)
        relay.wait_for(slot);
      doing("timing in slot " + std::to_string(slot));
      const double warmup_s = options_.warmup_s + (leads ? options_.settle_s : 0.0);
      const auto warm = [&](double seconds) {
        return seconds >= warmup_s && (!leads || relay.all_ready());
      };
      const int first = static_cast<int>(result_.samples_ms.size());
      add(time_launches(work, stream_, warm, first, options_.samples, nvml_,
                        [&] { relay.over(slot); }));
    }
    doing("waiting for the relay's end");
    relay.wait_for_all();
  }

  void add(const Timing &timing) {
    result_.samples_ms.insert(result_.samples_ms.end(), timing.samples_ms.begin(),
                              timing.samples_ms.end());
    result_.during.insert(result_.during.end(), timing.during.begin(), timing.during.end());
  }

  const Options &options_;
  Result &result_;
  Watchdog &watchdog_;
  const Nvml &nvml_;
  cudaStream_t stream_;
};

} // namespace kernelrig
