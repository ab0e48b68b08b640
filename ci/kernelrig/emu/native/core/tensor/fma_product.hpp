// Products of matrices as a BLAS makes them that adds up each element of D alone: from zero, k after
// k, by fused multiply-adds, and then D's old value.
//
// How it works. A panel of B, as wide as some vectors, is laid out by k; blocks of D stay in
// registers for all of k. The products of one instruction are too small for a BLAS, which copies
// both operands first.
#pragma once

#include "tensor/products.hpp"

namespace emu {

// Whether this machine has what `fma_product` needs, and it takes products of this size.
bool has_fma_product(const MatrixProduct& product);

// Let D be A x B^T, or add it; NaNs become the one that tensor cores make.
void fma_product(const MatrixProduct& product);

}  // namespace emu
