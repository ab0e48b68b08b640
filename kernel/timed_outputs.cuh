// The outputs of timed launches: some made wrong before each launch, and read after it, outside of
// what its events measure. spot_check.cuh says which, where and why.
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

// The places of a sample, one of each CTA.
struct Places {
  uint64_t base;
  int sample;
  uint64_t outputs;

  __device__ uint64_t own() const {
    return spot_place(base, sample, blockIdx.x, gridDim.x, outputs);
  }
};

// The complement of a right output differs from it by more than any tolerance, and is as plausible:
// a kernel cannot see that it is to compute. CTAs of one row write the same.
__global__ void spoil_places(uint16_t *c, uint8_t *a, Places places, uint64_t n, uint64_t k,
                             Pattern pattern, uint64_t base) {
  const uint64_t place = places.own();
  if (threadIdx.x == 0)
    c[place] = ~c[place];
  fill_row(a, place / n, k, pattern, base);
}

__global__ void take_places(const uint16_t *c, uint8_t *a, Places places, uint64_t n, uint64_t k,
                            Pattern pattern, uint64_t base, uint16_t *taken) {
  const uint64_t place = places.own();
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
        outputs_(static_cast<uint64_t>(problem.m) * problem.n),
        checks_(numbered(spot_checked_samples(seed, samples))),
        taken_((checks_.size() + 1) * count() * sizeof(uint16_t)) {}

  void before(int sample, const ProblemMemory &memory, cudaStream_t stream) const {
    uint16_t *c = memory.c.as<uint16_t>();
    const uint64_t rows_of =
        checks_.count(sample) != 0 ? spot_seed(seed_, sample) : seed_ + set_of(sample);
    if (sample == last_)
      spoil_outputs<<<1024, TIMED_THREADS, 0, stream>>>(c, outputs_);
    else
      spoil_places<<<count(), TIMED_THREADS, 0, stream>>>(c, memory.a.as<uint8_t>(), places(sample),
                                                          problem_.n, problem_.k, pattern_,
                                                          hash_base("A", rows_of));
    KERNELRIG_CUDA(cudaGetLastError());
  }

  void after(int sample, const ProblemMemory &memory, cudaStream_t stream) const {
    if (sample == last_)
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
  static std::map<int, int> numbered(const std::vector<int> &samples) {
    std::map<int, int> numbers;
    for (const int sample : samples)
      numbers.emplace(sample, static_cast<int>(numbers.size()));
    return numbers;
  }

  int count() const { return static_cast<int>(std::min<uint64_t>(SPOT_PLACES, outputs_)); }
  Places places(int sample) const { return {spot_places_base(seed_), sample, outputs_}; }

  // The outputs of an unchecked sample go behind the others, and are not read.
  uint16_t *taken(int sample) const {
    const auto found = checks_.find(sample);
    const size_t number = found == checks_.end() ? checks_.size() : found->second;
    return taken_.as<uint16_t>() + number * count();
  }

  const Problem &problem_;
  const Pattern pattern_;
  const uint64_t seed_;
  const int last_, sets_;
  const uint64_t outputs_;
  const std::map<int, int> checks_; // sample -> its number among the spot-checked ones
  const DeviceMemory taken_;
};

} // namespace kernelrig
