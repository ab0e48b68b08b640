// Arithmetic of f32, f64 and f32x2: add, sub, mul, fma, div, rcp, sqrt, min, max, signs, tests.
//
// Sines, logarithms and powers have no handler: NumPy's own, which differ from the C library's in
// the last digit, are the reference. Nor has f64 another mode of rounding than to nearest.
#include "rounding.hpp"

namespace emu {
namespace {

template <Mode mode, bool FlushesTiny> struct Product {
  float operator()(float a, float b) const {
    const double product = double(a) * b;  // exact
    if (FlushesTiny)
      return canonical(to_float<mode>(flushed_if_rounded<mode>(product)));
    return mode == Mode::RN ? canonical(a * b) : canonical(to_float<mode>(product));
  }
};
template <Mode mode> struct FlushedProductSum {
  float operator()(float a, float b, float c) const {
    const double product = double(a) * b;
    const double total = signed_zero<mode>(odd_sum(product, c), product, c);
    return canonical(to_float<mode>(flushed_if_rounded<mode>(total)));
  }
};

// .ftz and .sat around a function of float.
template <class Operation, bool Ftz, bool Sat> struct Finished {
  template <class... T> float operator()(T... terms) const {
    float made = Ftz ? flushed(Operation()(flushed(terms)...)) : Operation()(terms...);
    return Sat ? saturated(made) : made;
  }
};

// Turns a quotient or root that was rounded to nearest; `error` has the sign of what it lacks.
template <Mode mode> float directed(float near, double error) {
  switch (mode) {
  case Mode::RZ:
    return (near > 0 ? error < 0 : error > 0 && near < 0) ? nearer_zero(near) : near;
  case Mode::RM:
    return error < 0 ? neighbour(near, false) : near;
  case Mode::RP:
    return error > 0 ? neighbour(near, true) : near;
  default:
    return near;
  }
}
template <Mode mode> struct Quotient {
  float operator()(float a, float b) const {
    const float near = a / b;
    if (mode == Mode::RN || b == 0 || !is_finite(a) || !is_finite(b))
      return canonical(near);
    // Exact in double: 48 bits of the product against 24.
    const double error = (double(a) - double(near) * b) * (is_negative(b) ? -1 : 1);
    return canonical(directed<mode>(near, error));
  }
};
template <Mode mode> struct Reciprocal {
  float operator()(float x) const { return Quotient<mode>()(1.0f, x); }
};
template <Mode mode> struct Root {
  float operator()(float x) const {
    const float near = std::sqrt(x);
    if (mode == Mode::RN || !is_finite(near))
      return canonical(near);
    return canonical(directed<mode>(near, double(x) - double(near) * near));
  }
};

// a times 1/b, which is flushed where b is large.
struct ApproximateQuotient {
  float operator()(float a, float b) const {
    const float plain = a / b;
    const bool large = size_of(b) > 0x1p126f && is_finite(b) && !is_nan(a);
    const bool infinite = size_of(a) == INFINITY;
    return canonical(!large ? plain : infinite ? NAN : with_sign(0.0f, plain));
  }
};
// The true value in double, rounded once.
struct ApproximateReciprocal {
  float operator()(float x) const { return canonical(float(1 / double(x))); }
};
struct ApproximateRoot {
  float operator()(float x) const { return canonical(float(std::sqrt(double(x)))); }
};
struct ApproximateInverseRoot {
  float operator()(float x) const { return canonical(float(1 / std::sqrt(double(x)))); }
};

// double. Of two NaNs the CPU keeps the first, quiet; a compiler may exchange the terms.
double quiet(double nan) { return bits_as<double>(bits_as<uint64_t>(nan) | 1ull << 51); }
double first_nan(double made, double a, double b) {
  return is_nan(a) ? quiet(a) : is_nan(b) ? quiet(b) : made;
}
struct Sum64 {
  double operator()(double a, double b) const { return first_nan(a + b, a, b); }
};
struct Difference64 {
  double operator()(double a, double b) const { return first_nan(a - b, a, b); }
};
struct Product64 {
  double operator()(double a, double b) const { return first_nan(a * b, a, b); }
};
struct ProductSum64 {
  double operator()(double a, double b, double c) const {
    if (!is_finite(a) || !is_finite(b))
      return Sum64()(Product64()(a, b), c);
    return is_finite(c) ? std::fma(a, b, c) : c;
  }
};
struct Quotient64 {
  double operator()(double a, double b) const { return first_nan(a / b, a, b); }
};
struct Reciprocal64 {
  double operator()(double x) const { return 1 / x; }
};
struct Root64 {
  double operator()(double x) const { return std::sqrt(x); }
};
struct InverseRoot64 {
  double operator()(double x) const { return 1 / std::sqrt(x); }
};
// From the upper 32 bits to the upper 32 bits, flushing.
template <class Operation> struct Gross {
  static double cut(double x) {
    const uint64_t bits = bits_as<uint64_t>(x);
    const uint64_t kept = bits & 0x7FF0000000000000 ? 0xFFFFFFFF00000000 : 1ull << 63;
    return bits_as<double>(bits & kept);
  }
  double operator()(double x) const { return cut(Operation()(cut(x))); }
};

struct Negate {
  template <class T> T operator()(T x) const { return with_sign(x, is_negative(x) ? T(1) : T(-1)); }
};
struct Absolute {
  template <class T> T operator()(T x) const { return size_of(x); }
};
struct CopySign {
  template <class T> T operator()(T sign, T x) const { return with_sign(x, sign); }
};

// min and max of f32 with any of .ftz (the first constant), .NaN, .xorsign, .abs.
template <class Pick> struct Extreme {
  bool ftz;
  Modified<Pick> pick;
  explicit Extreme(Immediates immediates) : ftz(immediates[0]), pick(immediates + 1) {}
  float flush(float x) const { return ftz ? flushed(x) : x; }
  float operator()(float a, float b) const { return flush(pick(flush(a), flush(b))); }
  float operator()(float a, float b, float c) const {
    return flush(pick(pick(flush(a), flush(b)), flush(c)));
  }
};

// testp. A zero is a normal number here.
template <class T> bool is_subnormal(T x) {
  return x != 0 && size_of(x) < (sizeof(T) == 4 ? T(0x1p-126) : T(0x1p-1022));
}
struct Finite {
  template <class T> bool operator()(T x) const { return is_finite(x); }
};
struct Infinite {
  template <class T> bool operator()(T x) const { return size_of(x) == T(INFINITY); }
};
struct Number {
  template <class T> bool operator()(T x) const { return !is_nan(x); }
};
struct NotANumber {
  template <class T> bool operator()(T x) const { return is_nan(x); }
};
struct Normal {
  template <class T> bool operator()(T x) const { return is_finite(x) && !is_subnormal(x); }
};
struct Subnormal {
  template <class T> bool operator()(T x) const { return is_subnormal(x); }
};

// Two float in 64 bits, the first below.
template <class Operation> struct EachFloat {
  template <class... T> uint64_t operator()(T... pairs) const {
    const float low = Operation()(bits_as<float>(uint32_t(pairs))...);
    const float high = Operation()(bits_as<float>(uint32_t(pairs >> 32))...);
    return uint64_t(bits_as<uint32_t>(high)) << 32 | bits_as<uint32_t>(low);
  }
};

// `word.mode`, with .ftz, .sat, both or neither. `Flushing` is the operation where there is .ftz.
template <class Operation, class Flushing, class... T>
NamedHandlers with_flags(const std::string& word) {
  return {named<Finished<Operation, false, false>, T...>(word + ".f32"),
          named<Finished<Flushing, true, false>, T...>(word + ".ftz.f32"),
          named<Finished<Operation, false, true>, T...>(word + ".sat.f32"),
          named<Finished<Flushing, true, true>, T...>(word + ".ftz.sat.f32")};
}
template <class Operation, class Flushing, class... T>
NamedHandlers in_pairs(const std::string& word) {
  return {named<EachFloat<Finished<Operation, false, false>>, T...>(word + ".f32x2"),
          named<EachFloat<Finished<Flushing, true, false>>, T...>(word + ".ftz.f32x2")};
}
template <class Operation, class Flushing> NamedHandlers of_two(const std::string& word) {
  return joined(with_flags<Operation, Flushing, float, float>(word),
                in_pairs<Operation, Flushing, uint64_t, uint64_t>(word));
}
template <class Operation, class Flushing> NamedHandlers of_three(const std::string& word) {
  return joined(with_flags<Operation, Flushing, float, float, float>(word),
                in_pairs<Operation, Flushing, uint64_t, uint64_t, uint64_t>(word));
}
template <class Operation, class... T> NamedHandlers with_ftz(const std::string& word) {
  return {named<Operation, T...>(word + ".f32"),
          named<Finished<Operation, true, false>, T...>(word + ".ftz.f32")};
}

template <class Pick> NamedHandlers extremes(const std::string& word) {
  return {named<Pick, float, float>(word + ".f32"), named<Pick, double, double>(word + ".f64"),
          named<Extreme<Pick>, float, float>(word + ".modified.f32"),
          named<Extreme<Pick>, float, float, float>(word + "3.f32")};
}

NamedHandlers rounded() {
  return of_modes([](auto constant) {
    constexpr Mode mode = decltype(constant)::value;
    const std::string suffix = std::string(".") + MODE_NAMES[int(mode)];
    return joined(of_two<Sum<mode>, Sum<mode>>("add" + suffix),
                  of_two<Difference<mode>, Difference<mode>>("sub" + suffix),
                  of_two<Product<mode, false>, Product<mode, true>>("mul" + suffix),
                  of_three<ProductSum<mode>, FlushedProductSum<mode>>("fma" + suffix),
                  with_ftz<Quotient<mode>, float, float>("div" + suffix),
                  with_ftz<Reciprocal<mode>, float>("rcp" + suffix),
                  with_ftz<Root<mode>, float>("sqrt" + suffix));
  });
}

const Handlers handlers(joined(
    rounded(), with_ftz<ApproximateQuotient, float, float>("div.approx"),
    with_ftz<Quotient<Mode::RN>, float, float>("div.full"),
    with_ftz<ApproximateReciprocal, float>("rcp.approx"),
    with_ftz<ApproximateRoot, float>("sqrt.approx"),
    with_ftz<ApproximateInverseRoot, float>("rsqrt.approx"),
    with_ftz<Negate, float>("neg"), with_ftz<Absolute, float>("abs"),
    unary<Negate, double>("neg"), unary<Absolute, double>("abs"),
    NamedHandlers{named<Sum64, double, double>("add.rn.f64"),
                  named<Difference64, double, double>("sub.rn.f64"),
                  named<Product64, double, double>("mul.rn.f64"),
                  named<ProductSum64, double, double, double>("fma.rn.f64"),
                  named<Quotient64, double, double>("div.rn.f64"),
                  named<Reciprocal64, double>("rcp.rn.f64"),
                  named<Root64, double>("sqrt.rn.f64"),
                  named<Gross<Reciprocal64>, double>("rcp.approx.ftz.f64"),
                  named<Gross<InverseRoot64>, double>("rsqrt.approx.ftz.f64"),
                  named<InverseRoot64, double>("rsqrt.approx.f64")},
    extremes<Smaller>("min"), extremes<Larger>("max"), binary<CopySign, float, double>("copysign"),
    unary<Finite, float, double>("testp.finite"), unary<Infinite, float, double>("testp.infinite"),
    unary<Number, float, double>("testp.number"),
    unary<NotANumber, float, double>("testp.notanumber"),
    unary<Normal, float, double>("testp.normal"),
    unary<Subnormal, float, double>("testp.subnormal")));

}  // namespace
}  // namespace emu
