// Plain instructions: functions of one lane, made handlers of all lanes of a warp.
//
// How it works. An operation is a struct whose `operator()` takes what a lane reads and returns its
// result. `pure<Add, uint32_t, uint32_t>` is the handler that does it in every lane:
//
// - bool stands for a predicate, a bit a lane; every other type for lanes side by side;
// - results are collected first and stored then, so that a result may be a source, and the
//   compiler may take all lanes at once: 32 turns without a branch become few vector instructions;
// - lanes that do not execute keep what they held.
//
// An operation with constants of its own (a truth table, a rounding mode) has a constructor that
// takes the instruction's immediates. Integers wrap: what may overflow is computed unsigned.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "registry.hpp"

namespace emu {

using Immediates = const int64_t*;

template <class T> struct TypeName;
template <> struct TypeName<bool> { static constexpr const char* value = "pred"; };
template <> struct TypeName<uint8_t> { static constexpr const char* value = "u8"; };
template <> struct TypeName<int8_t> { static constexpr const char* value = "s8"; };
template <> struct TypeName<uint16_t> { static constexpr const char* value = "u16"; };
template <> struct TypeName<int16_t> { static constexpr const char* value = "s16"; };
template <> struct TypeName<uint32_t> { static constexpr const char* value = "u32"; };
template <> struct TypeName<int32_t> { static constexpr const char* value = "s32"; };
template <> struct TypeName<uint64_t> { static constexpr const char* value = "u64"; };
template <> struct TypeName<int64_t> { static constexpr const char* value = "s64"; };
template <> struct TypeName<float> { static constexpr const char* value = "f32"; };
template <> struct TypeName<double> { static constexpr const char* value = "f64"; };

// `word.type`: what Python's `native(word, dtype)` names.
template <class T> std::string typed(const std::string& word) {
  return word + "." + TypeName<T>::value;
}

// The same bits as another type.
template <class To, class From> inline To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To same;
  std::memcpy(&same, &value, sizeof same);
  return same;
}

// The values of a register on their way, one a lane.
template <class T> struct alignas(64) Lanes {
  T at[LANES];
  T& operator[](int lane) { return at[lane]; }
  const T& operator[](int lane) const { return at[lane]; }
};

// What an operand holds, by lane.
template <class T> struct Source {
  const T* lanes;
  T operator[](int lane) const { return lanes[lane]; }
};
template <> struct Source<bool> {
  Mask mask;
  bool operator[](int lane) const { return mask >> lane & 1; }
};

template <class T> Source<T> source(const Context& context, const Row& row, Operand operand) {
  if constexpr (std::is_same_v<T, bool>)
    return {*context.in<Mask>(row, operand)};
  else
    return {context.in<T>(row, operand)};
}

// Store a result in the lanes that execute.
inline void put(const Context& context, const Row& row, Operand operand, Mask holds) {
  if (operand == NO_RESULT)
    return;
  Mask& held = *context.out<Mask>(row, operand);
  held = (held & ~row.lanes) | (holds & row.lanes);
}

template <class T>
void put(const Context& context, const Row& row, Operand operand, const Lanes<T>& made) {
  if (operand == NO_RESULT)
    return;
  T* held = context.out<T>(row, operand);
  if (row.lanes == ALL) {
    std::memcpy(held, made.at, sizeof made.at);
    return;
  }
  for (int lane = 0; lane < LANES; lane++)
    held[lane] = row.lanes >> lane & 1 ? made[lane] : held[lane];
}

// A bit for each lane of which `holds` is true.
template <class F> Mask bits_of(F holds) {
  Mask bits = 0;
  for (int lane = 0; lane < LANES; lane++)
    bits |= Mask(holds(lane)) << lane;
  return bits;
}

template <class Operation> Operation operation(Immediates immediates) {
  if constexpr (std::is_constructible_v<Operation, Immediates>)
    return Operation(immediates);
  else
    return Operation{};
}

// The handler of an operation that reads these types.
template <class Operation, class... T> struct Pure {
  using Made = std::decay_t<decltype(std::declval<const Operation&>()(T{}...))>;

  static Result run(Context& context, const Instruction& instruction) {
    const Operation of = operation<Operation>(instruction.immediates);
    for (int row = 0; row < context.count; row++)
      each(of, context, instruction, context.rows[row], std::index_sequence_for<T...>());
    return CONTINUE;
  }

  template <size_t... K>
  static void each(const Operation& of, const Context& context, const Instruction& instruction,
                   const Row& row, std::index_sequence<K...>) {
    const Operand* read = instruction.operands + 1;
    lanes(of, context, instruction.operands[0], row, source<T>(context, row, read[K])...);
  }

  static void lanes(const Operation& of, const Context& context, Operand result, const Row& row,
                    Source<T>... from) {
    if constexpr (std::is_same_v<Made, bool>) {
      put(context, row, result, bits_of([&](int lane) { return of(from[lane]...); }));
    } else {
      Lanes<Made> made;
      for (int lane = 0; lane < LANES; lane++)
        made[lane] = of(from[lane]...);
      put(context, row, result, made);
    }
  }
};

// Name the handler of an operation on these types.
template <class Operation, class... T> NamedHandler named(const std::string& name) {
  return {name, Pure<Operation, T...>::run};
}

// `word.type` for each of the types, all operands of which are of that type.
template <class Operation, class... T> NamedHandlers unary(const std::string& word) {
  return {named<Operation, T>(typed<T>(word))...};
}
template <class Operation, class... T> NamedHandlers binary(const std::string& word) {
  return {named<Operation, T, T>(typed<T>(word))...};
}
template <class Operation, class... T> NamedHandlers ternary(const std::string& word) {
  return {named<Operation, T, T, T>(typed<T>(word))...};
}

// The handlers of several lists.
template <class... List> NamedHandlers joined(const List&... lists) {
  NamedHandlers made;
  (made.insert(made.end(), lists.begin(), lists.end()), ...);
  return made;
}

}  // namespace emu
