// The outputs of timed launches: made wrong before a launch that is checked, read after it, outside
// of what its events measure. spot_check.cuh says which, where and why.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "buffers.cuh"
#include "failure.cuh"
#include "inputs.cuh"
#include "problem.cuh"
#include "result.cuh"
#include "spot_check.cuh"

namespace kernelrig {

constexpr int TIMED_THREADS = 256;

__device__ inline void fill_row(uint8_t *a, uint64_t row, uint64_t k, Pattern pattern,
                                uint64_t base) {
  for (uint64_t i = row * k + threadIdx.x; i < (row + 1) * k; i += blockDim.x)
    a[i] = operand_at(pattern, base, i);
}

// The complement of a right output differs from it by more than any tolerance, and is as plausible:
// a kernel cannot see that it is to compute. A CTA has a place; those of one row write the same.
__global__ void spoil_places(uint16_t *c, uint8_t *a, const unsigned long long *places, uint64_t n,
                             uint64_t k, Pattern pattern, uint64_t base) {
  const uint64_t place = places[blockIdx.x];
  if (threadIdx.x == 0)
    c[place] = ~c[place];
  fill_row(a, place / n, k, pattern, base);
}

__global__ void take_places(const uint16_t *c, uint8_t *a, const unsigned long long *places,
                            uint64_t n, uint64_t k, Pattern pattern, uint64_t base,
                            uint16_t *taken) {
  const uint64_t place = places[blockIdx.x];
  if (threadIdx.x == 0)
    taken[blockIdx.x] = c[place];
  fill_row(a, place / n, k, pattern, base);
}

__global__ void spoil_outputs(uint16_t *c, uint64_t outputs) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < outputs;
       i += stride) {
    c[i] = ~c[i];
  }
}

class TimedOutputs {
public:
  // Of all samples of the process; sample i has the inputs of `seed` + i % sets.
  TimedOutputs(const Problem &problem, Pattern pattern, uint64_t seed, int samples, int sets)
      : problem_(problem), pattern_(pattern), seed_(seed), last_(samples - 1), sets_(sets),
        outputs_(static_cast<uint64_t>(problem.m) * problem.n), places_(upload(seed, samples)),
        taken_(places_.bytes() / sizeof(unsigned long long) * sizeof(uint16_t)) {}

  void before(int sample, const ProblemMemory &memory, cudaStream_t stream) const {
    uint16_t *c = memory.c.as<uint16_t>();
    if (sample == last_)
      spoil_outputs<<<1024, TIMED_THREADS, 0, stream>>>(c, outputs_);
    else if (checks_.count(sample) != 0)
      spoil_places<<<count(), TIMED_THREADS, 0, stream>>>(c, memory.a.as<uint8_t>(), places(sample),
                                                          problem_.n, problem_.k, pattern_,
                                                          hash_base("A", spot_seed(seed_, sample)));
    KERNELRIG_CUDA(cudaGetLastError());
  }

  void after(int sample, const ProblemMemory &memory, cudaStream_t stream) const {
    if (checks_.count(sample) == 0)
      return;
    take_places<<<count(), TIMED_THREADS, 0, stream>>>(
        memory.c.as<uint16_t>(), memory.a.as<uint8_t>(), places(sample), problem_.n, problem_.k,
        pattern_, hash_base("A", seed_ + set_of(sample)), taken(sample));
    KERNELRIG_CUDA(cudaGetLastError());
  }

  int sets() const { return sets_; }
  int set_of(int sample) const { return sample % sets_; }

  // Once the stream has come to its end.
  std::vector<SpotCheck> read() const {
    std::vector<SpotCheck> found;
    for (const auto &[sample, number] : checks_) {
      SpotCheck check{sample, set_of(sample), std::vector<uint16_t>(count())};
      KERNELRIG_CUDA(cudaMemcpy(check.bits.data(), taken(sample), count() * sizeof(uint16_t),
                                cudaMemcpyDeviceToHost));
      found.push_back(check);
    }
    return found;
  }

private:
  DeviceMemory upload(uint64_t seed, int samples) {
    std::vector<unsigned long long> all;
    for (const int sample : spot_checked_samples(seed, samples)) {
      checks_.emplace(sample, static_cast<int>(checks_.size()));
      const std::vector<unsigned long long> places = spot_places(seed, sample, outputs_);
      all.insert(all.end(), places.begin(), places.end());
    }
    DeviceMemory memory(all.size() * sizeof all[0]);
    if (!all.empty()) {
      KERNELRIG_CUDA(
          cudaMemcpy(memory.as<void>(), all.data(), memory.bytes(), cudaMemcpyHostToDevice));
    }
    return memory;
  }

  int count() const { return static_cast<int>(std::min<uint64_t>(SPOT_PLACES, outputs_)); }
  size_t first(int sample) const { return static_cast<size_t>(checks_.at(sample)) * count(); }
  unsigned long long *places(int sample) const {
    return places_.as<unsigned long long>() + first(sample);
  }
  uint16_t *taken(int sample) const { return taken_.as<uint16_t>() + first(sample); }

  const Problem &problem_;
  const Pattern pattern_;
  const uint64_t seed_;
  const int last_, sets_;
  const uint64_t outputs_;
  std::map<int, int> checks_; // sample -> its number among the spot-checked ones
  DeviceMemory places_, taken_;
};

} // namespace kernelrig
