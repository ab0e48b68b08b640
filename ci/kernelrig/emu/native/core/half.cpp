// Arithmetic of f16 and bf16, alone and in pairs: computed as float or double, then rounded once.
//
// float has more than twice the digits of either format and two: a sum or a product that is rounded
// to float first is none the worse. That of a sum of a product is rounded to odd instead.
#include "rounding.hpp"

namespace emu {
namespace {

// Bits are in the lower half of 32.
struct F16 {
  static constexpr int DIGITS = 10, LOWEST = -14;
  static float value(uint32_t bits) { return of_f16(bits); }
  template <class T> static uint32_t bits(T x) { return to_f16(x); }
};
struct Bf16 {
  static constexpr int DIGITS = 7, LOWEST = -126;
  static float value(uint32_t bits) { return of_bf16(bits); }
  template <class T> static uint32_t bits(T x) { return to_bf16(x); }
};

struct Add {
  float operator()(float a, float b) const { return a + b; }
};
struct Subtract {
  float operator()(float a, float b) const { return a - b; }
};
struct Multiply {
  float operator()(float a, float b) const { return a * b; }
};
struct MultiplyAdd {
  double operator()(float a, float b, float c) const { return odd_sum(double(a) * b, c); }
};
struct Negate {
  float operator()(float a) const { return -a; }
};
struct Absolute {
  float operator()(float a) const { return size_of(a); }
};
// min and max of three.
template <class Pick> struct Three {
  Pick pick;
  explicit Three(Immediates immediates) : pick(immediates) {}
  float operator()(float a, float b, float c) const { return pick(pick(a, b), c); }
};

template <class Kind, class Operation> struct Plain {
  template <class... Bits> uint32_t operator()(Bits... terms) const {
    return Kind::bits(Operation()(Kind::value(terms)...));
  }
};

// With .ftz, .sat and .relu, its constants; more are the operation's.
template <class Kind, class Operation> struct Around {
  bool ftz, sat, relu;
  Operation of;
  explicit Around(Immediates immediates)
      : ftz(immediates[0]), sat(immediates[1]), relu(immediates[2]),
        of(operation<Operation>(immediates + 3)) {}

  float flush(float x) const {
    return ftz && size_of(x) < float(std::ldexp(1.0, Kind::LOWEST)) ? with_sign(0.0f, x) : x;
  }
  template <class... Bits> uint32_t operator()(Bits... terms) const {
    auto made = of(flush(Kind::value(terms))...);
    if (ftz)
      made = decltype(made)(flushed_if_rounded<Mode::RN, Kind::DIGITS, Kind::LOWEST>(made));
    made = sat ? saturated(made) : made;
    return Kind::bits(relu ? rectified(made) : made);
  }
};

// One in a register of 16 bits, or two in one of 32.
template <class Operation> struct One {
  Operation of;
  explicit One(Immediates immediates) : of(operation<Operation>(immediates)) {}
  template <class... T> uint16_t operator()(T... terms) const {
    return uint16_t(of(uint32_t(terms)...));
  }
};
template <class Operation> struct Two {
  Operation of;
  explicit Two(Immediates immediates) : of(operation<Operation>(immediates)) {}
  template <class... T> uint32_t operator()(T... terms) const {
    return of((terms & 0xFFFF)...) | of((terms >> 16)...) << 16;
  }
};

template <class T, size_t> using Repeated = T;

template <class Operation, size_t... K>
NamedHandlers alone_and_paired(const std::string& name, std::index_sequence<K...>) {
  return {named<One<Operation>, Repeated<uint16_t, K>...>(name),
          named<Two<Operation>, Repeated<uint32_t, K>...>(name + "x2")};
}
template <class Operation, int Terms> NamedHandlers formed(const std::string& name) {
  return alone_and_paired<Operation>(name, std::make_index_sequence<Terms>());
}

// `word` is plain, `word.modified` has the modifiers as constants. Of bf16, fma alone has one.
template <class Operation, int Terms> NamedHandlers arithmetic(const std::string& word) {
  return joined(formed<Plain<F16, Operation>, Terms>(word + ".f16"),
                formed<Plain<Bf16, Operation>, Terms>(word + ".bf16"),
                formed<Around<F16, Operation>, Terms>(word + ".modified.f16"));
}
template <class Pick> NamedHandlers extremes(const std::string& word) {
  using Any = Modified<Pick>;
  return joined(formed<Plain<F16, Pick>, 2>(word + ".f16"),
                formed<Plain<Bf16, Pick>, 2>(word + ".bf16"),
                formed<Around<F16, Any>, 2>(word + ".modified.f16"),
                formed<Around<Bf16, Any>, 2>(word + ".modified.bf16"),
                formed<Around<F16, Three<Any>>, 3>(word + "3.f16"),
                formed<Around<Bf16, Three<Any>>, 3>(word + "3.bf16"));
}

// neg and abs without .ftz change a bit of each, and nothing else.
struct Flip {
  template <class T> T operator()(T x) const { return T(x ^ T(0x80008000)); }
};
struct Clear {
  template <class T> T operator()(T x) const { return T(x & T(0x7FFF7FFF)); }
};
template <class Operation> NamedHandlers signs(const std::string& word) {
  NamedHandlers made;
  for (const char* kind : {".f16", ".bf16"}) {
    made.push_back(named<Operation, uint16_t>(word + kind));
    made.push_back(named<Operation, uint32_t>(word + kind + "x2"));
  }
  return made;
}

// add, sub and fma of float whose first terms are halves; the constant is .sat.
template <class Kind, class Operation> struct Mixed {
  bool sat;
  explicit Mixed(Immediates immediates) : sat(immediates[0]) {}
  float operator()(uint16_t a, float b) const { return finished(Operation()(Kind::value(a), b)); }
  float operator()(uint16_t a, uint16_t b, float c) const {
    return finished(Operation()(Kind::value(a), Kind::value(b), c));
  }
  float finished(float x) const { return sat ? saturated(x) : x; }
};
template <class Kind> NamedHandlers mixed(const std::string& kind) {
  return of_modes([&](auto constant) {
    constexpr Mode mode = decltype(constant)::value;
    const std::string suffix = std::string(".") + MODE_NAMES[int(mode)] + ".f32." + kind;
    return NamedHandlers{
        named<Mixed<Kind, Sum<mode>>, uint16_t, float>("add" + suffix),
        named<Mixed<Kind, Difference<mode>>, uint16_t, float>("sub" + suffix),
        named<Mixed<Kind, ProductSum<mode>>, uint16_t, uint16_t, float>("fma" + suffix)};
  });
}

const Handlers handlers(joined(
    arithmetic<Add, 2>("add"), arithmetic<Subtract, 2>("sub"), arithmetic<Multiply, 2>("mul"),
    arithmetic<MultiplyAdd, 3>("fma"),
    formed<Around<Bf16, MultiplyAdd>, 3>("fma.modified.bf16"), signs<Flip>("neg"), signs<Clear>("abs"),
    formed<Around<F16, Negate>, 1>("neg.modified.f16"),
    formed<Around<F16, Absolute>, 1>("abs.modified.f16"), extremes<Smaller>("min"),
    extremes<Larger>("max"), mixed<F16>("f16"), mixed<Bf16>("bf16")));

}  // namespace
}  // namespace emu
