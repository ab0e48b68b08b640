// Products of matrices, as tensor/summation.py makes them.
//
// How it works. Both engines multiply with NumPy's BLAS, so that floats agree to the bit. Where that
// library has a cblas_sgemm which adds to D as NumPy's product and a sum do (native/products.py
// tries it), the core calls it as NumPy would, or multiplies itself (fma_product.hpp) where that
// gave the same bits when a product of the size was tried. Elsewhere Python's routine does it.
#pragma once

#include <cstdint>

namespace emu {

// Element (row, k) is values[row * stride + k], or values[k * stride + row] `by_columns`.
struct Matrix {
  const float* values;
  int64_t stride;
  int64_t by_columns;
};

// D = A x B^T, or D += it: A is (m, k), B (n, k), D (m, n), `stride` elements a row.
struct MatrixProduct {
  int64_t m, n, k;
  Matrix a, b;
  float* d;
  int64_t stride;
  int64_t adds;
};

struct Products {
  using Sgemm = void (*)(int order, int a, int b, int64_t m, int64_t n, int64_t k, float alpha,
                         const float* of_a, int64_t stride_of_a, const float* of_b,
                         int64_t stride_of_b, float beta, float* d, int64_t stride);
  Sgemm sgemm = nullptr;
  int (*python)(const MatrixProduct*) = nullptr;

  // Returns false where Python raised.
  bool make(const MatrixProduct& product) const;
};

}  // namespace emu
