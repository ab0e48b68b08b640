// Integers: arithmetic, products, division, dot products.
//
// Signed numbers are added and multiplied as unsigned ones, which wrap; products are taken in twice
// the width. Names are PTX's words and the type, as isa/integer.py says them.
#include "lanes.hpp"

namespace emu {
namespace {

template <class T> using Unsigned = std::make_unsigned_t<T>;

// Twice as wide; arithmetic on it is never narrower than int.
template <class T> struct Twice;
template <> struct Twice<uint16_t> { using Type = uint32_t; };
template <> struct Twice<int16_t> { using Type = int32_t; };
template <> struct Twice<uint32_t> { using Type = uint64_t; };
template <> struct Twice<int32_t> { using Type = int64_t; };
template <> struct Twice<uint64_t> { using Type = unsigned __int128; };
template <> struct Twice<int64_t> { using Type = __int128; };
template <class T> using Wide = typename Twice<T>::Type;

// At least 32 bits, unsigned: what wraps in it wraps in T.
template <class T>
using Modular = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;

struct Add {
  template <class T> T operator()(T a, T b) const { return T(Modular<T>(a) + Modular<T>(b)); }
};
struct Subtract {
  template <class T> T operator()(T a, T b) const { return T(Modular<T>(a) - Modular<T>(b)); }
};
struct Negate {
  template <class T> T operator()(T a) const { return T(Modular<T>(0) - Modular<T>(a)); }
};
struct Absolute {
  template <class T> T operator()(T a) const { return a < 0 ? Negate()(a) : a; }
};
struct Minimum {
  template <class T> T operator()(T a, T b) const { return a < b ? a : b; }
};
struct Maximum {
  template <class T> T operator()(T a, T b) const { return a > b ? a : b; }
};
template <class Operation> struct NotNegative {
  template <class T> T operator()(T a, T b) const { return Maximum()(Operation()(a, b), T(0)); }
};

int32_t clamped(int64_t x) {
  return int32_t(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x);
}
struct AddSaturated {
  int32_t operator()(int32_t a, int32_t b) const { return clamped(int64_t(a) + b); }
};
struct SubtractSaturated {
  int32_t operator()(int32_t a, int32_t b) const { return clamped(int64_t(a) - b); }
};

// An operation on both halves of 32 bits.
template <class Operation, class Half> struct EachHalf {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    const Half low = Operation()(Half(a), Half(b));
    const Half high = Operation()(Half(a >> 16), Half(b >> 16));
    return uint32_t(uint16_t(high)) << 16 | uint16_t(low);
  }
};

struct Low {
  template <class T> T operator()(T a, T b) const { return T(Modular<T>(a) * Modular<T>(b)); }
};
struct High {
  template <class T> T operator()(T a, T b) const {
    return T(Wide<T>(a) * Wide<T>(b) >> 8 * sizeof(T));
  }
};
struct Whole {
  template <class T> Wide<T> operator()(T a, T b) const { return Wide<T>(a) * Wide<T>(b); }
};
template <class Product> struct ThenAdd {
  template <class T, class C> C operator()(T a, T b, C c) const {
    return Add()(C(Product()(a, b)), c);
  }
};
template <class Product> struct ThenAddSaturated {
  int32_t operator()(int32_t a, int32_t b, int32_t c) const {
    return clamped(int64_t(Product()(a, b)) + c);
  }
};

// The product of the low 24 bits of each, from bit `Shift` on.
template <int Shift> struct Product24 {
  static int64_t cut(int32_t x) { return int32_t(uint32_t(x) << 8) >> 8; }
  static uint64_t cut(uint32_t x) { return x & 0xFFFFFF; }
  template <class T> T operator()(T a, T b) const { return T(cut(a) * cut(b) >> Shift); }
};

// Toward zero; by zero gives all ones. The most negative number over -1 is itself.
struct Quotient {
  template <class T> T operator()(T a, T b) const {
    if (b == 0)
      return T(~T(0));
    return b == T(-1) && std::is_signed_v<T> ? Negate()(a) : T(a / b);
  }
};
struct Remainder {
  template <class T> T operator()(T a, T b) const {
    if (b == 0)
      return T(~T(0));
    return b == T(-1) && std::is_signed_v<T> ? T(0) : T(a % b);
  }
};

// What PTX leaves open of other widths than 32 bits, a divisor of zero, is a finding.
template <class Operation, class T>
Result defined(Context& context, const Instruction& instruction) {
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const Source<T> divisor = source<T>(context, row, instruction.operands[2]);
    if (row.lanes & bits_of([&](int lane) { return divisor[lane] == 0; }))
      return FALLBACK;
  }
  return Pure<Operation, T, T>::run(context, instruction);
}

struct AbsoluteDifference {
  template <class T> T operator()(T a, T b, T c) const {
    return Add()(c, Subtract()(Maximum()(a, b), Minimum()(a, b)));
  }
};

