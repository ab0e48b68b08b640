// Device memory of one problem, and how it is filled: by small kernels in modes check and time, by
// copies from the host in mode once, where only the kernel under test may run.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "device_memory.cuh"
#include "failure.cuh"
#include "function.cuh"
#include "inputs.cuh"
#include "problem.cuh"

namespace kernelrig {

constexpr int NAN_BYTE = 0xFF; // BF16 0xFFFF is a NaN: an unwritten output is never a number

// One complete set of inputs and outputs.
struct ProblemMemory {
  DeviceMemory a, b, comb, bias, c, workspace, phase_clocks;

  ProblemMemory(const Problem &p, size_t workspace_bytes, size_t phase_bytes)
      : a(static_cast<size_t>(p.m) * p.k), b(static_cast<size_t>(p.n) * p.k),
        comb(sizeof(uint16_t) * p.rows_per_image * p.n),
        bias(p.function == Function::BIAS_THEN_ADD ? sizeof(uint16_t) * p.n : 0),
        c(sizeof(uint16_t) * p.m * p.n), workspace(workspace_bytes), phase_clocks(phase_bytes) {}

  Buffers buffers() const {
    return {a.as<uint8_t>(),    b.as<uint8_t>(),      comb.as<uint16_t>(),
            c.as<uint16_t>(),   workspace.as<void>(), phase_clocks.as<unsigned long long>(),
            bias.as<uint16_t>()};
  }

  size_t input_bytes() const { return a.bytes() + b.bytes() + comb.bytes(); }
};

// The table in the layout of Gemm::COMB_BLOCK. The reference does not use it: it computes each
// entry from its position and column.
inline std::vector<uint16_t> combined_table(const Problem &p, Pattern pattern, uint64_t seed) {
  const InputBases bases = input_bases(seed);
  std::vector<uint16_t> table;
  table.reserve(static_cast<size_t>(p.rows_per_image) * p.n);
  for (int block = 0; block < p.n; block += p.comb_block) {
    for (int position = 0; position < p.rows_per_image; ++position) {
      for (int column = block; column < block + p.comb_block; ++column)
        table.push_back(table_entry(p.function, pattern, bases, position, column, p.n));
    }
  }
  return table;
}

inline std::vector<uint16_t> bias_table(const Problem &p, Pattern pattern, uint64_t seed) {
  const InputBases bases = input_bases(seed);
  std::vector<uint16_t> table;
  for (int column = 0; column < p.n; ++column)
    table.push_back(bias_entry(pattern, bases, column));
  return table;
}

// The small inputs, computed on the host in every mode.
inline void copy_tables(const ProblemMemory &memory, const Problem &p, Pattern pattern,
                        uint64_t seed, cudaStream_t stream) {
  const std::vector<uint16_t> table = combined_table(p, pattern, seed);
  const std::vector<uint16_t> bias = bias_table(p, pattern, seed);
  KERNELRIG_CUDA(cudaMemcpyAsync(memory.comb.as<void>(), table.data(), memory.comb.bytes(),
                                 cudaMemcpyHostToDevice, stream));
  if (memory.bias.bytes() > 0) {
    KERNELRIG_CUDA(cudaMemcpyAsync(memory.bias.as<void>(), bias.data(), memory.bias.bytes(),
                                   cudaMemcpyHostToDevice, stream));
  }
  KERNELRIG_CUDA(cudaStreamSynchronize(stream));
}

inline std::vector<uint64_t> combined_shape(const Problem &p) {
  const uint64_t positions = p.rows_per_image, columns = p.n, block = p.comb_block;
  if (block == columns)
    return {positions, columns};
  return {columns / block, positions, block};
}

__global__ void fill_operand(uint8_t *operand, Pattern pattern, uint64_t base, uint64_t elements) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < elements;
       i += stride) {
    operand[i] = operand_at(pattern, base, i);
  }
}

inline void fill_on_device(const ProblemMemory &memory, const Problem &p, Pattern pattern,
                           uint64_t seed, cudaStream_t stream) {
  const InputBases bases = input_bases(seed);
  fill_operand<<<1024, 256, 0, stream>>>(memory.a.as<uint8_t>(), pattern, bases.a,
                                         memory.a.bytes());
  KERNELRIG_CUDA(cudaGetLastError());
  fill_operand<<<1024, 256, 0, stream>>>(memory.b.as<uint8_t>(), pattern, bases.b,
                                         memory.b.bytes());
  KERNELRIG_CUDA(cudaGetLastError());
  copy_tables(memory, p, pattern, seed, stream);
}

inline void fill_with_nan(const DeviceMemory &memory, cudaStream_t stream) {
  if (memory.bytes() == 0)
    return;
  KERNELRIG_CUDA(cudaMemsetAsync(memory.as<void>(), NAN_BYTE, memory.bytes(), stream));
}

inline void fill_operand_on_host(const DeviceMemory &memory, Pattern pattern, uint64_t base) {
  copy_made(memory, 1, [=](uint8_t *piece, uint64_t from, uint64_t i) {
    piece[i - from] = operand_at(pattern, base, i);
  });
}

// Everything that a launch reads or may leave unwritten, without a kernel launch. The workspace
// stays uninitialised, so that initcheck sees a read of it.
inline void fill_on_host(const ProblemMemory &memory, const Problem &p, Pattern pattern,
                         uint64_t seed) {
  const InputBases bases = input_bases(seed);
  fill_operand_on_host(memory.a, pattern, bases.a);
  fill_operand_on_host(memory.b, pattern, bases.b);
  copy_tables(memory, p, pattern, seed, nullptr);
  for (const DeviceMemory *written : {&memory.c, &memory.phase_clocks}) {
    copy_in_pieces(*written, [](size_t begin, size_t end, uint8_t *piece) {
      std::fill(piece, piece + (end - begin), static_cast<uint8_t>(NAN_BYTE));
    });
  }
}

} // namespace kernelrig
