// Which outputs the result file has bit by bit, so that Python can compute them independently.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "buffers.cuh"
#include "failure.cuh"
#include "inputs.cuh"
#include "problem.cuh"
#include "result.cuh"

namespace kernelrig {

constexpr int SAMPLED_ELEMENTS = 1024; // at least this many are reported
constexpr int SAMPLED_TILE = 256;      // every 256 x 256 tile has some of them
constexpr int SAMPLED_EDGE = 64;       // of the first and the last row and column each

// Places in row order: at least SAMPLED_ELEMENTS, at least one per tile, SAMPLED_EDGE along each
// edge and the four corners. They depend on the shape only.
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

__global__ void gather_outputs(const uint16_t *c, const unsigned long long *places, uint16_t *out,
                               int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    out[i] = c[places[i]];
}

// One launch and one copy: ten thousand copies of two bytes take 0.1 s, and much longer where
// processes share the GPU.
inline std::vector<uint16_t> gathered(const uint16_t *c, const std::vector<size_t> &indices) {
  const std::vector<unsigned long long> places(indices.begin(), indices.end());
  std::vector<uint16_t> bits(places.size());
  const int count = static_cast<int>(places.size());
  const DeviceMemory from(places.size() * sizeof places[0]), to(bits.size() * sizeof bits[0]);
  KERNELRIG_CUDA(cudaMemcpy(from.as<void>(), places.data(), from.bytes(), cudaMemcpyHostToDevice));
  gather_outputs<<<(count + 255) / 256, 256>>>(c, from.as<unsigned long long>(), to.as<uint16_t>(),
                                               count);
  KERNELRIG_CUDA(cudaGetLastError());
  KERNELRIG_CUDA(cudaMemcpy(bits.data(), to.as<void>(), to.bytes(), cudaMemcpyDeviceToHost));
  return bits;
}

inline std::vector<uint16_t> copied(const uint16_t *c, const std::vector<size_t> &indices) {
  std::vector<uint16_t> bits;
  for (const size_t index : indices) {
    bits.emplace_back();
    KERNELRIG_CUDA(cudaMemcpy(&bits.back(), c + index, sizeof bits.back(), cudaMemcpyDeviceToHost));
  }
  return bits;
}

// Read the sampled places and the checksum (the sum of the first 1024 outputs); by copies only
// where no kernel but the one under test may run.
inline void read_outputs(const uint16_t *c, const Problem &p, bool copies_alone, Result &result) {
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
  std::vector<size_t> indices; // beyond the head
  for (const auto &[row, column] : sampled_places(p.m, p.n)) {
    const size_t index = static_cast<size_t>(row) * p.n + column;
    result.sampled.push_back({row, column, index < head.size() ? head[index] : uint16_t{0}});
    if (index >= head.size())
      indices.push_back(index);
  }
  if (indices.empty())
    return;
  const std::vector<uint16_t> bits = copies_alone ? copied(c, indices) : gathered(c, indices);
  // the places of the head are first: in row order all others follow
  const size_t first = result.sampled.size() - indices.size();
  for (size_t i = 0; i < bits.size(); ++i)
    result.sampled[first + i].bits = bits[i];
}

} // namespace kernelrig