// A field of `Bits` of a word, number `k` from below.
template <int Bits> int32_t field(uint32_t x, int k) {
  return int32_t(x >> Bits * k & ((1u << Bits) - 1));
}
template <int Bits> int32_t field(int32_t x, int k) {
  return int32_t(uint32_t(x) << (32 - Bits - Bits * k)) >> (32 - Bits);
}

// `Count` products of fields of `Bits` of a and bytes of b from number `First` on, and c.
template <int Bits, int Count, int First> struct Dot {
  template <class A, class B> uint32_t operator()(A a, B b, uint32_t c) const {
    for (int k = 0; k < Count; k++)
      c += uint32_t(field<Bits>(a, k)) * uint32_t(field<8>(b, First + k));
    return c;
  }
};
using Dot4 = Dot<8, 4, 0>;
using DotLow = Dot<16, 2, 0>;
using DotHigh = Dot<16, 2, 2>;

template <class Operation> NamedHandlers of_factors(const std::string& word) {
  return {
      named<Operation, uint32_t, uint32_t, uint32_t>(word + ".u32.u32"),
      named<Operation, uint32_t, int32_t, uint32_t>(word + ".u32.s32"),
      named<Operation, int32_t, uint32_t, uint32_t>(word + ".s32.u32"),
      named<Operation, int32_t, int32_t, uint32_t>(word + ".s32.s32"),
  };
}

template <class Operation> NamedHandlers all_binary(const std::string& word) {
  return binary<Operation, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(word);
}
template <class Operation> NamedHandlers all_ternary(const std::string& word) {
  return ternary<Operation, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(word);
}
template <class Operation> NamedHandlers division(const std::string& word) {
  return {
      named<Operation, uint32_t, uint32_t>(word + ".u32"),
      named<Operation, int32_t, int32_t>(word + ".s32"),
      {word + ".u16", defined<Operation, uint16_t>},
      {word + ".s16", defined<Operation, int16_t>},
      {word + ".u64", defined<Operation, uint64_t>},
      {word + ".s64", defined<Operation, int64_t>},
  };
}
template <class Operation> NamedHandlers wide_add(const std::string& word) {
  return {
      named<Operation, uint16_t, uint16_t, uint32_t>(word + ".u16"),
      named<Operation, int16_t, int16_t, int32_t>(word + ".s16"),
      named<Operation, uint32_t, uint32_t, uint64_t>(word + ".u32"),
      named<Operation, int32_t, int32_t, int64_t>(word + ".s32"),
  };
}
template <class Operation> NamedHandler signed_halves(const std::string& name) {
  return named<EachHalf<Operation, int16_t>, uint32_t, uint32_t>(name);
}
template <class Operation> NamedHandlers halves(const std::string& word) {
  return {named<EachHalf<Operation, uint16_t>, uint32_t, uint32_t>(word + ".u16x2"),
          signed_halves<Operation>(word + ".s16x2")};
}

const Handlers handlers(joined(
    all_binary<Add>("add"), all_binary<Subtract>("sub"), all_binary<Minimum>("min"),
    all_binary<Maximum>("max"), unary<Negate, int16_t, int32_t, int64_t>("neg"),
    unary<Absolute, int16_t, int32_t, int64_t>("abs"), binary<AddSaturated, int32_t>("add.sat"),
    binary<SubtractSaturated, int32_t>("sub.sat"), halves<Add>("add"), halves<Minimum>("min"),
    halves<Maximum>("max"), NamedHandlers{signed_halves<NotNegative<Minimum>>("min.relu.s16x2"),
                  signed_halves<NotNegative<Maximum>>("max.relu.s16x2")},
    binary<NotNegative<Minimum>, int32_t>("min.relu"),
    binary<NotNegative<Maximum>, int32_t>("max.relu"), all_binary<Low>("mul.lo"),
    all_binary<High>("mul.hi"),
    binary<Whole, uint16_t, int16_t, uint32_t, int32_t>("mul.wide"),
    all_ternary<ThenAdd<Low>>("mad.lo"), all_ternary<ThenAdd<High>>("mad.hi"),
    wide_add<ThenAdd<Whole>>("mad.wide"), ternary<ThenAddSaturated<High>, int32_t>("mad.hi.sat"),
    binary<Product24<0>, uint32_t, int32_t>("mul24.lo"),
    binary<Product24<16>, uint32_t, int32_t>("mul24.hi"),
    ternary<ThenAdd<Product24<0>>, uint32_t, int32_t>("mad24.lo"),
    ternary<ThenAdd<Product24<16>>, uint32_t, int32_t>("mad24.hi"),
    ternary<ThenAddSaturated<Product24<16>>, int32_t>("mad24.hi.sat"), division<Quotient>("div"),
    division<Remainder>("rem"), all_ternary<AbsoluteDifference>("sad"), of_factors<Dot4>("dp4a"),
    of_factors<DotLow>("dp2a.lo"), of_factors<DotHigh>("dp2a.hi")));

}  // namespace
}  // namespace emu
