// Metadata of sparse products, in registers: tensor/sparse_metadata.py, which says what they mean.
#pragma once

#include <cstdint>

#include "tensor/matrix_operand.hpp"

namespace emu {

constexpr int SPARSE_ROWS = 16;
constexpr int STORED = 32;  // elements of a row of A at most, of 8 bits

// How A is stored: `k` counts the elements of B.
struct Sparsity {
  int k, bytes, selector;
  bool ordered;

  // Elements of K that one code is about, and those that are stored of them.
  int chunk() const { return bytes == 4 ? 2 : 4; }
  int kept() const { return chunk() / 2; }
  int codes() const { return k / chunk(); }

  // A code of row `row` out of a register of 32 lanes.
  uint32_t code(const uint32_t* lanes, int row, int number) const {
    const int bits = 4 * codes(), group = 4 * (row % 8), upper = row / 8;
    const int first = bits / 16 * selector;  // 16, 32 or 64 bits a row: 1, 2 or 4 lanes
    if (bytes >= 2)
      return lanes[group + first + number / 4] >> (16 * upper + 4 * (number % 4)) & 15;
    return lanes[group + first + number / 8 * 2 + upper] >> 4 * (number % 8) & 15;
  }

  bool is_wrong(uint32_t code) const {
    if (bytes == 4)
      return code != 0b0100 && code != 0b1110;
    return ordered ? (code & 3) >= code >> 2 : (code & 3) == code >> 2;
  }

  // Which element of K each stored one of a row is.
  void positions(const uint32_t* lanes, int row, uint8_t* into) const {
    for (int number = 0; number < codes(); number++) {
      const uint32_t found = code(lanes, row, number);
      const int start = chunk() * number;
      if (bytes == 4) {
        *into++ = uint8_t(start + (found >> 1 & 1));
        continue;
      }
      *into++ = uint8_t(start + (found & 3));
      *into++ = uint8_t(start + (found >> 2));
    }
  }

  bool any_wrong(const uint32_t* lanes) const {
    for (int row = 0; row < SPARSE_ROWS; row++)
      for (int number = 0; number < codes(); number++)
        if (is_wrong(code(lanes, row, number)))
          return true;
    return false;
  }
};

}  // namespace emu
