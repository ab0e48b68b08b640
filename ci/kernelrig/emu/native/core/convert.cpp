// cvt: between integers, floats, and the packed formats of 16 and 8 bits.
//
// `cvt.to.from` takes any modifier as a constant and goes by double; what occurs in every kernel
// has a handler of its own, `cvt.plain.to.from`.
#include <limits>

#include "rounding.hpp"

namespace emu {
namespace {

// The constants of a conversion, in this order.
struct Flags {
  Mode mode;
  int integral;  // of rni, rzi, rmi, rpi; -1 for none
  bool ftz, sat, relu, finite;
  explicit Flags(Immediates given)
      : mode(Mode(given[0])), integral(int(given[1])), ftz(given[2]), sat(given[3]),
        relu(given[4]), finite(given[5]) {}
};

// All ways are computed and one is chosen, the same in all lanes: no branch keeps lanes apart.
double to_integral(double x, int way) {
  const double near = std::nearbyint(x), zero = std::trunc(x);
  const double below = std::floor(x), above = std::ceil(x);
  return way == 0 ? near : way == 1 ? zero : way == 2 ? below : above;
}

double power_of_two(int64_t exponent) { return bits_as<double>((exponent + 1023) << 52); }

// Rounds a double to a value of a format: explicit digits, lowest normal exponent, largest value.
// Called a lane at a time: unrolled into each of its many users it would take minutes to compile.
struct Format {
  int digits, lowest;
  double largest;

