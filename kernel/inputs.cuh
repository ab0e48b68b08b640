// The inputs, with the same bits on the host, on the device, in Python (kernelrig.reference.inputs)
// and in the emulator. Compiles as plain C++ too.
//
//   h(name, seed, i) = splitmix64((fnv1a64(name) ^ splitmix64(seed)) + i * GOLDEN_GAMMA)   mod 2^64
//   u                = (h >> 40) * 2^-24                                            in [0, 1)
//
// `i` is the row-major flat index; names are A, B, bias, pos_embed. Multiply and add are rounded
// separately everywhere: an fma would change the last bit of a table entry.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define KERNELRIG_HD __host__ __device__ __forceinline__
#else
#define KERNELRIG_HD inline
#endif

namespace kernelrig {

enum class Pattern { CONSTANT, INTEGER, RANDOM };

inline const char *pattern_name(Pattern pattern) {
  switch (pattern) {
  case Pattern::CONSTANT:
    return "constant";
  case Pattern::INTEGER:
    return "integer";
  default:
    return "random";
  }
}

constexpr uint64_t GOLDEN_GAMMA = 0x9E3779B97F4A7C15ull;

KERNELRIG_HD uint64_t splitmix64(uint64_t x) {
  x += GOLDEN_GAMMA;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

inline uint64_t fnv1a64(const char *text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (; *text != '\0'; ++text) {
    hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3ull;
  }
  return hash;
}

// The hash state of a named buffer and seed; the device gets this number instead of the name.
inline uint64_t hash_base(const char *name, uint64_t seed) {
  return fnv1a64(name) ^ splitmix64(seed);
}

KERNELRIG_HD uint64_t hash_at(uint64_t base, uint64_t index) {
  return splitmix64(base + index * GOLDEN_GAMMA);
}

KERNELRIG_HD float unit_at(uint64_t base, uint64_t index) {
  return static_cast<float>(static_cast<uint32_t>(hash_at(base, index) >> 40)) * 0x1p-24f;
}

// The same with as many bits as a double has.
KERNELRIG_HD double unit_double_at(uint64_t base, uint64_t index) {
  return static_cast<double>(hash_at(base, index) >> 11) * 0x1p-53;
}

// low + scale * u in two roundings. The volatile keeps the host compiler from using an fma.
KERNELRIG_HD float scale_then_add(float u, float scale, float low) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(low, __fmul_rn(scale, u));
#else
  volatile float product = scale * u;
  return low + product;
#endif
}

KERNELRIG_HD double scale_then_add(double u, double scale, double low) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(low, __dmul_rn(scale, u));
#else
  volatile double product = scale * u;
  return low + product;
#endif
}

KERNELRIG_HD uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

KERNELRIG_HD float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// BF16 by round-to-nearest-even; every NaN becomes the canonical 0x7FFF, as with cvt.rn.bf16.
KERNELRIG_HD uint16_t bf16_from_float(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
    return 0x7FFF;
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

KERNELRIG_HD float float_from_bf16(uint16_t bits) {
  return bits_float(static_cast<uint32_t>(bits) << 16);
}

// a +bf16 b. Rounding to FP32 first does not change the result: 24 >= 2 * 8 + 2 bits.
KERNELRIG_HD uint16_t bf16_add(uint16_t a, uint16_t b) {
  return bf16_from_float(float_from_bf16(a) + float_from_bf16(b));
}

// E4M3 (1-4-3, bias 7, no infinity, 448 the largest) by round-to-nearest-even, saturating; in
// integer arithmetic, so that the result depends on no rounding mode and no instruction of an
// architecture.
KERNELRIG_HD uint8_t e4m3_from_float(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u)
    return static_cast<uint8_t>(sign | 0x7F);
  if (magnitude >= 0x43E80000u)
    return static_cast<uint8_t>(sign | 0x7E); // 464: halfway past 448
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const int kept = exponent < -6 ? -6 : exponent; // below 2^-6 the quantum stays 2^-9
  const int shift = 20 + kept - exponent;
  if (exponent < -126 || shift > 24)
    return static_cast<uint8_t>(sign); // under half of 2^-9
  const uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  const uint32_t half = 1u << (shift - 1);
  uint32_t steps = significand >> shift;
  const uint32_t rest = significand & ((half << 1) - 1);
  if (rest > half || (rest == half && (steps & 1u)))
    ++steps;
  return static_cast<uint8_t>(sign | ((static_cast<uint32_t>(kept + 6) << 3) + steps));
}

KERNELRIG_HD float float_from_e4m3(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t exponent = (code >> 3) & 15u;
  const uint32_t mantissa = code & 7u;
  if ((code & 0x7Fu) == 0x7Fu)
    return bits_float(sign | 0x7FC00000u);
  if (exponent == 0)
    return bits_float(sign | float_bits(static_cast<float>(mantissa) * 0x1p-9f));
  return bits_float(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}

// floor of a value in [0, 32); host and device have floor functions of different names
KERNELRIG_HD float whole_part(float value) { return static_cast<float>(static_cast<int>(value)); }

// An element of A or B, as its E4M3 code.
KERNELRIG_HD uint8_t operand_at(Pattern pattern, uint64_t base, uint64_t index) {
  if (pattern == Pattern::CONSTANT)
    return e4m3_from_float(1.5f);
  const float u = unit_at(base, index);
  if (pattern == Pattern::INTEGER) {
    return e4m3_from_float(whole_part(scale_then_add(u, 3.0f, 0.0f)) - 1.0f);
  }
  return e4m3_from_float(scale_then_add(u, 4.0f, -2.0f));
}

// An element of bias or pos_embed, before the sum of the two is rounded to BF16.
KERNELRIG_HD float table_at(Pattern pattern, uint64_t base, uint64_t index) {
  if (pattern == Pattern::CONSTANT)
    return 0.0f;
  const float u = unit_at(base, index);
  if (pattern == Pattern::INTEGER)
    return whole_part(scale_then_add(u, 17.0f, 0.0f)) - 8.0f;
  return scale_then_add(u, 2.0f, -1.0f);
}

// comb[position, column] = bf16(bias[column] + pos_embed[position, column])
KERNELRIG_HD uint16_t combined_at(Pattern pattern, uint64_t bias_base, uint64_t pos_base,
                                  uint64_t position, uint64_t column, uint64_t columns) {
  const float bias = table_at(pattern, bias_base, column);
  const float pos = table_at(pattern, pos_base, position * columns + column);
  return bf16_from_float(bias + pos);
}

// The hash states of the four named buffers of one seed.
struct InputBases {
  uint64_t a, b, bias, pos_embed;
};

inline InputBases input_bases(uint64_t seed) {
  return {hash_base("A", seed), hash_base("B", seed), hash_base("bias", seed),
          hash_base("pos_embed", seed)};
}

} // namespace kernelrig
