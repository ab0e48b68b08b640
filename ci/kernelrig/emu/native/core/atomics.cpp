// atom and red, `atom.<operation>.<type>`: a red has no results. Of floats those of 32 and 64 bits. A
// value of 128 bits is two operands, as its register is a pair (frontend/wide_registers.py).
//
// How it works. Lanes that share an address go one by one, in an order that the schedule draws, as
// isa.atomic does it: a sample of all lanes, of each element anew. What is combined is
// numerics.read_modify_write.
//
// Immediates: the space, semantics, scope, and the number of elements.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "lanes.hpp"
#include "memory.hpp"

namespace emu {
namespace {

// What is combined: `operands` is how many there are behind the old value; `flushed` is said of
// global memory, where reductions of f32 make zeros of subnormals.
struct And {
  static constexpr int operands = 1;
  template <class T> static T of(T old, T by, T, bool) { return old & by; }
};
struct Or {
  static constexpr int operands = 1;
  template <class T> static T of(T old, T by, T, bool) { return old | by; }
};
struct Xor {
  static constexpr int operands = 1;
  template <class T> static T of(T old, T by, T, bool) { return old ^ by; }
};
struct Exchange {
  static constexpr int operands = 1;
  template <class T> static T of(T, T by, T, bool) { return by; }
};
struct Swap {
  static constexpr int operands = 2;
  template <class T> static T of(T old, T expected, T by, bool) {
    return old == expected ? by : old;
  }
};
struct Increment {
  static constexpr int operands = 1;
  static uint32_t of(uint32_t old, uint32_t limit, uint32_t, bool) {
    return old >= limit ? 0 : old + 1;
  }
};
struct Decrement {
  static constexpr int operands = 1;
  static uint32_t of(uint32_t old, uint32_t limit, uint32_t, bool) {
    return old == 0 || old > limit ? limit : old - 1;
  }
};
struct Add {
  static constexpr int operands = 1;
  template <class T> static T of(T old, T by, T, bool) { return old + by; }
};
template <class Signed> struct Least {
  static constexpr int operands = 1;
  template <class T> static T of(T old, T by, T, bool) {
    return T(std::min(Signed(old), Signed(by)));
  }
};
template <class Signed> struct Greatest {
  static constexpr int operands = 1;
  template <class T> static T of(T old, T by, T, bool) {
    return T(std::max(Signed(old), Signed(by)));
  }
};
struct AddFloat {
  static constexpr int operands = 1;
  static uint32_t flush(uint32_t bits) {
    return (bits & 0x7FFFFFFF) < 0x00800000 ? bits & 0x80000000 : bits;
  }
  static uint32_t of(uint32_t old, uint32_t by, uint32_t, bool flushed) {
    if (flushed)
      old = flush(old), by = flush(by);
    const float sum = bits_as<float>(old) + bits_as<float>(by);
    if (std::isnan(sum))
      return 0x7FFFFFFF;
    return flushed ? flush(bits_as<uint32_t>(sum)) : bits_as<uint32_t>(sum);
  }
};
struct AddDouble {
  static constexpr int operands = 1;
  // Of two NaN the first goes on, made quiet: a compiler may exchange the operands of a sum.
  static uint64_t of(uint64_t old, uint64_t by, uint64_t, bool) {
    constexpr uint64_t QUIET = 0x0008000000000000;
    if (std::isnan(bits_as<double>(old)))
      return old | QUIET;
    if (std::isnan(bits_as<double>(by)))
      return by | QUIET;
    return bits_as<uint64_t>(bits_as<double>(old) + bits_as<double>(by));
  }
};

using Wide = unsigned __int128;

// The operand `index` of a lane, and where its result goes.
template <class T>
T operand_of(Context& context, const Row& row, const Operand* operands, int index, int lane) {
  if constexpr (sizeof(T) == sizeof(Wide))
    return T(context.in<uint64_t>(row, operands[2 * index + 1])[lane]) << 64 |
           context.in<uint64_t>(row, operands[2 * index])[lane];
  else
    return context.in<T>(row, operands[index])[lane];
}

template <class T>
void give(Context& context, const Row& row, const Operand* operands, int index, int lane, T value) {
  if constexpr (sizeof(T) == sizeof(Wide)) {
    for (int half : {0, 1})
      if (operands[half] != NO_RESULT)
        context.out<uint64_t>(row, operands[half])[lane] = uint64_t(value >> 64 * half);
  } else if (operands[index] != NO_RESULT) {
    context.out<T>(row, operands[index])[lane] = value;
  }
}

// A lane that takes part: its position, and where its operands and its result are.
struct Taking {
  int64_t at;
  int row, lane;
};

// Whether two lanes share an address.
bool shared(const std::vector<Taking>& taking) {
  thread_local std::vector<int64_t> sorted;
  sorted.clear();
  bool ascending = true;
  for (const Taking& one : taking) {
    ascending &= sorted.empty() || one.at > sorted.back();
    sorted.push_back(one.at);
  }
  if (ascending)
    return false;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

template <class T, class Operation> Result atomic(Context& context, const Instruction& instruction) {
  const int elements = int(instruction.immediates[3]), size = int(sizeof(T)) * elements;
  Memory& memory = *context.memory;
  ThreadAccess access{context.rows, context.count, instruction.at};
  access.size = size;
  access.write = access.atomic = true;
  access.semantics = int(instruction.immediates[1]);
  access.scope = int(instruction.immediates[2]);
  const Operand* reads = instruction.operands + instruction.outs;
  if (!memory.locate(access, context, reads[0], Space(instruction.immediates[0]), size))
    return FALLBACK;
  thread_local std::vector<Taking> taking;
  taking.clear();
  for (int n = 0; n < context.count; n++)
    each_lane(context.rows[n].lanes, [&](int lane) {
      taking.push_back({access.flat[n * LANES + lane], n, lane});
    });
  const bool drawn = shared(taking);
  if ((drawn && !memory.draw) || !memory.may_observe(access))
    return FALLBACK;
  // A sample of all of them, as random.sample draws it.
  thread_local std::vector<Taking> pool, turns;
  const auto draw = [&] {
    pool = taking;
    turns.clear();
    for (size_t left = pool.size(); left; left--) {
      const size_t chosen = size_t(memory.draw(context, int64_t(left)));
      turns.push_back(pool[chosen]);
      pool[chosen] = pool[left - 1];
    }
  };
  if (drawn)
    draw();
  access.observed = false;  // where nothing is, it is a red (PTX ISA 8.2)
  for (int n = 0; n < int(instruction.outs); n++)
    access.observed |= instruction.operands[n] != NO_RESULT;
  thread_local std::vector<int32_t> places;
  if (drawn && access.observed) {  // else they take nothing, and leave the same in any order
    places.clear();
    for (const Taking& one : turns)
      places.push_back(one.row * LANES + one.lane);
    access.turns = places.data();
    access.turn_count = places.size();
  }
  memory.observe(access);

  uint8_t* bytes = memory.bytes[access.arena];
  const bool flushed = access.arena == GLOBAL;
  for (int element = 0; element < elements; element++) {
    const auto combine = [&](const Taking& one) {
      const Row& row = context.rows[one.row];
      uint8_t* cell = bytes + one.at + element * int(sizeof(T));
      const T by = operand_of<T>(context, row, reads + 1, element, one.lane);
      const T also =
          Operation::operands == 2 ? operand_of<T>(context, row, reads + 1, 1, one.lane) : T(0);
      T old;
      std::memcpy(&old, cell, sizeof old);
      const T made = Operation::of(old, by, also, flushed);
      std::memcpy(cell, &made, sizeof made);
      return old;
    };
    if (drawn && element)  // each is an atomic of its own
      draw();
    for (const Taking& one : drawn ? turns : taking) {
      const T old = combine(one);
      if (instruction.outs)
        give<T>(context, context.rows[one.row], instruction.operands, element, one.lane, old);
    }
  }
  uint8_t* written = memory.written[access.arena];
  for (const Taking& one : taking)
    std::memset(written + one.at, 1, size_t(size));
  return CONTINUE;
}

const Handlers handlers{
    {"atom.and.b32", atomic<uint32_t, And>},
    {"atom.and.b64", atomic<uint64_t, And>},
    {"atom.or.b32", atomic<uint32_t, Or>},
    {"atom.or.b64", atomic<uint64_t, Or>},
    {"atom.xor.b32", atomic<uint32_t, Xor>},
    {"atom.xor.b64", atomic<uint64_t, Xor>},
    {"atom.exch.b32", atomic<uint32_t, Exchange>},
    {"atom.exch.b64", atomic<uint64_t, Exchange>},
    {"atom.exch.b128", atomic<Wide, Exchange>},
    {"atom.cas.b16", atomic<uint16_t, Swap>},
    {"atom.cas.b32", atomic<uint32_t, Swap>},
    {"atom.cas.b64", atomic<uint64_t, Swap>},
    {"atom.cas.b128", atomic<Wide, Swap>},
    {"atom.inc.u32", atomic<uint32_t, Increment>},
    {"atom.dec.u32", atomic<uint32_t, Decrement>},
    {"atom.add.u32", atomic<uint32_t, Add>},
    {"atom.add.s32", atomic<uint32_t, Add>},
    {"atom.add.u64", atomic<uint64_t, Add>},
    {"atom.add.f32", atomic<uint32_t, AddFloat>},
    {"atom.add.f64", atomic<uint64_t, AddDouble>},
    {"atom.min.u32", atomic<uint32_t, Least<uint32_t>>},
    {"atom.min.s32", atomic<uint32_t, Least<int32_t>>},
    {"atom.min.u64", atomic<uint64_t, Least<uint64_t>>},
    {"atom.min.s64", atomic<uint64_t, Least<int64_t>>},
    {"atom.max.u32", atomic<uint32_t, Greatest<uint32_t>>},
    {"atom.max.s32", atomic<uint32_t, Greatest<int32_t>>},
    {"atom.max.u64", atomic<uint64_t, Greatest<uint64_t>>},
    {"atom.max.s64", atomic<uint64_t, Greatest<int64_t>>},
};

} // namespace
} // namespace emu
