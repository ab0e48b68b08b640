// Floats as PTX has them, to the bit: rounding, the one NaN, formats of 16 bits.
//
// The twin of numerics/rounding.py and numerics/float_functions.py. What has to be rounded is a
// double that is exact, or that was rounded to odd: its last bit says that something lies beyond.
// NaNs are told by x != x; which NaN an operation of the CPU makes matters only where it says so.
#pragma once

#include <cmath>

#include "lanes.hpp"

namespace emu {

enum class Mode { RN, RZ, RM, RP, RNA };

constexpr uint32_t NAN_F32 = 0x7FFFFFFF;
constexpr uint64_t NAN_F64 = 0x7FF8000000000000;
constexpr uint32_t NAN_HALF = 0x7FFF;

inline bool is_nan(double x) { return x != x; }
inline bool is_nan(float x) { return x != x; }
inline bool is_finite(double x) {
  return (bits_as<uint64_t>(x) & 0x7FF0000000000000) != 0x7FF0000000000000;
}
inline bool is_finite(float x) { return (bits_as<uint32_t>(x) & 0x7F800000) != 0x7F800000; }
inline bool is_negative(double x) { return bits_as<uint64_t>(x) >> 63; }
inline bool is_negative(float x) { return bits_as<uint32_t>(x) >> 31; }
inline double size_of(double x) { return bits_as<double>(bits_as<uint64_t>(x) & ~(1ull << 63)); }
inline float size_of(float x) { return bits_as<float>(bits_as<uint32_t>(x) & 0x7FFFFFFF); }
inline double with_sign(double x, double sign) {
  const uint64_t top = 1ull << 63;
  return bits_as<double>((bits_as<uint64_t>(x) & ~top) | (bits_as<uint64_t>(sign) & top));
}
inline float with_sign(float x, float sign) {
  const uint32_t top = 1u << 31;
  return bits_as<float>((bits_as<uint32_t>(x) & ~top) | (bits_as<uint32_t>(sign) & top));
}

inline float canonical(float x) { return is_nan(x) ? bits_as<float>(NAN_F32) : x; }
inline double canonical(double x) { return is_nan(x) ? bits_as<double>(NAN_F64) : x; }

// What is subnormal becomes a zero of its sign.
inline float flushed(float x) {
  const uint32_t bits = bits_as<uint32_t>(x);
  return bits_as<float>(bits & 0x7F800000 ? bits : bits & 0x80000000);
}

// In [0, 1]; 0 of a NaN.
template <class T> T saturated(T x) { return x > 0 ? (x < T(1) ? x : T(1)) : T(0); }
// 0 where it is negative; a NaN stays.
template <class T> T rectified(T x) { return x > 0 || is_nan(x) ? x : T(0); }

// The float next to x, above or below.
inline float neighbour(float x, bool above) {
  const uint32_t bits = bits_as<uint32_t>(x);
  if ((bits & 0x7FFFFFFF) == 0)
    return bits_as<float>(above ? 1u : 0x80000001u);
  return bits_as<float>(is_negative(x) == above ? bits - 1 : bits + 1);
}
inline float nearer_zero(float x) { return bits_as<float>(bits_as<uint32_t>(x) - 1); }

// a + b rounded to odd. Knuth's TwoSum says what the addition lost, exactly.
inline double odd_sum(double a, double b) {
  const double total = a + b;
  const double shadow = total - a;
  const double lost = (a - (total - shadow)) + (b - shadow);
  const int64_t bits = bits_as<int64_t>(total);
  // Away from zero where what was lost has the sum's sign; selects, so that lanes are vectors.
  const int64_t step = 1 | (bits_as<int64_t>(lost) ^ bits) >> 63;
  const int64_t inexact = lost != 0 ? step : 0;
  const int64_t finite = (bits & 0x7FF0000000000000) != 0x7FF0000000000000 ? inexact : 0;
  return bits_as<double>(bits + (bits & 1 ? 0 : finite));
}

// A sum's zero: rounding down, terms that cancel leave -0.
template <Mode mode> double signed_zero(double sum, double a, double b) {
  if (mode != Mode::RM)
    return sum;
  return sum == 0 && (is_negative(a) || is_negative(b)) ? -0.0 : sum;
}

template <Mode mode> float to_float(double x) {
  const float near = float(x);
  const double back = near;
  switch (mode) {
  case Mode::RZ:
    return size_of(back) > size_of(x) ? nearer_zero(near) : near;
  case Mode::RM:
    return back > x ? neighbour(near, false) : near;
  case Mode::RP:
    return back < x ? neighbour(near, true) : near;
  default:
    return near;
  }
}

// A zero of its sign where x is tiny: below the lowest normal number 2^Lowest once it is rounded
// to `Digits`, with no end to the exponents below.
template <Mode mode, int Digits = 23, int Lowest = -126> double flushed_if_rounded(double x) {
  const double smallest = std::ldexp(1.0, Lowest);
  // Below the lowest normal the next number is half as far as above it.
  const double half = std::ldexp(0.25, Lowest - Digits);
  const double size = size_of(x);
  bool tiny;
  switch (mode) {
  case Mode::RN:
    tiny = size < smallest - half;  // halfway is even above
    break;
  case Mode::RZ:
    tiny = size < smallest;
    break;
  default:
    tiny = is_negative(x) == (mode == Mode::RM) ? size <= smallest - 2 * half : size < smallest;
  }
  return tiny ? with_sign(0.0, x) : x;
}

// bfloat16 is the upper half of a float.
inline float of_bf16(uint32_t bits) { return bits_as<float>(bits << 16); }

// Round to nearest even; the result is in the upper half, what is below means nothing.
inline uint32_t bf16_above(float x) {
  const uint32_t bits = bits_as<uint32_t>(x);
  return is_nan(x) ? NAN_HALF << 16 : bits + 0x7FFF + (bits >> 16 & 1);
}
inline uint32_t to_bf16(float x) { return bf16_above(x) >> 16; }

// A float that rounds to the bfloat16 that x does.
inline float on_the_way(double x) {
  const float near = float(x);
  const double back = near;
  const uint32_t bits = bits_as<uint32_t>(near);
  // It may lie halfway between two bfloat16 where x does not.
  const bool off = (x != back) & ((bits & 0x7FFF) == 0) & !is_nan(x);
  return off ? neighbour(near, x > back) : near;
}

// The half as a float. Its NaNs become NaNs.
inline float of_f16(uint32_t bits) {
  const uint32_t sign = (bits & 0x8000) << 16;
  // Exponent and digits in their places, then the difference of the biases: subnormals too.
  const uint32_t shifted = (bits & 0x7FFF) << 13;
  const uint32_t scaled = bits_as<uint32_t>(bits_as<float>(shifted) * 0x1p112f);
  return bits_as<float>(sign | ((bits & 0x7C00) == 0x7C00 ? shifted | 0x7F800000 : scaled));
}

// Round to nearest even.
inline uint32_t to_f16(float x) {
  const uint32_t bits = bits_as<uint32_t>(x), size = bits & 0x7FFFFFFF;
  const uint32_t sign = bits >> 16 & 0x8000;
  // Normal: the bias changes, and what is cut off rounds.
  const uint32_t normal = (size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13;
  // Subnormal: an addition puts the unit of the last place where it rounds.
  const uint32_t small = bits_as<uint32_t>(bits_as<float>(size) + 0.5f) - 0x3F000000;
  const uint32_t made = size >= 0x477FF000 ? 0x7C00 : size < 0x38800000 ? small : normal;
  return size > 0x7F800000 ? NAN_HALF : sign | made;
}

// A float that rounds to the half that x does: rounded to odd.
inline float odd_float(double x) {
  const float near = float(x);
  const double back = near;
  const uint32_t bits = bits_as<uint32_t>(near);
  const uint32_t toward_zero = size_of(back) > size_of(x) ? bits - 1 : bits;
  return bits_as<float>(x != back && !is_nan(x) ? toward_zero | 1 : bits);
}
inline uint32_t to_f16(double x) { return to_f16(odd_float(x)); }
inline uint32_t to_bf16(double x) { return to_bf16(on_the_way(x)); }

// The smaller or larger; the other one of a NaN; -0 is smaller than +0.
struct Smaller {
  template <class T> T operator()(T a, T b) const {
    const bool first = (a < b) | ((a == b) & is_negative(a)) | is_nan(b);
    return canonical(first ? a : b);
  }
};
struct Larger {
  template <class T> T operator()(T a, T b) const {
    const bool first = (a > b) | ((a == b) & is_negative(b)) | is_nan(b);
    return canonical(first ? a : b);
  }
};

// With .NaN, .xorsign and .abs, its constants.
template <class Pick> struct Modified {
  bool nan, xorsign, absolute;
  explicit Modified(Immediates immediates)
      : nan(immediates[0]), xorsign(immediates[1]), absolute(immediates[2]) {}
  template <class T> T operator()(T a, T b) const {
    T made = absolute ? Pick()(size_of(a), size_of(b)) : Pick()(a, b);
    if (nan && (is_nan(a) || is_nan(b)))
      made = canonical(a + b);
    if (xorsign && !is_nan(made))
      made = with_sign(made, is_negative(a) != is_negative(b) ? T(-1) : T(1));
    return made;
  }
};

// a + b and a * b + c of float, rounded once.
template <Mode mode> struct Sum {
  float operator()(float a, float b) const {
    if (mode == Mode::RN)
      return canonical(a + b);
    return canonical(to_float<mode>(signed_zero<mode>(odd_sum(a, b), a, b)));
  }
};
template <Mode mode> struct Difference {
  float operator()(float a, float b) const { return Sum<mode>()(a, -b); }
};
template <Mode mode> struct ProductSum {
  float operator()(float a, float b, float c) const {
    if (mode == Mode::RN)
      return canonical(std::fma(a, b, c));
    const double product = double(a) * b;
    return canonical(to_float<mode>(signed_zero<mode>(odd_sum(product, c), product, c)));
  }
};

constexpr const char* MODE_NAMES[] = {"rn", "rz", "rm", "rp"};

// The handlers of all modes of rounding: `of` is called with each, as a constant.
template <class F> NamedHandlers of_modes(F of) {
  return joined(of(std::integral_constant<Mode, Mode::RN>()),
                of(std::integral_constant<Mode, Mode::RZ>()),
                of(std::integral_constant<Mode, Mode::RM>()),
                of(std::integral_constant<Mode, Mode::RP>()));
}

}  // namespace emu
