// The functions that a program may compute: where the table is added to the product, and what is
// rounded to BF16 on the way. A kernel computes ROUND_THEN_ADD; a baseline computes what its
// library can do, declares it (Gemm::FUNCTION, and `function` in kernels.yaml), and is verified
// against that.
//
//   PRODUCT          C = bf16(acc)                                 no table at all
//   ROUND_THEN_ADD   C = bf16(acc) +bf16 bf16(bias + pos_embed)    the project's own
//   BIAS_THEN_ADD    C = bf16(acc + bf16(bias)) +bf16 bf16(pos_embed)
//   ADD_THEN_ROUND   C = bf16(acc + bf16(bias + pos_embed))
//
// Compiles as plain C++ too.
#pragma once

#include <cmath>
#include <cstdint>

#include "inputs.cuh"

namespace kernelrig {

enum class Function { PRODUCT, ROUND_THEN_ADD, BIAS_THEN_ADD, ADD_THEN_ROUND };

inline const char *function_name(Function function) {
  switch (function) {
  case Function::PRODUCT:
    return "product";
  case Function::BIAS_THEN_ADD:
    return "bias_then_add";
  case Function::ADD_THEN_ROUND:
    return "add_then_round";
  default:
    return "round_then_add";
  }
}

// An entry of the table as the function adds it: pos_embed alone where the bias is added earlier.
KERNELRIG_HD uint16_t table_entry(Function function, Pattern pattern, const InputBases &bases,
                                  uint64_t position, uint64_t column, uint64_t columns) {
  if (function == Function::BIAS_THEN_ADD)
    return bf16_from_float(table_at(pattern, bases.pos_embed, position * columns + column));
  return combined_at(pattern, bases.bias, bases.pos_embed, position, column, columns);
}

KERNELRIG_HD uint16_t bias_entry(Pattern pattern, const InputBases &bases, uint64_t column) {
  return bf16_from_float(table_at(pattern, bases.bias, column));
}

// What is added to the product of one element, as BF16 bits; a function reads only its own.
struct Addends {
  uint16_t bias_bits, table_bits;
};

KERNELRIG_HD Addends addends_at(Function function, Pattern pattern, const InputBases &bases,
                                uint64_t position, uint64_t column, uint64_t columns) {
  return {bias_entry(pattern, bases, column),
          table_entry(function, pattern, bases, position, column, columns)};
}

// The number that is rounded first.
KERNELRIG_HD float first_rounded(Function function, float acc, const Addends &addends) {
  if (function == Function::BIAS_THEN_ADD)
    return acc + float_from_bf16(addends.bias_bits);
  if (function == Function::ADD_THEN_ROUND)
    return acc + float_from_bf16(addends.table_bits);
  return acc;
}

// Whether the table is added to a rounded number, and the sum rounded again.
KERNELRIG_HD bool rounds_twice(Function function) {
  return function == Function::ROUND_THEN_ADD || function == Function::BIAS_THEN_ADD;
}

// The output, as BF16 bits; monotonic in acc.
KERNELRIG_HD uint16_t output_of(Function function, float acc, const Addends &addends) {
  const uint16_t first = bf16_from_float(first_rounded(function, acc, addends));
  return rounds_twice(function) ? bf16_add(first, addends.table_bits) : first;
}

// The largest number on the way to `output` that is rounded, or added between two roundings: a
// BF16 ulp of it is what another order of the sum may cost.
KERNELRIG_HD float largest_on_the_way(Function function, float acc, const Addends &addends,
                                      float output) {
  const float first = fabsf(first_rounded(function, acc, addends));
  const float added = rounds_twice(function) ? fabsf(float_from_bf16(addends.table_bits)) : 0.0f;
  return fmaxf(first, fmaxf(added, fabsf(output)));
}

// The error relative to the largest intermediate number, or to the sum of |a b| where that is
// larger: a sum may cancel to 0, and its rounding error must not count as infinite. 0 where both
// are 0, when any difference is a mismatch anyway.
KERNELRIG_HD float relative_error(float error, float largest, float abs_sum) {
  const float scale = fmaxf(largest, abs_sum);
  return scale > 0.0f ? error / scale : 0.0f;
}

} // namespace kernelrig
