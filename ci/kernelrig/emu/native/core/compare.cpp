// setp, set, selp, slct: comparisons give a bit for each lane, and combine a warp at a time.
#include "rounding.hpp"

namespace emu {
namespace {

// Of integers, and of floats that are ordered: all false of a NaN, `ne` too.
struct Equal {
  template <class T> bool operator()(T a, T b) const { return a == b; }
};
struct NotEqual {
  template <class T> bool operator()(T a, T b) const { return a < b || a > b; }
};
struct Less {
  template <class T> bool operator()(T a, T b) const { return a < b; }
};
struct LessOrEqual {
  template <class T> bool operator()(T a, T b) const { return a <= b; }
};
struct Greater {
  template <class T> bool operator()(T a, T b) const { return a > b; }
};
struct GreaterOrEqual {
  template <class T> bool operator()(T a, T b) const { return a >= b; }
};
struct Ordered {
  template <class T> bool operator()(T a, T b) const { return a == a && b == b; }
};
// The unordered ones are true of a NaN: where the opposite of one above does not hold.
template <class Relation> struct Opposite {};

// What is compared, and what it is read as.
template <class T> struct Plain {
  using Bits = T;
  static T value(T x) { return x; }
};
struct Flushed {
  using Bits = float;
  static float value(float x) { return flushed(x); }
};
struct Bf16 {
  using Bits = uint16_t;
  static float value(uint32_t x) { return of_bf16(x); }
};
template <bool Flushes> struct F16 {
  using Bits = uint16_t;
  static float value(uint32_t x) {
    return of_f16(Flushes && (x & 0x7C00) == 0 ? x & 0x8000 : x);
  }
};

// The truth table of a boolean operation on two bits: of `holds` (bit 1 of its index) and another.
Mask combined(int64_t table, Mask holds, Mask other) {
  return (table & 1 ? ~holds & ~other : 0) | (table & 2 ? ~holds & other : 0) |
         (table & 4 ? holds & ~other : 0) | (table & 8 ? holds & other : 0);
}

// What holds of two registers. Called, so that the handlers below share the loop.
template <class Relation, class Kind>
Mask holding(const Context& context, const Row& row, Operand a, Operand b, int /*shift*/) {
  using Bits = typename Kind::Bits;
  const Bits* x = context.in<Bits>(row, a);
  const Bits* y = context.in<Bits>(row, b);
  return bits_of([&](int lane) { return Relation()(Kind::value(x[lane]), Kind::value(y[lane])); });
}
// Of the 16 bits from `shift` on.
template <class Relation, class Kind>
Mask half_holding(const Context& context, const Row& row, Operand a, Operand b, int shift) {
  const uint32_t* x = context.in<uint32_t>(row, a);
  const uint32_t* y = context.in<uint32_t>(row, b);
  return bits_of([&](int lane) {
    return Relation()(Kind::value(x[lane] >> shift & 0xFFFF),
                      Kind::value(y[lane] >> shift & 0xFFFF));
  });
}

// A relation of a kind as a value: one function for all of them takes a third of the time to
// compile that a function for each does.
struct Comparison {
  Mask (*holding)(const Context&, const Row&, Operand, Operand, int shift);
  Mask opposite;  // all lanes if it holds where `holding` does not

  Mask operator()(const Context& context, const Row& row, const Operand* reads,
                  int shift = 0) const {
    return holding(context, row, reads[0], reads[1], shift) ^ opposite;
  }
};
template <class Relation> struct Relating {
  template <class Kind> static constexpr Comparison WHOLE{holding<Relation, Kind>, 0};
  template <class Kind> static constexpr Comparison HALVES{half_holding<Relation, Kind>, 0};
};
template <class Relation> struct Relating<Opposite<Relation>> {
  template <class Kind> static constexpr Comparison WHOLE{holding<Relation, Kind>, ALL};
  template <class Kind> static constexpr Comparison HALVES{half_holding<Relation, Kind>, ALL};
};

// setp: d or d|q, of a and b, combined with a predicate where there is one.
[[gnu::noinline]] Result set_predicate(Context& context, const Instruction& instruction,
                                       const Comparison& holding) {
  const Operand* results = instruction.operands;
  const Operand* reads = results + instruction.outs;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    Mask holds = holding(context, row, reads);
    Mask not_so = ~holds;
    if (instruction.ins == 3) {
      const Mask other = *context.in<Mask>(row, reads[2]);
      holds = combined(instruction.immediates[0], holds, other);
      not_so = combined(instruction.immediates[0], not_so, other);
    }
    put(context, row, results[0], holds);
    if (instruction.outs == 2)
      put(context, row, results[1], not_so);
  }
  return CONTINUE;
}

// A predicate for each half.
[[gnu::noinline]] Result set_predicates(Context& context, const Instruction& instruction,
                                        const Comparison& holding) {
  const Operand* results = instruction.operands;
  const Operand* reads = results + 2;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    Mask low = holding(context, row, reads), high = holding(context, row, reads, 16);
    if (instruction.ins == 3) {
      const Mask other = *context.in<Mask>(row, reads[2]);
      low = combined(instruction.immediates[0], low, other);
      high = combined(instruction.immediates[0], high, other);
    }
    put(context, row, results[0], low);
    put(context, row, results[1], high);
  }
  return CONTINUE;
}

