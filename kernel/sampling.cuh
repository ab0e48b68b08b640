// Which outputs the result file carries bit by bit, so that Python can compute them again on its
// own.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "failure.cuh"
#include "inputs.cuh"
#include "problem.cuh"
#include "result.cuh"

namespace kernelrig {

constexpr int SAMPLED_ELEMENTS = 1024; // the least that are reported
constexpr int SAMPLED_TILE = 256;      // every 256 x 256 tile holds some of them
constexpr int SAMPLED_EDGE = 64;       // and so do the first and the last row and column

// Places in row order: at least SAMPLED_ELEMENTS, at least one a tile, SAMPLED_EDGE along each edge
// and the four corners. The same places for the same shape, whatever the seed.
inline std::vector<std::pair<int, int>> sampled_places(int m, int n) {
  std::set<std::pair<int, int>> places;
  uint64_t drawn = 0;
  const uint64_t base = hash_base("sampled", 0);
  const auto below = [&](int limit) {
    return static_cast<int>(hash_at(base, drawn++) >> 33) % limit;
  };
  const int tiles_down = (m + SAMPLED_TILE - 1) / SAMPLED_TILE;
  const int tiles_across = (n + SAMPLED_TILE - 1) / SAMPLED_TILE;
  const int per_tile = std::max(1, SAMPLED_ELEMENTS / (tiles_down * tiles_across));
  for (int row = 0; row < m; row += SAMPLED_TILE) {
    for (int column = 0; column < n; column += SAMPLED_TILE) {
      for (int i = 0; i < per_tile; ++i) {
        places.insert({row + below(std::min(SAMPLED_TILE, m - row)),
                       column + below(std::min(SAMPLED_TILE, n - column))});
      }
    }
  }
  for (int i = 0; i < SAMPLED_EDGE; ++i) {
    places.insert({0, below(n)});
    places.insert({m - 1, below(n)});
    places.insert({below(m), 0});
    places.insert({below(m), n - 1});
  }
  for (const int row : {0, m - 1}) {
    places.insert({row, 0});
    places.insert({row, n - 1});
  }
  const size_t wanted = std::min<size_t>(SAMPLED_ELEMENTS, static_cast<size_t>(m) * n);
  while (places.size() < wanted)
    places.insert({below(m), below(n)});
  return {places.begin(), places.end()};
}

constexpr size_t WHOLE_COPY_BYTES = size_t{64} << 20;

// Read the sampled places and the seed's checksum (the sum of the first 1024 outputs) by copies
// alone.
inline void read_outputs(const uint16_t *c, const Problem &p, Result &result) {
  const size_t elements = static_cast<size_t>(p.m) * p.n;
  std::vector<uint16_t> head(elements * sizeof(uint16_t) <= WHOLE_COPY_BYTES
                                 ? elements
                                 : std::min<size_t>(elements, 1024));
  KERNELRIG_CUDA(
      cudaMemcpy(head.data(), c, head.size() * sizeof(uint16_t), cudaMemcpyDeviceToHost));
  result.checksum = 0.0;
  for (size_t i = 0; i < std::min<size_t>(head.size(), 1024); ++i) {
    result.checksum += float_from_bf16(head[i]);
  }
  result.has_checksum = true;
  result.sampled.clear();
  for (const auto &[row, column] : sampled_places(p.m, p.n)) {
    const size_t index = static_cast<size_t>(row) * p.n + column;
    Sample sample{row, column, 0};
    if (index < head.size()) {
      sample.bits = head[index];
    } else {
      KERNELRIG_CUDA(
          cudaMemcpy(&sample.bits, c + index, sizeof sample.bits, cudaMemcpyDeviceToHost));
    }
    result.sampled.push_back(sample);
  }
}

} // namespace kernelrig
