// Products of matrices, as tensor/summation.py makes them: each element of D is added up alone, from
// zero, k after k, every product and every sum rounded; then D's old value is added.
//
// No library makes them: a BLAS adds up in another order on another CPU, or of another shape. This
// order has the same bits on every machine, however wide its vectors are, in both engines.
//
// How it works. B lies by k, so that a vector holds columns of D; blocks of D stay in registers for
// all of k.
#pragma once

#include <cstdint>

namespace emu {

// Element (row, k) is values[row * stride + k], or values[k * stride + row] `by_columns`.
struct Matrix {
  const float* values;
  int64_t stride;
  int64_t by_columns;
};

// D = A x B, or D += it: A is (m, k), B (k, n), D (m, n), `stride` elements a row. `exact`: every
// product of an element of A and one of B is a float, so that rounding it changes nothing and a
// fused step, which is twice as fast, has the same bits.
struct MatrixProduct {
  int64_t m, n, k;
  Matrix a;
  const float* b;
  int64_t b_stride;
  float* d;
  int64_t stride;
  int64_t adds;
  int64_t exact;
};

// NaNs become the one that tensor cores make.
void multiply(const MatrixProduct& product);

}  // namespace emu
