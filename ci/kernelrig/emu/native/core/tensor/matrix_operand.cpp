#include "tensor/matrix_operand.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "rounding.hpp"

namespace emu {
namespace {

constexpr size_t KEPT = 4096;  // patterns

// Fields of a descriptor: bits `low` to `high`.
uint64_t field(uint64_t bits, int low, int high) {
  return bits >> low & ((uint64_t(2) << (high - low)) - 1);
}

MatrixDescriptor descriptor(uint64_t bits, Swizzle swizzle) {
  return {UNIT * int64_t(field(bits, 0, 13)), UNIT * int64_t(field(bits, 16, 29)),
          UNIT * int64_t(field(bits, 32, 45)), swizzle};
}

int64_t span_of(Swizzle swizzle) {
  constexpr int64_t SPANS[] = {UNIT, 32, 64, 128, 128};
  return SPANS[swizzle];
}

// Where the byte of a linear address lies.
int64_t swizzled(Swizzle swizzle, int64_t address) {
  if (swizzle == NO_SWIZZLE)
    return address;
  if (swizzle == ATOMS_32)
    return address ^ (address >> 2 & 0x60);
  return address ^ (address >> 3 & (span_of(swizzle) - UNIT));
}

struct Key {
  int64_t leading, stride, start;
  int rows, element, swizzle, mn_major;

