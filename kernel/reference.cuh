// The device reference: computes every output again on plain CUDA cores and compares it with the
// kernel's. It uses no code of any kernel: own indexing and decoding, and operands from the hash
// instead of the input buffers, so that a kernel that overwrites its inputs is still found wrong.
//
// An output of the random pattern is right within slack + 1 BF16 ulp of max(|acc|, |comb|, |C|),
// slack = accum_tol * sum |a b|; or if the two roundings of some accumulator within the slack give
// it. The second rule is for an acc on a BF16 tie whose sum with comb is a tie too: seen once in
// 7e8 outputs, two ulp apart and both right. The other patterns are compared bit for bit. (A
// baseline may round elsewhere; its ulp is then of what it rounds: function.cuh.)
//
// Wrong elements are also counted by tile of C, so that a report can show where they are.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "failure.cuh"
#include "function.cuh"
#include "inputs.cuh"
#include "problem.cuh"
#include "result.cuh"
#include "spot_check.cuh"

namespace kernelrig {

struct ReferenceProblem {
  int m, n, k, rows_per_image;
  Function function;
  Pattern pattern;
  InputBases bases;
  float accum_tol;
};

struct Wanted {
  double acc;
  double abs_sum;
  uint16_t bits;
};

// Of C by row of tiles; a tile has `rows` x `columns` elements, the last of a row or column less.
struct WrongTiles {
  int rows, columns;
  unsigned long long *counts; // device memory
};

struct Tally {
  unsigned long long mismatches, nan_count, beyond_exact, first_mismatch;
  unsigned max_abs_bits, max_rel_bits; // of non-negative floats, which order as their bits do
};

constexpr float LARGEST_EXACT = 256.0f; // whole numbers up to here are exact in BF16

KERNELRIG_HD float bf16_ulp(float magnitude) {
  uint32_t exponent = float_bits(magnitude) >> 23;
  if (exponent < 1)
    exponent = 1;
  // 2^(exponent - 7); below 2^-119 that is no normal FP32 number, and no output of ours is so small
  return exponent <= 7 ? 0x1p-126f : bits_float((exponent - 7) << 23);
}

// What is added to the product of one element.
KERNELRIG_HD Addends addends_of(const ReferenceProblem &p, long long row, long long column) {
  return addends_at(p.function, p.pattern, p.bases, row % p.rows_per_image, column, p.n);
}

// One element on the host, for the report of a mismatch.
inline Wanted wanted_at(const ReferenceProblem &p, long long row, long long column) {
  Wanted wanted{};
  for (int k = 0; k < p.k; ++k) {
    const double a = float_from_e4m3(operand_at(p.pattern, p.bases.a, row * p.k + k));
    const double b = float_from_e4m3(operand_at(p.pattern, p.bases.b, column * p.k + k));
    wanted.acc += a * b;
    wanted.abs_sum += std::fabs(a * b);
  }
  wanted.bits = output_of(p.function, static_cast<float>(wanted.acc), addends_of(p, row, column));
  return wanted;
}

// The output is monotonic in acc: every value between the outputs of acc -+ slack is reachable.
KERNELRIG_HD bool is_reachable(Function function, float got, double acc, double slack,
                               const Addends &addends) {
  const uint16_t low = output_of(function, static_cast<float>(acc - slack), addends);
  const uint16_t high = output_of(function, static_cast<float>(acc + slack), addends);
  return float_from_bf16(low) <= got && got <= float_from_bf16(high);
}

KERNELRIG_HD bool is_wrong(const ReferenceProblem &p, float acc, float abs_sum,
                           const Addends &addends, uint16_t got_bits) {
  const uint16_t wanted_bits = output_of(p.function, acc, addends);
  if (p.pattern != Pattern::RANDOM)
    return got_bits != wanted_bits;
  const float got = float_from_bf16(got_bits), wanted = float_from_bf16(wanted_bits);
  const float scale = largest_on_the_way(p.function, acc, addends, wanted);
  const float slack = p.accum_tol * abs_sum;
  return !(fabsf(got - wanted) <= bf16_ulp(scale) + slack) &&
         !is_reachable(p.function, got, acc, slack, addends);
}

// How many outputs of spot-checked launches are wrong (spot_check.cuh), computed on the host.
inline unsigned long long spot_mismatches(const Problem &problem, Pattern pattern, uint64_t seed,
                                          float accum_tol, const std::vector<SpotCheck> &checks) {
  const uint64_t outputs = static_cast<uint64_t>(problem.m) * problem.n;
  unsigned long long wrong = 0;
  for (const SpotCheck &check : checks) {
    ReferenceProblem p{problem.m,
                       problem.n,
                       problem.k,
                       problem.rows_per_image,
                       problem.function,
                       pattern,
                       input_bases(seed + check.set),
                       accum_tol};
    p.bases.a = hash_base("A", spot_seed(seed, check.sample));
    const std::vector<unsigned long long> places = spot_places(seed, check.sample, outputs);
    for (size_t i = 0; i < places.size(); ++i) {
      const long long row = places[i] / problem.n, column = places[i] % problem.n;
      const Wanted wanted = wanted_at(p, row, column);
      wrong += is_wrong(p, static_cast<float>(wanted.acc), static_cast<float>(wanted.abs_sum),
                        addends_of(p, row, column), check.bits[i]);
    }
  }
  return wrong;
}

constexpr int REFERENCE_TILE =
    64; // outputs of a CTA in each direction, 4 x 4 a thread, strided by 16
constexpr int MOST_TILES = 64; // of the counts by tile, in each direction
constexpr int REFERENCE_DEPTH = 32; // products summed in FP32 before they are added to the FP64 sum

// The edge of a tile of which wrong elements are counted: whole CTAs of the reference, as many as
// it takes for no more than MOST_TILES.
inline int tile_edge(int size) {
  int edge = REFERENCE_TILE;
  while ((size + edge - 1) / edge > MOST_TILES)
    edge *= 2;
  return edge;
}

// Returns whether the element is wrong.
__device__ inline bool tally_element(const ReferenceProblem &p, Tally *tally,
                                     unsigned long long index, float acc, float abs_sum,
                                     const Addends &addends, uint16_t got_bits) {
  const uint16_t wanted_bits = output_of(p.function, acc, addends);
  const float got = float_from_bf16(got_bits);
  const float wanted = float_from_bf16(wanted_bits);
  const bool is_nan = (got_bits & 0x7FFF) > 0x7F80;
  const float scale = largest_on_the_way(p.function, acc, addends, wanted);
  const float error = fabsf(got - wanted);
  const bool wrong = is_wrong(p, acc, abs_sum, addends, got_bits);
  if (p.pattern == Pattern::INTEGER &&
      (fabsf(wanted) > LARGEST_EXACT ||
       fabsf(first_rounded(p.function, acc, addends)) > LARGEST_EXACT)) {
    atomicAdd(&tally->beyond_exact, 1ull);
  }
  if (!is_nan && got != wanted) {
    atomicMax(&tally->max_abs_bits, float_bits(error));
    atomicMax(&tally->max_rel_bits, float_bits(relative_error(error, scale, abs_sum)));
  }
  if (is_nan)
    atomicAdd(&tally->nan_count, 1ull);
  if (wrong) {
    atomicAdd(&tally->mismatches, 1ull);
    atomicMin(&tally->first_mismatch, index);
  }
  return wrong;
}

__global__ void __launch_bounds__(256)
    reference_compare(ReferenceProblem p, const uint16_t *c, Tally *tally, WrongTiles tiles) {
  __shared__ float a_part[REFERENCE_DEPTH][REFERENCE_TILE + 1];
  __shared__ float b_part[REFERENCE_DEPTH][REFERENCE_TILE + 1];
  const int row_zero = blockIdx.x * REFERENCE_TILE;
  const int column_zero = blockIdx.y * REFERENCE_TILE;
  const int across = threadIdx.x % 16;
  const int down = threadIdx.x / 16;
  double acc[4][4] = {};
  float abs_sum[4][4] = {};
  for (int k_zero = 0; k_zero < p.k; k_zero += REFERENCE_DEPTH) {
    for (int slot = threadIdx.x; slot < REFERENCE_DEPTH * REFERENCE_TILE; slot += blockDim.x) {
      const int k = slot % REFERENCE_DEPTH;
      const int line = slot / REFERENCE_DEPTH;
      const uint64_t row = row_zero + line;
      const uint64_t column = column_zero + line;
      const bool k_inside = k_zero + k < p.k;
      a_part[k][line] =
          k_inside && row < p.m
              ? float_from_e4m3(operand_at(p.pattern, p.bases.a, row * p.k + k_zero + k))
              : 0.0f;
      b_part[k][line] =
          k_inside && column < p.n
              ? float_from_e4m3(operand_at(p.pattern, p.bases.b, column * p.k + k_zero + k))
              : 0.0f;
    }
    __syncthreads();
    float part[4][4] = {};
    for (int k = 0; k < REFERENCE_DEPTH; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          // E4M3 products are exact in FP32
          const float product = a_part[k][down + 16 * i] * b_part[k][across + 16 * j];
          part[i][j] += product;
          abs_sum[i][j] += fabsf(product);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        acc[i][j] += part[i][j];
    }
    __syncthreads();
  }
  unsigned long long wrong = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const long long row = row_zero + down + 16 * i;
      const long long column = column_zero + across + 16 * j;
      if (row >= p.m || column >= p.n)
        continue;
      const unsigned long long index = static_cast<unsigned long long>(row) * p.n + column;
      wrong += tally_element(p, tally, index, static_cast<float>(acc[i][j]), abs_sum[i][j],
                             addends_of(p, row, column), c[index]);
    }
  }
  if (wrong != 0) {
    const int across_tiles = (p.n + tiles.columns - 1) / tiles.columns;
    atomicAdd(&tiles.counts[row_zero / tiles.rows * across_tiles + column_zero / tiles.columns],
              wrong);
  }
}