template <class T>
void put_where(const Context& context, const Row& row, Operand result, Mask holds, int64_t one) {
  Lanes<T> made;
  for (int lane = 0; lane < LANES; lane++)
    made[lane] = holds >> lane & 1 ? T(one) : T(0);
  put(context, row, result, made);
}

// set: bits that stand for true, or 0. Its constants: those bits, the size of the result in bytes,
// the truth table.
[[gnu::noinline]] Result set_value(Context& context, const Instruction& instruction,
                                   const Comparison& holding) {
  const Operand* operands = instruction.operands;
  const Immediates constants = instruction.immediates;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    Mask holds = holding(context, row, operands + 1);
    if (instruction.ins == 3)
      holds = combined(constants[2], holds, *context.in<Mask>(row, operands[3]));
    if (constants[1] == 2)
      put_where<uint16_t>(context, row, operands[0], holds, constants[0]);
    else
      put_where<uint32_t>(context, row, operands[0], holds, constants[0]);
  }
  return CONTINUE;
}
[[gnu::noinline]] Result set_values(Context& context, const Instruction& instruction,
                                    const Comparison& holding) {
  const Operand* operands = instruction.operands;
  const Immediates constants = instruction.immediates;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    Mask low = holding(context, row, operands + 1), high = holding(context, row, operands + 1, 16);
    if (instruction.ins == 3) {
      const Mask other = *context.in<Mask>(row, operands[3]);
      low = combined(constants[2], low, other);
      high = combined(constants[2], high, other);
    }
    const uint32_t one = uint32_t(constants[0]);
    Lanes<uint32_t> made;
    for (int lane = 0; lane < LANES; lane++)
      made[lane] = (low >> lane & 1 ? one : 0) | (high >> lane & 1 ? one << 16 : 0);
    put(context, row, operands[0], made);
  }
  return CONTINUE;
}

using WithComparison = Result (*)(Context&, const Instruction&, const Comparison&);
template <WithComparison Do, const Comparison& Of>
Result compared(Context& context, const Instruction& instruction) {
  return Do(context, instruction, Of);
}
NamedHandlers both(const std::string& name, Handler setp, Handler set) {
  return {{"setp." + name, setp}, {"set." + name, set}};
}
template <class Relation, class Kind> NamedHandlers of_kind(const std::string& name) {
  constexpr const Comparison& of = Relating<Relation>::template WHOLE<Kind>;
  return both(name, compared<set_predicate, of>, compared<set_value, of>);
}
template <class Relation, class Kind> NamedHandlers of_halves(const std::string& name) {
  constexpr const Comparison& of = Relating<Relation>::template HALVES<Kind>;
  return both(name, compared<set_predicates, of>, compared<set_values, of>);
}
template <class Relation, class... T> NamedHandlers of_values(const std::string& word) {
  return joined(of_kind<Relation, Plain<T>>(typed<T>(word))...);
}
template <class Relation> NamedHandlers of_integers(const std::string& word) {
  return of_values<Relation, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(word);
}
template <class Relation> NamedHandlers of_floats(const std::string& word) {
  return joined(of_values<Relation, float, double>(word),
                of_kind<Relation, Flushed>(word + ".ftz.f32"),
                of_kind<Relation, F16<false>>(word + ".f16"),
                of_kind<Relation, F16<true>>(word + ".ftz.f16"),
                of_kind<Relation, Bf16>(word + ".bf16"),
                of_halves<Relation, F16<false>>(word + ".f16x2"),
                of_halves<Relation, F16<true>>(word + ".ftz.f16x2"),
                of_halves<Relation, Bf16>(word + ".bf16x2"));
}

struct Select {
  template <class T> T operator()(T a, T b, bool first) const { return first ? a : b; }
};
// The first where the last is not negative; -0.0 is not, a NaN is.
template <bool Flushes> struct SelectBySign {
  template <class T> T operator()(T a, T b, int32_t by) const { return by >= 0 ? a : b; }
  template <class T> T operator()(T a, T b, float by) const {
    return (Flushes ? flushed(by) : by) >= 0 ? a : b;
  }
};

template <class... T> NamedHandlers selections() {
  return {named<Select, T, T, bool>(typed<T>("selp"))...,
          named<SelectBySign<false>, T, T, int32_t>(typed<T>("slct") + ".s32")...,
          named<SelectBySign<false>, T, T, float>(typed<T>("slct") + ".f32")...,
          named<SelectBySign<true>, T, T, float>(typed<T>("slct.ftz") + ".f32")...};
}

const Handlers handlers(joined(
    of_integers<Equal>("eq"), of_integers<NotEqual>("ne"), of_integers<Less>("lt"),
    of_integers<LessOrEqual>("le"), of_integers<Greater>("gt"), of_integers<GreaterOrEqual>("ge"),
    of_floats<Equal>("eq"), of_floats<NotEqual>("ne"), of_floats<Less>("lt"),
    of_floats<LessOrEqual>("le"), of_floats<Greater>("gt"), of_floats<GreaterOrEqual>("ge"),
    of_floats<Opposite<NotEqual>>("equ"), of_floats<Opposite<Equal>>("neu"),
    of_floats<Opposite<GreaterOrEqual>>("ltu"), of_floats<Opposite<Greater>>("leu"),
    of_floats<Opposite<LessOrEqual>>("gtu"), of_floats<Opposite<Less>>("geu"),
    of_floats<Ordered>("num"), of_floats<Opposite<Ordered>>("nan"),
    selections<uint16_t, uint32_t, uint64_t>()));

}  // namespace
}  // namespace emu
