// Steady load, then one CUDA-event sample per launch. The queue never runs empty: the host waits
// for the batch before the one it has just queued.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "failure.cuh"
#include "nvml.cuh"

namespace kernelrig {

class Event {
public:
  Event() { KERNELRIG_CUDA(cudaEventCreate(&event_)); }
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;
  ~Event() { cudaEventDestroy(event_); }
  void record(cudaStream_t stream) { KERNELRIG_CUDA(cudaEventRecord(event_, stream)); }
  void wait() { KERNELRIG_CUDA(cudaEventSynchronize(event_)); }
  float ms_since(const Event &begin) const {
    float ms = 0.0f;
    KERNELRIG_CUDA(cudaEventElapsedTime(&ms, begin.event_, event_));
    return ms;
  }

private:
  cudaEvent_t event_ = nullptr;
};

struct Timing {
  std::vector<float> samples_ms;
  std::vector<Clocks> during;
};

constexpr double BATCH_S = 0.05;       // work queued ahead: longer than a read of the clocks
constexpr int LARGEST_BATCH = 64;      // events and launches stay well inside the driver's queue
constexpr double CLOCKS_EVERY_S = 0.1; // NVML reads cost milliseconds of host time

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// work.launch(i) queues a launch on `stream`, on the inputs of set i % work.sets(); work.before(i)
// and work.after(i) queue what belongs to sample i and is not measured. Samples are counted from
// `first`: a sample has the inputs of its number, whatever came before it. warm(seconds) returns
// whether samples may begin after so many seconds of load; over() is called as soon as the last
// sample has ended.
template <class Work, class Warm, class Over>
Timing time_launches(const Work &work, cudaStream_t stream, Warm warm, int first, int samples,
                     const Nvml &nvml, Over over) {
  long long launched = 0;
  int batch = 1;
  Event fences[2];
  const auto begin = std::chrono::steady_clock::now();
  for (int queued = 0; queued < 2 || !warm(seconds_since(begin)); ++queued) {
    for (int i = 0; i < batch; ++i)
      work.launch(launched++);
    fences[queued % 2].record(stream);
    if (queued == 0)
      continue;
    fences[(queued + 1) % 2].wait(); // the batch before this one
    const double mean_s = seconds_since(begin) / std::max(1ll, launched - batch);
    batch = std::clamp(static_cast<int>(BATCH_S / mean_s), 1, LARGEST_BATCH);
  }

  for (; launched % work.sets() != first % work.sets(); ++launched)
    work.launch(launched); // so that no sample has the inputs of the launch before it

  std::vector<Event> starts(samples), stops(samples);
  Timing timing;
  auto clocks_read = std::chrono::steady_clock::now();
  for (int queued = 0; queued < samples;) {
    const int waited_for = queued - 1;
    for (const int end = std::min(samples, queued + batch); queued < end; ++queued) {
      work.before(first + queued);
      starts[queued].record(stream);
      work.launch(first + queued);
      stops[queued].record(stream);
      work.after(first + queued);
    }
    if (waited_for >= 0)
      stops[waited_for].wait();
    if (seconds_since(clocks_read) >= CLOCKS_EVERY_S) {
      timing.during.push_back(nvml.read());
      clocks_read = std::chrono::steady_clock::now();
    }
  }
  timing.during.push_back(nvml.read()); // the last batch still runs
  stops.back().wait();
  over();
  for (int i = 0; i < samples; ++i)
    timing.samples_ms.push_back(stops[i].ms_since(starts[i]));
  return timing;
}

// The middle sample, or the mean of the middle two.
inline double median(std::vector<float> samples) {
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2.0;
}

} // namespace kernelrig