// Compare all of `c` (device memory) with the reference. Waits for the stream.
inline Comparison compare_all(const Problem &problem, Pattern pattern, uint64_t seed,
                              float accum_tol, const uint16_t *c, cudaStream_t stream) {
  const ReferenceProblem p{problem.m,        problem.n, problem.k,         problem.rows_per_image,
                           problem.function, pattern,   input_bases(seed), accum_tol};
  Tally tally{0, 0, 0, ~0ull, 0, 0};
  Tally *device_tally = nullptr;
  KERNELRIG_CUDA(cudaMalloc(&device_tally, sizeof tally));
  KERNELRIG_CUDA(cudaMemcpy(device_tally, &tally, sizeof tally, cudaMemcpyHostToDevice));
  WrongTiles tiles{tile_edge(p.m), tile_edge(p.n), nullptr};
  std::vector<unsigned long long> counts(static_cast<size_t>((p.m + tiles.rows - 1) / tiles.rows) *
                                         ((p.n + tiles.columns - 1) / tiles.columns));
  const size_t counts_bytes = counts.size() * sizeof counts[0];
  KERNELRIG_CUDA(cudaMalloc(&tiles.counts, counts_bytes));
  KERNELRIG_CUDA(cudaMemset(tiles.counts, 0, counts_bytes));
  const dim3 grid((p.m + REFERENCE_TILE - 1) / REFERENCE_TILE,
                  (p.n + REFERENCE_TILE - 1) / REFERENCE_TILE);
  reference_compare<<<grid, 256, 0, stream>>>(p, c, device_tally, tiles);
  KERNELRIG_CUDA(cudaGetLastError());
  KERNELRIG_CUDA(cudaStreamSynchronize(stream));
  KERNELRIG_CUDA(cudaMemcpy(&tally, device_tally, sizeof tally, cudaMemcpyDeviceToHost));
  KERNELRIG_CUDA(cudaFree(device_tally));
  KERNELRIG_CUDA(cudaMemcpy(counts.data(), tiles.counts, counts_bytes, cudaMemcpyDeviceToHost));
  KERNELRIG_CUDA(cudaFree(tiles.counts));
  if (tally.beyond_exact != 0) {
    throw Failure{
        EXIT_CUDA, "kernelrigBeyondExact", 0,
        std::to_string(tally.beyond_exact) +
            " expected outputs of the integer pattern exceed 256: they are not exact in BF16",
        source_place(__FILE__, __LINE__)};
  }
  Comparison comparison;
  comparison.made = true;
  comparison.pattern = pattern;
  comparison.seed = seed;
  comparison.elements = static_cast<unsigned long long>(problem.m) * problem.n;
  comparison.mismatches = tally.mismatches;
  comparison.nan_count = tally.nan_count;
  comparison.max_abs_error = bits_float(tally.max_abs_bits);
  comparison.max_rel_error = bits_float(tally.max_rel_bits);
  comparison.accum_tol = accum_tol;
  if (tally.mismatches != 0) {
    comparison.tile_rows = tiles.rows;
    comparison.tile_columns = tiles.columns;
    comparison.tiles_across = (p.n + tiles.columns - 1) / tiles.columns;
    comparison.wrong_by_tile = std::move(counts);
    Mismatch &first = comparison.first;
    first.found = true;
    first.row = static_cast<long long>(tally.first_mismatch / problem.n);
    first.column = static_cast<long long>(tally.first_mismatch % problem.n);
    first.wanted_bits = wanted_at(p, first.row, first.column).bits;
    KERNELRIG_CUDA(
        cudaMemcpy(&first.got_bits, c + tally.first_mismatch, 2, cudaMemcpyDeviceToHost));
  }
  return comparison;
}

} // namespace kernelrig