  [[gnu::noinline]] double rounded(double x, Mode mode, bool finite) const {
    const int64_t exponent = int64_t(bits_as<uint64_t>(x) >> 52 & 0x7FF) - 1023;
    const int64_t unit = (exponent > lowest ? exponent : lowest) - digits;
    const double scaled = x * power_of_two(-unit);
    const double away = std::trunc(scaled + with_sign(0.5, scaled));
    const double whole = mode == Mode::RNA ? away : to_integral(scaled, int(mode));
    const double result = is_finite(x) ? whole * power_of_two(unit) : x;
    const bool bounded = finite || (is_finite(x) && (mode == Mode::RZ ||
                                                     (mode == Mode::RM && result > 0) ||
                                                     (mode == Mode::RP && result < 0)));
    const double beyond = with_sign(bounded ? largest : INFINITY, result);
    return size_of(result) > largest ? beyond : result;
  }
};
constexpr Format BF16{7, -126, 0x1.fep127}, HALF{10, -14, 65504}, TF32{10, -126, 0x1.ffcp127};
constexpr Format E4M3{3, -6, 448}, E5M2{2, -14, 57344};

[[gnu::noinline]] float to_float(double x, Mode mode) {
  switch (mode) {
  case Mode::RZ:
    return emu::to_float<Mode::RZ>(x);
  case Mode::RM:
    return emu::to_float<Mode::RM>(x);
  case Mode::RP:
    return emu::to_float<Mode::RP>(x);
  default:
    return emu::to_float<Mode::RN>(x);
  }
}

// A float in a register: the bits it is read as, its value, and how a double is rounded to it.
struct F16 {
  using Bits = uint16_t;
  static constexpr int DIGITS = 10;
  static double value(Bits bits) { return of_f16(bits); }
  static Bits narrowed(double x, const Flags& flags) {
    return Bits(to_f16(float(HALF.rounded(x, flags.mode, flags.finite))));
  }
};
struct Bf16 {
  using Bits = uint16_t;
  static constexpr int DIGITS = 7;
  static double value(Bits bits) { return of_bf16(bits); }
  static Bits narrowed(double x, const Flags& flags) {
    return Bits(to_bf16(float(BF16.rounded(x, flags.mode, flags.finite))));
  }
};
struct F32 {
  using Bits = float;
  static constexpr int DIGITS = 23;
  static double value(Bits bits) { return bits; }
  static Bits narrowed(double x, const Flags& flags) { return canonical(to_float(x, flags.mode)); }
};
struct F64 {
  using Bits = double;
  static constexpr int DIGITS = 52;
  static double value(Bits bits) { return bits; }
  static Bits narrowed(double x, const Flags&) { return x; }
};

template <class To, class From> constexpr bool SAME = std::is_same_v<To, From>;

// A quiet NaN with the sign and upper digits of one of double.
template <class To> typename To::Bits upper_nan(double nan) {
  using Raw = std::conditional_t<sizeof(typename To::Bits) == 2, uint16_t,
                                 std::conditional_t<SAME<To, F32>, uint32_t, uint64_t>>;
  constexpr int width = 8 * sizeof(Raw);
  const uint64_t bits = bits_as<uint64_t>(nan);
  const uint64_t sign = bits >> 63 << (width - 1);
  const uint64_t is_quiet = (1ull << (width - 1)) - (1ull << (To::DIGITS - 1));
  const uint64_t kept = bits >> (52 - To::DIGITS) & ((1ull << To::DIGITS) - 1);
  return bits_as<typename To::Bits>(Raw(sign | is_quiet | kept));
}

template <class To, class From> struct FloatToFloat {
  Flags flags;
  explicit FloatToFloat(Immediates given) : flags(given) {}
  typename To::Bits operator()(typename From::Bits x) const {
    double number = From::value(x);
    if constexpr (SAME<From, F32>)
      number = flags.ftz ? flushed(x) : x;
    number = flags.integral < 0 ? number : to_integral(number, flags.integral);
    number = flags.sat ? saturated(number) : number;
    number = flags.relu ? rectified(number) : number;
    auto made = To::narrowed(number, flags);
    if constexpr (SAME<From, F64>)
      made = is_nan(number) ? upper_nan<To>(number) : made;
    if constexpr (SAME<To, F32>)
      made = flags.ftz ? flushed(made) : made;
    return made;
  }
};

template <class To, class From> struct FloatToInteger {
  Flags flags;
  explicit FloatToInteger(Immediates given) : flags(given) {}
  To operator()(typename From::Bits x) const {
    double number = From::value(x);
    if constexpr (SAME<From, F32>)
      number = flags.ftz ? flushed(x) : x;
    constexpr To lowest = std::numeric_limits<To>::min(), highest = std::numeric_limits<To>::max();
    // As a double the highest of 64 bits is one too large: those above are chosen.
    const double low = double(lowest), high = double(highest);
    const bool marks = SAME<From, F64> || sizeof(To) == 8;
    const To of_nan = marks ? To(1ull << (8 * sizeof(To) - 1)) : To(0);
    const double whole = to_integral(number, flags.integral);
    const bool above = whole >= high, below = whole < low;
    const double inside = above || below || is_nan(whole) ? 0 : whole;
    const To made = To(inside);
    return is_nan(whole) ? of_nan : below ? lowest : above ? highest : made;
  }
};

// A double of an integer, rounded to odd where it has too few digits for it.
template <class T> double odd_double(T x) {
  if constexpr (sizeof(T) < 8) {
    return double(x);
  } else {
    const uint64_t size = x < 0 ? 0 - uint64_t(x) : uint64_t(x);
    const uint64_t low = size & 0x7FF;
    const uint64_t cut = (size - low) | uint64_t(low != 0) << 11;
    const double value = double(size >> 53 ? cut : size);
    return x < 0 ? -value : value;
  }
}

template <class To, class From> struct IntegerToFloat {
  Flags flags;
  explicit IntegerToFloat(Immediates given) : flags(given) {}
  typename To::Bits operator()(From x) const {
    return To::narrowed(flags.sat ? saturated(double(x)) : odd_double(x), flags);
  }
};
template <class To> struct Cast {
  template <class From> To operator()(From x) const { return To(x); }
};
template <class To> struct Clamp {
  template <class From> To operator()(From x) const {
    using Wide = __int128;
    const Wide low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    return Wide(x) < low ? To(low) : Wide(x) > high ? To(high) : To(x);
  }
};

struct Bf16ToFloat {
  float operator()(uint16_t x) const { return of_bf16(x); }
};
struct F16ToFloat {
  float operator()(uint16_t x) const { return canonical(of_f16(x)); }
};
struct FloatToBf16 {
  uint16_t operator()(float x) const { return uint16_t(to_bf16(x)); }
};
struct FloatToF16 {
  uint16_t operator()(float x) const { return uint16_t(to_f16(x)); }
};

// Of two floats the first becomes the upper half.
struct FloatsToBf16 {
  uint32_t operator()(float upper, float lower) const {
    return (bf16_above(upper) & 0xFFFF0000) | bf16_above(lower) >> 16;
  }
};
struct FloatsToF16 {
  uint32_t operator()(float upper, float lower) const {
    return to_f16(upper) << 16 | to_f16(lower);
  }
};
template <class To> struct FloatsToPair {
  FloatToFloat<To, F32> each;
  explicit FloatsToPair(Immediates given) : each(given) {}
  uint32_t operator()(float upper, float lower) const {
    return uint32_t(each(upper)) << 16 | each(lower);
  }
};

struct FloatToTf32 {
  Flags flags;
  explicit FloatToTf32(Immediates given) : flags(given) {}
  uint32_t operator()(float x) const {
    const double value = flags.relu ? rectified(double(x)) : x;
    const float made = float(TF32.rounded(value, flags.mode, flags.finite));
    // .rna keeps the upper bits of a NaN, so that some become infinite.
    const uint32_t nan = flags.mode == Mode::RNA ? bits_as<uint32_t>(x) & 0xFFFFE000 : 0x7FFFE000;
    return is_nan(value) ? nan : bits_as<uint32_t>(made);
  }
};

// Bytes, to the largest value where it is too large. One NaN.
struct E4m3 {
  static uint32_t of(double x) {
    const float value = float(E4M3.rounded(x, Mode::RN, true));
    const uint32_t bits = bits_as<uint32_t>(value), sign = bits >> 31 << 7;
    const float size = size_of(value);
    // Exponent and three digits, with the other bias.
    const uint32_t normal = (bits_as<uint32_t>(size) >> 20) - ((127 - 7) << 3);
    return is_nan(x) ? 0x7F : sign | (size < 0x1p-6f ? uint32_t(size * 512) : normal);
  }
  static float value(uint32_t byte) {
    const uint32_t size = byte & 0x7F;
    const float normal = bits_as<float>((size + ((127 - 7) << 3)) << 20);
    const float made = size == 0x7F ? NAN : size < 8 ? float(size) * 0x1p-9f : normal;
    return byte & 0x80 ? -made : made;
  }
};
struct E5m2 {
  static uint32_t of(double x) {
    return is_nan(x) ? 0x7F : to_f16(float(E5M2.rounded(x, Mode::RN, true))) >> 8;
  }
  static float value(uint32_t byte) { return of_f16(byte << 8); }
};

// The constant is .relu.
template <class Eight> struct ToEight {
  bool relu;
  explicit ToEight(Immediates given) : relu(given[0]) {}
  uint32_t one(double x) const { return Eight::of(relu ? rectified(x) : x); }
  uint16_t operator()(float upper, float lower) const {
    return uint16_t(one(upper) << 8 | one(lower));
  }
  uint16_t operator()(uint32_t halves) const {
    return (*this)(of_f16(halves >> 16), of_f16(halves & 0xFFFF));
  }
};
template <class Eight> struct OfEight {
  bool relu;
  explicit OfEight(Immediates given) : relu(given[0]) {}
  uint32_t one(uint32_t byte) const {
    const float value = Eight::value(byte);
    return to_f16(relu ? rectified(value) : value);
  }
  uint32_t operator()(uint16_t bytes) const { return one(bytes >> 8) << 16 | one(bytes & 0xFF); }
};

template <class T> struct Name : TypeName<T> {};
template <> struct Name<F16> { static constexpr const char* value = "f16"; };
template <> struct Name<Bf16> { static constexpr const char* value = "bf16"; };
template <> struct Name<F32> { static constexpr const char* value = "f32"; };
template <> struct Name<F64> { static constexpr const char* value = "f64"; };

template <class To, class From> std::string name(const std::string& word) {
  return word + "." + Name<To>::value + "." + Name<From>::value;
}
template <class To, class... From> NamedHandlers to_from_floats() {
  return {named<FloatToFloat<To, From>, typename From::Bits>(name<To, From>("cvt"))...};
}
template <class To, class... From> NamedHandlers to_from_integers() {
  return {named<IntegerToFloat<To, From>, From>(name<To, From>("cvt"))...};
}
template <class To> NamedHandlers to_float() {
  return joined(to_from_floats<To, F16, Bf16, F32, F64>(),
                to_from_integers<To, uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t,
                                 uint64_t, int64_t>());
}
template <class To> NamedHandlers to_integer_from_floats() {
  return {named<FloatToInteger<To, F16>, uint16_t>(name<To, F16>("cvt")),
          named<FloatToInteger<To, Bf16>, uint16_t>(name<To, Bf16>("cvt")),
          named<FloatToInteger<To, F32>, float>(name<To, F32>("cvt")),
          named<FloatToInteger<To, F64>, double>(name<To, F64>("cvt"))};
}
template <template <class> class Operation, class To, class... From>
NamedHandlers to_from(const std::string& word) {
  return {named<Operation<To>, From>(name<To, From>(word))...};
}
template <template <class> class Operation, class To>
NamedHandlers of_integers(const std::string& word) {
  return to_from<Operation, To, uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t,
                 int64_t>(word);
}
template <class To> NamedHandlers to_integer() {
  return joined(of_integers<Cast, To>("cvt"), of_integers<Clamp, To>("cvt.sat"),
                to_integer_from_floats<To>());
}

const Handlers handlers(joined(
    to_integer<uint8_t>(), to_integer<int8_t>(), to_integer<uint16_t>(), to_integer<int16_t>(),
    to_integer<uint32_t>(), to_integer<int32_t>(), to_integer<uint64_t>(), to_integer<int64_t>(),
    to_float<F16>(), to_float<Bf16>(), to_float<F32>(),
    to_from_floats<F64, F16, Bf16, F32, F64>(),
    of_integers<Cast, float>("cvt.plain"), of_integers<Cast, double>("cvt.plain"),
    NamedHandlers{named<Bf16ToFloat, uint16_t>("cvt.plain.f32.bf16"),
                  named<F16ToFloat, uint16_t>("cvt.plain.f32.f16"),
                  named<FloatToBf16, float>("cvt.plain.bf16.f32"),
                  named<FloatToF16, float>("cvt.plain.f16.f32"),
                  named<Cast<double>, float>("cvt.plain.f64.f32"),
                  named<Cast<float>, double>("cvt.plain.f32.f64"),
                  named<FloatsToBf16, float, float>("cvt.plain.bf16x2.f32"),
                  named<FloatsToF16, float, float>("cvt.plain.f16x2.f32"),
                  named<FloatsToPair<Bf16>, float, float>("cvt.bf16x2.f32"),
                  named<FloatsToPair<F16>, float, float>("cvt.f16x2.f32"),
                  named<FloatToTf32, float>("cvt.tf32.f32"),
                  named<ToEight<E4m3>, float, float>("cvt.e4m3x2.f32"),
                  named<ToEight<E5m2>, float, float>("cvt.e5m2x2.f32"),
                  named<ToEight<E4m3>, uint32_t>("cvt.e4m3x2.f16x2"),
                  named<ToEight<E5m2>, uint32_t>("cvt.e5m2x2.f16x2"),
                  named<OfEight<E4m3>, uint16_t>("cvt.f16x2.e4m3x2"),
                  named<OfEight<E5m2>, uint16_t>("cvt.f16x2.e5m2x2")}));

}  // namespace
}  // namespace emu
