// Which timed launches are spot-checked, where, and on which inputs: drawn from the seed of the
// timed inputs, the same here and in Python (kernelrig.reference.spot_check). Compiles as plain C++
// too.
//
// Before a spot-checked launch some outputs are made wrong, and the rows of A that they depend on
// are replaced by new ones; after it these outputs are read. A kernel that skips a launch leaves
// them wrong, and one that returns what it computed earlier returns it for the rows of then. Before
// and after every other timed launch the same is done with the rows that it has, and nothing is
// kept: a kernel that could tell by the time since the launch before it would know when to compute.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "inputs.cuh"

namespace kernelrig {

constexpr int SPOT_CHECKS = 16;    // of a process, where it has as many samples
constexpr int SPOT_PLACES = 256;   // outputs of each
constexpr int SPOT_SEED_BITS = 48; // as the seeds that the client derives

// The number that is drawn from part `part` of `parts` nearly equal parts of [0, extent).
KERNELRIG_HD uint64_t drawn_from_part(uint64_t base, uint64_t counter, uint64_t part,
                                      uint64_t parts, uint64_t extent) {
  const uint64_t whole = extent / parts, rest = extent % parts;
  const uint64_t first = part * whole + (part < rest ? part : rest);
  return first + hash_at(base, counter) % (whole + (part < rest ? 1 : 0));
}

// In rising order. The last sample is not among them: every output of it is compared.
inline std::vector<int> spot_checked_samples(uint64_t seed, int samples) {
  const uint64_t base = hash_base("spot samples", seed), others = samples - 1;
  const uint64_t count = std::min<uint64_t>(SPOT_CHECKS, others);
  std::vector<int> drawn;
  for (uint64_t i = 0; i < count; ++i)
    drawn.push_back(static_cast<int>(drawn_from_part(base, i, i, count, others)));
  return drawn;
}

inline uint64_t spot_places_base(uint64_t seed) { return hash_base("spot places", seed); }

// The row-major index of output `i` of the `count` that are spoiled before a sample.
KERNELRIG_HD uint64_t spot_place(uint64_t base, int sample, uint64_t i, uint64_t count,
                                 uint64_t outputs) {
  return drawn_from_part(base, sample * uint64_t{SPOT_PLACES} + i, i, count, outputs);
}

// All of them, in rising order, spread over all outputs.
inline std::vector<unsigned long long> spot_places(uint64_t seed, int sample, uint64_t outputs) {
  const uint64_t base = spot_places_base(seed);
  const uint64_t count = std::min<uint64_t>(SPOT_PLACES, outputs);
  std::vector<unsigned long long> places;
  for (uint64_t i = 0; i < count; ++i)
    places.push_back(spot_place(base, sample, i, count, outputs));
  return places;
}

// The seed of the rows of A that a spot-checked launch has in place of those of its set.
inline uint64_t spot_seed(uint64_t seed, int sample) {
  return hash_at(hash_base("spot rows", seed), sample) >> (64 - SPOT_SEED_BITS);
}

} // namespace kernelrig
