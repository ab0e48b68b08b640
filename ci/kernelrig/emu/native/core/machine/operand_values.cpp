// What encode.py puts around an instruction, so that its handler sees operands of its own types: a
// register read narrower than it is or written wider, a predicate's complement, an address.
#include "lanes.hpp"
#include "machine.hpp"

namespace emu {
namespace {

template <class From, class To> struct Convert {
  To operator()(From value) const { return To(value); }
};

template <class From, class To> NamedHandler convert() {
  const std::string name = std::string("convert.") + TypeName<From>::value + ".";
  return named<Convert<From, To>, From>(name + TypeName<To>::value);
}

struct Complement {
  bool operator()(bool value) const { return !value; }
};

// A register as a 64-bit address, with the offset that the text adds.
template <class T> struct Address {
  int64_t offset;
  explicit Address(Immediates immediates) : offset(immediates[0]) {}
  int64_t operator()(T base) const { return int64_t(uint64_t(base) + uint64_t(offset)); }
};

// A clock: each read takes some cycles, so that a loop that waits for a time ends.
template <class T> Result clock(Context& context, const Instruction& instruction) {
  const int64_t cycles = instruction.immediates[0], shift = instruction.immediates[1];
  const uint64_t time = uint64_t(context.core.shared.time += cycles);
  Lanes<T> made;
  for (int lane = 0; lane < LANES; lane++)
    made[lane] = T(time >> shift);
  for (int row = 0; row < context.count; row++)
    put(context, context.rows[row], instruction.operands[0], made);
  return CONTINUE;
}

const Handlers handlers{
    convert<uint64_t, uint32_t>(), convert<uint64_t, uint16_t>(), convert<uint64_t, uint8_t>(),
    convert<uint32_t, uint16_t>(), convert<uint32_t, uint8_t>(),  convert<uint16_t, uint8_t>(),
    convert<uint8_t, uint16_t>(),  convert<uint8_t, uint32_t>(),  convert<uint8_t, uint64_t>(),
    convert<uint16_t, uint32_t>(), convert<uint16_t, uint64_t>(), convert<uint32_t, uint64_t>(),
    convert<int8_t, int16_t>(),    convert<int8_t, int32_t>(),    convert<int8_t, int64_t>(),
    convert<int16_t, int32_t>(),   convert<int16_t, int64_t>(),   convert<int32_t, int64_t>(),
    named<Complement, bool>("complement"),
    named<Address<uint8_t>, uint8_t>("address.u8"),
    named<Address<uint16_t>, uint16_t>("address.u16"),
    named<Address<uint32_t>, uint32_t>("address.u32"),
    named<Address<uint64_t>, uint64_t>("address.u64"),
    {"clock.u32", clock<uint32_t>},
    {"clock.u64", clock<uint64_t>},
};

}  // namespace
}  // namespace emu