  bool operator==(const Key& other) const {
    return leading == other.leading && stride == other.stride && start == other.start &&
           rows == other.rows && element == other.element && swizzle == other.swizzle &&
           mn_major == other.mn_major;
  }
};

struct Hash {
  size_t operator()(const Key& key) const {
    uint64_t sum = 0;
    for (int64_t part : {key.leading, key.stride, key.start, int64_t(key.rows),
                         int64_t(key.element), int64_t(key.swizzle * 2 + key.mn_major)})
      sum = (sum ^ uint64_t(part)) * 0x9E3779B97F4A7C15;
    return sum ^ sum >> 32;
  }
};

UnitPattern pattern_of(const Key& key) {
  const Swizzle swizzle = Swizzle(key.swizzle);
  const int64_t span = span_of(swizzle), size = bytes_of(Element(key.element));
  UnitPattern made{};
  made.lines = key.mn_major ? int(K_BYTES / size) : key.rows;
  made.width = int((key.mn_major ? key.rows * size : K_BYTES) / UNIT);
  const int64_t group = swizzle == ATOMS_32 ? 4 : 8;
  for (int64_t line = 0; line < made.lines; line++)
    for (int64_t unit = 0; unit < made.width; unit++) {
      const int64_t byte = UNIT * unit;
      int64_t linear;
      if (!key.mn_major)
        linear = line % 8 * span + line / 8 * key.stride +
                 (swizzle == NO_SWIZZLE ? unit * key.leading : byte);
      else if (swizzle == NO_SWIZZLE)
        linear = unit * key.stride + line % 8 * UNIT + line / 8 * key.leading;
      else
        linear = byte % span + byte / span * key.leading + line % group * span +
                 line / group * key.stride;
      made.units.push_back(int32_t(swizzled(swizzle, key.start + linear) / UNIT));
    }
  const auto [low, high] = std::minmax_element(made.units.begin(), made.units.end());
  made.low = *low;
  made.high = *high;
  return made;
}

// Shifted to its place in a float it lacks the difference of the biases. A subnormal lacks the
// leading bit too, so that of the smallest normal number is added and subtracted: an operation on a
// subnormal float takes a hundred times as long.
float of_e4m3(uint8_t code) {
  const uint32_t bits = uint32_t(code & 0x7F) << 20, sign = uint32_t(code & 0x80) << 24;
  const float least = bits_as<float>(121u << 23);
  const float subnormal = bits_as<float>(bits + (121u << 23)) - least;
  const uint32_t value = bits < 1u << 23 ? bits_as<uint32_t>(subnormal) : bits + (120u << 23);
  return bits_as<float>(bits == 0x7F00000 ? 0x7FC00000u : value | sign);
}
float of_e5m2(uint8_t code) { return of_f16(uint32_t(code) << 8); }
float of_s8(uint8_t code) { return float(int8_t(code)); }
float of_u8(uint8_t code) { return float(code); }
float of_half(uint16_t bits) { return of_f16(bits); }
float of_upper_half(uint16_t bits) { return of_bf16(bits); }
float of_tf32(uint32_t bits) { return bits_as<float>(bits & 0xFFFFE000); }

// A square of words, each row 16 bytes: as many times as halving it leaves rows, those of the upper
// half alternate with those of the lower.
template <class T> void transpose_words(const uint8_t* raw, int64_t rows, uint8_t* into) {
  typedef T Row __attribute__((vector_size(UNIT)));
  constexpr int SIDE = int(UNIT / int64_t(sizeof(T)));
  Row low, high;
  for (int n = 0; n < SIDE; n++) {
    low[n] = T(n / 2 + n % 2 * SIDE);
    high[n] = T(low[n] + T(SIDE / 2));
  }
  for (int64_t row = 0; row < rows; row += SIDE) {
    const int64_t count = std::min(rows - row, int64_t(SIDE));
    for (int64_t unit = 0; unit < K_BYTES / UNIT; unit++) {
      Row square[SIDE] = {}, next[SIDE];
      for (int64_t n = 0; n < count; n++)
        std::memcpy(&square[n], raw + (row + n) * K_BYTES + unit * UNIT, UNIT);
#pragma GCC unroll 4
      for (int left = SIDE; left > 1; left /= 2) {
#pragma GCC unroll 8
        for (int n = 0; n < SIDE / 2; n++) {
          next[2 * n] = __builtin_shuffle(square[n], square[n + SIDE / 2], low);
          next[2 * n + 1] = __builtin_shuffle(square[n], square[n + SIDE / 2], high);
        }
        std::copy_n(next, SIDE, square);
      }
      for (int n = 0; n < SIDE; n++)
        std::memcpy(into + ((unit * SIDE + n) * rows + row) * int64_t(sizeof(T)), &square[n],
                    size_t(count) * sizeof(T));
    }
  }
}

// Each word is worth `value(word)`; a block of them at a time, which are vectors.
template <class T, float value(T)>
void decode_words(const uint8_t* raw, int64_t count, float* into) {
  constexpr int BLOCK = 32;
  T words[BLOCK];
  for (; count >= BLOCK; count -= BLOCK, raw += sizeof words, into += BLOCK) {
    std::memcpy(words, raw, sizeof words);
    for (int n = 0; n < BLOCK; n++)
      into[n] = value(words[n]);
  }
  std::memcpy(words, raw, size_t(count) * sizeof(T));
  for (int n = 0; n < count; n++)
    into[n] = value(words[n]);
}

}  // namespace

bool decode_sm90(uint64_t bits, MatrixDescriptor& into) {
  constexpr Swizzle CODES[] = {NO_SWIZZLE, BYTES_128, BYTES_64, BYTES_32};
  if (field(bits, 14, 15) || field(bits, 30, 31) || field(bits, 46, 48) || field(bits, 49, 51) ||
      field(bits, 52, 61))
    return false;
  into = descriptor(bits, CODES[bits >> 62]);
  return true;
}

bool decode_sm100(uint64_t bits, MatrixDescriptor& into) {
  constexpr int NONE = -1, CODES[] = {NO_SWIZZLE, ATOMS_32, BYTES_128, NONE, BYTES_64, NONE,
                                      BYTES_32,   NONE};
  const int code = CODES[bits >> 61];
  if (field(bits, 46, 48) != 1 || field(bits, 52, 52) || field(bits, 14, 15) ||
      field(bits, 30, 31) || field(bits, 53, 60) || field(bits, 49, 51) || code == NONE)
    return false;
  into = descriptor(bits, Swizzle(code));
  return true;
}

bool operand_of(const MatrixDescriptor& descriptor, int rows, Element element, bool mn_major,
                MatrixOperand& into) {
  const bool atoms = descriptor.swizzle == ATOMS_32;
  if (atoms != (mn_major && element == TF32))
    return false;
  thread_local std::unordered_map<Key, std::shared_ptr<const UnitPattern>, Hash> known;
  const Key key{descriptor.leading, descriptor.stride, descriptor.start % PATTERN_BYTES, rows,
                element, descriptor.swizzle, mn_major};
  auto found = known.find(key);
  if (found == known.end()) {
    if (known.size() >= KEPT)
      known.clear();
    found = known.emplace(key, std::make_shared<UnitPattern>(pattern_of(key))).first;
  }
  const int swizzle = atoms ? 128 | 32 << 8 : int(span_of(descriptor.swizzle)) | 16 << 8;
  into = {found->second, descriptor.start / PATTERN_BYTES * PATTERN_BYTES, element, mn_major, swizzle};
  return true;
}

void gather(const MatrixOperand& operand, const Part& part, const uint8_t* shared, uint8_t* into) {
  const UnitPattern& pattern = *operand.pattern;
  const uint8_t* from = shared + operand.base;
  for (int line = part.line; line < part.line + part.lines; line++) {
    const int32_t* units = pattern.units.data() + line * pattern.width + part.unit;
    for (int unit = 0; unit < part.width; unit++, into += UNIT)
      std::memcpy(into, from + units[unit] * UNIT, UNIT);
  }
}

void starts_of(const MatrixOperand& operand, const Part& part, int64_t flat,
               std::vector<int64_t>& into) {
  const UnitPattern& pattern = *operand.pattern;
  for (int line = part.line; line < part.line + part.lines; line++) {
    const int32_t* units = pattern.units.data() + line * pattern.width + part.unit;
    for (int unit = 0; unit < part.width; unit++)
      into.push_back(flat + operand.base + units[unit] * UNIT);
  }
}

void transpose(const uint8_t* raw, int64_t rows, Element element, uint8_t* into) {
  const int64_t bytes = bytes_of(element);
  (bytes == 1   ? transpose_words<uint8_t>
   : bytes == 2 ? transpose_words<uint16_t>
                : transpose_words<uint32_t>)(raw, rows, into);
}

void decode(const uint8_t* raw, int64_t bytes, Element element, float* into) {
  constexpr decltype(&decode_words<uint8_t, of_s8>) DECODE[] = {
      decode_words<uint8_t, of_e4m3>,        decode_words<uint8_t, of_e5m2>,
      decode_words<uint16_t, of_half>,       decode_words<uint16_t, of_upper_half>,
      decode_words<uint32_t, of_tf32>,       decode_words<uint8_t, of_s8>,
      decode_words<uint8_t, of_u8>};
  DECODE[element](raw, bytes / bytes_of(element), into);
}

}  // namespace emu
