// Products of tcgen05.mma in flight: kernelrig.emu.tensor.tensor_product for the core.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "pool.hpp"
#include "tensor/matrix_operand.hpp"

namespace emu {

// What the instruction descriptor of an mma says, where it is a plain one: Python decodes it
// (native/products.py has the same fields).
struct TensorForm {
  int64_t is_plain;
  int64_t m, n, a, b, a_mn_major, b_mn_major, stationary;
};

// A block of a CTA's part of D: rows and columns of the product, and the lane from D's
// (tensor_product.Tile).
struct TensorTile {
  int row, rows, column, columns, lane;
};

struct TensorProduct {
  const TensorForm* form;
  int group;
  int64_t slots[2];
  bool a_in_tensor_memory;
  MatrixOperand a, b;
  int64_t a_column;
  int64_t lane, column;
  bool accumulates;
  std::vector<uint8_t> read;  // B by CTA, then A by CTA, as they lie in memory
};

struct TensorProducts {
  // Decodes a descriptor for an instruction's kind (number of isa.tcgen05_mma.KINDS) and CTA group;
  // `stationary` is tcgen05.mma.ws.
  int (*decode)(uint32_t bits, int kind, int group, int stationary, TensorForm* into) = nullptr;

  // Null where Python raised.
  const TensorForm* form(uint32_t bits, int kind, int group, int stationary);
  Pool<TensorProduct> pool;
  std::vector<float> a, b;  // of the product under way

private:
  std::unordered_map<uint64_t, std::unique_ptr<TensorForm>> forms;
};

}  // namespace emu
