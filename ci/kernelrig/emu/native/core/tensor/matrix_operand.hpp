// Matrices in shared memory that a descriptor names, and what their elements are worth:
// tensor/operand_layout.py and tensor/formats.py.
//
// How it works. An operand is a gather of units of 16 bytes whose pattern depends on the descriptor
// and its start within 1024 bytes alone. Patterns are kept: a kernel has few.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace emu {

constexpr int64_t UNIT = 16, PATTERN_BYTES = 1024, K_BYTES = 32;

// In the order of tensor.formats.FORMATS.
enum Element : int { E4M3, E5M2, F16, BF16, TF32, S8, U8 };

inline int bytes_of(Element element) { return element < F16 || element > TF32 ? 1 : element == TF32 ? 4 : 2; }

// Whether a product of two elements is always a float: of at most 24 bits, and far from the ends of
// the exponent's range.
inline bool has_exact_products(Element element) { return element != BF16 && element != TF32; }

enum Swizzle : int { NO_SWIZZLE, BYTES_32, BYTES_64, BYTES_128, ATOMS_32 };

// As operand_layout.Descriptor: bytes, the start in the CTA's own shared memory.
struct MatrixDescriptor {
  int64_t start, leading, stride;
  Swizzle swizzle;
};

// Decode a descriptor; false where a reserved bit, the base offset or a code is wrong.
bool decode_sm90(uint64_t bits, MatrixDescriptor& into);
bool decode_sm100(uint64_t bits, MatrixDescriptor& into);

// The units of an operand, from a 1024-byte boundary: `lines` of `width`, along K or, MN-major,
// along the rows.
struct UnitPattern {
  std::vector<int32_t> units;
  int64_t low, high;
  int lines, width;
};

struct MatrixOperand {
  std::shared_ptr<const UnitPattern> pattern;
  int64_t base;  // bytes, in the CTA's own shared memory
  Element element;
  bool mn_major;
  int swizzle;  // tensor.swizzle.Swizzle.number

  int64_t low() const { return base + pattern->low * UNIT; }
  int64_t behind() const { return base + (pattern->high + 1) * UNIT; }
};

// The operand of `rows` x 32 bytes of K; false where the tensor core takes no such one.
bool operand_of(const MatrixDescriptor& descriptor, int rows, Element element, bool mn_major,
                MatrixOperand& into);

// Part of an operand: of `lines` lines from `line` on, the units from `unit` to `unit + width`.
struct Part {
  int line, lines, unit, width;
};
inline Part all_of(const MatrixOperand& operand) {
  return {0, operand.pattern->lines, 0, operand.pattern->width};
}

// Copy the units of a part from the shared memory of a CTA, one behind the other.
void gather(const MatrixOperand& operand, const Part& part, const uint8_t* shared, uint8_t* into);

// Their starts, with the flat byte that the CTA's shared memory begins at.
void starts_of(const MatrixOperand& operand, const Part& part, int64_t flat,
               std::vector<int64_t>& into);

// Let `rows` lines of K_BYTES, along K, be lines along the rows, one for each element of K.
void transpose(const uint8_t* raw, int64_t rows, Element element, uint8_t* into);

// What `bytes` contiguous bytes of elements are worth.
void decode(const uint8_t* raw, int64_t bytes, Element element, float* into);

}  // namespace emu
