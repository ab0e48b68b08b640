// Logic, shifts and permutations of bits. Predicates are bits of a mask, a warp at a time.
#include "lanes.hpp"

namespace emu {
namespace {

struct And {
  template <class T> T operator()(T a, T b) const { return T(a & b); }
};
struct Or {
  template <class T> T operator()(T a, T b) const { return T(a | b); }
};
struct Xor {
  template <class T> T operator()(T a, T b) const { return T(a ^ b); }
};
struct Not {
  template <class T> T operator()(T a) const { return T(~a); }
};
struct IsZero {
  template <class T> T operator()(T a) const { return a == 0; }
};

// An operation on all bits of predicates at once.
template <class Operation> Result of_masks(Context& context, const Instruction& instruction) {
  const Operand* operands = instruction.operands;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const Mask a = *context.in<Mask>(row, operands[1]);
    if constexpr (std::is_invocable_v<Operation, Mask>)
      put(context, row, operands[0], Operation()(a));
    else
      put(context, row, operands[0], Operation()(a, *context.in<Mask>(row, operands[2])));
  }
  return CONTINUE;
}

// Shifts push everything out where the count is the width or more.
struct Left {
  template <class T> T operator()(T a, uint32_t count) const {
    return count < 8 * sizeof(T) ? T(uint64_t(a) << count) : T(0);
  }
};
struct Right {
  template <class T> T operator()(T a, uint32_t count) const {
    const uint32_t most = 8 * sizeof(T) - 1;
    if (std::is_signed_v<T>)
      return T(a >> (count < most ? count : most));
    return count <= most ? T(a >> count) : T(0);
  }
};
// By a constant, at most the width.
template <class Shift> struct By {
  uint32_t count;
  explicit By(Immediates immediates) : count(uint32_t(immediates[0])) {}
  template <class T> T operator()(T a) const { return Shift()(a, count); }
};

template <class Shift, class... T> NamedHandlers shifts(const std::string& word) {
  return joined(NamedHandlers{named<Shift, T, uint32_t>(typed<T>(word))...},
                unary<By<Shift>, T...>(word + "_by"));
}

// The upper (left) or lower 32 bits of 64 that were shifted.
template <bool IsLeft, bool Wraps> struct Funnel {
  uint32_t operator()(uint32_t low, uint32_t high, uint32_t count) const {
    count = Wraps ? count & 31 : count < 32 ? count : 32;
    const uint64_t both = uint64_t(high) << 32 | low;
    return IsLeft ? uint32_t(both << count >> 32) : uint32_t(both >> count);
  }
};

// The bitwise function of three with a truth table: bit k of it is the result of the bits of k.
struct Table {
  uint32_t when[8];
  explicit Table(Immediates immediates) {
    for (int k = 0; k < 8; k++)
      when[k] = immediates[0] >> k & 1 ? ~0u : 0;
  }
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    // Chosen by c, then by b, then by a.
    const auto chosen = [](uint32_t by, uint32_t one, uint32_t zero) {
      return (by & one) | (~by & zero);
    };
    const uint32_t a0 = chosen(b, chosen(c, when[3], when[2]), chosen(c, when[1], when[0]));
    const uint32_t a1 = chosen(b, chosen(c, when[7], when[6]), chosen(c, when[5], when[4]));
    return chosen(a, a1, a0);
  }
};

// lop3.and and lop3.or: the result, and whether it is not zero, with a predicate.
template <class Combine> Result table_and_test(Context& context, const Instruction& instruction) {
  const Table of(instruction.immediates);
  const Operand* operands = instruction.operands;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const auto a = source<uint32_t>(context, row, operands[2]);
    const auto b = source<uint32_t>(context, row, operands[3]);
    const auto c = source<uint32_t>(context, row, operands[4]);
    const Mask other = *context.in<Mask>(row, operands[5]);
    Lanes<uint32_t> made;
    for (int lane = 0; lane < LANES; lane++)
      made[lane] = of(a[lane], b[lane], c[lane]);
    const Mask some = bits_of([&](int lane) { return made[lane] != 0; });
    put(context, row, operands[0], made);
    put(context, row, operands[1], Combine()(some, other));
  }
  return CONTINUE;
}

// A byte of the 8 of a (below) and b, or its sign eight times.
uint32_t picked(uint64_t both, uint32_t pick) {
  const uint32_t byte = both >> 8 * (pick & 7) & 0xFF;
  return pick & 8 ? (byte & 0x80 ? 0xFF : 0) : byte;
}
struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t control) const {
    const uint64_t both = uint64_t(b) << 32 | a;
    uint32_t made = 0;
    for (int k = 0; k < 4; k++)
      made |= picked(both, control >> 4 * k) << 8 * k;
    return made;
  }
};
// The control is one of four, by its lowest two bits.
struct PermuteMode {
  Immediates controls;
  explicit PermuteMode(Immediates immediates) : controls(immediates) {}
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t control) const {
    return Permute()(a, b, uint32_t(controls[control & 3]));
  }
};
struct PermuteBy {
  uint32_t control;
  explicit PermuteBy(Immediates immediates) : control(uint32_t(immediates[0])) {}
  uint32_t operator()(uint32_t a, uint32_t b) const {
    uint32_t made = 0;
    for (int k = 0; k < 4; k++) {
      const uint32_t pick = control >> 4 * k & 15;
      const uint32_t byte = (pick & 4 ? b : a) >> 8 * (pick & 3) & 0xFF;
      made |= (pick & 8 ? (byte >> 7) * 0xFF : byte) << 8 * k;
    }
    return made;
  }
};

const Handlers handlers(joined(
    binary<And, uint16_t, uint32_t, uint64_t>("and"),
    binary<Or, uint16_t, uint32_t, uint64_t>("or"),
    binary<Xor, uint16_t, uint32_t, uint64_t>("xor"),
    unary<Not, uint16_t, uint32_t, uint64_t>("not"),
    unary<IsZero, uint16_t, uint32_t, uint64_t>("cnot"),
    NamedHandlers{{"and.pred", of_masks<And>},
                  {"or.pred", of_masks<Or>},
                  {"xor.pred", of_masks<Xor>},
                  {"not.pred", of_masks<Not>}},
    shifts<Left, uint16_t, uint32_t, uint64_t>("shl"),
    shifts<Right, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>("shr"),
    ternary<Funnel<true, true>, uint32_t>("shf.l.wrap"),
    ternary<Funnel<true, false>, uint32_t>("shf.l.clamp"),
    ternary<Funnel<false, true>, uint32_t>("shf.r.wrap"),
    ternary<Funnel<false, false>, uint32_t>("shf.r.clamp"), ternary<Table, uint32_t>("lop3"),
    NamedHandlers{{"lop3.and.u32", table_and_test<And>}, {"lop3.or.u32", table_and_test<Or>}},
    ternary<Permute, uint32_t>("prmt"), ternary<PermuteMode, uint32_t>("prmt_mode"),
    binary<PermuteBy, uint32_t>("prmt_by")));

}  // namespace
}  // namespace emu
