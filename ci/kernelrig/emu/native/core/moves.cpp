// mov: values, and registers packed into wider ones; what address instructions do to addresses.
#include "lanes.hpp"

namespace emu {
namespace {

// As many results as sources; all are read before one is written.
template <class T> Result move(Context& context, const Instruction& instruction) {
  constexpr int MOST = 4;
  const int count = instruction.outs;
  if (count > MOST)
    return FALLBACK;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    Lanes<T> held[MOST];
    for (int n = 0; n < count; n++)
      std::memcpy(held[n].at, context.in<T>(row, instruction.operands[count + n]), sizeof held[n]);
    for (int n = 0; n < count; n++)
      put(context, row, instruction.operands[n], held[n]);
  }
  return CONTINUE;
}

Result move_predicate(Context& context, const Instruction& instruction) {
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    put(context, row, instruction.operands[0], *context.in<Mask>(row, instruction.operands[1]));
  }
  return CONTINUE;
}

// The first element is the lowest.
template <class Part, class Whole> Result pack(Context& context, const Instruction& instruction) {
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    Lanes<Whole> made{};
    for (int n = 0; n < instruction.ins; n++) {
      const Part* part = context.in<Part>(row, instruction.operands[1 + n]);
      for (int lane = 0; lane < LANES; lane++)
        made[lane] = Whole(made[lane] | Whole(part[lane]) << 8 * sizeof(Part) * n);
    }
    put(context, row, instruction.operands[0], made);
  }
  return CONTINUE;
}

template <class Part, class Whole> Result unpack(Context& context, const Instruction& instruction) {
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    Lanes<Whole> whole;
    std::memcpy(whole.at, context.in<Whole>(row, instruction.operands[instruction.outs]),
                sizeof whole);
    for (int n = 0; n < instruction.outs; n++) {
      Lanes<Part> made;
      for (int lane = 0; lane < LANES; lane++)
        made[lane] = Part(whole[lane] >> 8 * sizeof(Part) * n);
      put(context, row, instruction.operands[n], made);
    }
  }
  return CONTINUE;
}

template <class Part, class Whole> NamedHandlers parts() {
  const std::string types = std::string(TypeName<Part>::value) + "." + TypeName<Whole>::value;
  return {{"pack." + types, pack<Part, Whole>}, {"unpack." + types, unpack<Part, Whole>}};
}

// cvta: into a window, or out of it.
struct Displace {
  uint64_t by;
  explicit Displace(Immediates immediates) : by(uint64_t(immediates[0])) {}
  uint64_t operator()(uint64_t address) const { return address + by; }
};
// mapa: bits that are kept, and where the rank goes.
struct PutRank {
  uint64_t kept;
  int shift;
  explicit PutRank(Immediates immediates)
      : kept(uint64_t(immediates[0])), shift(int(immediates[1])) {}
  template <class T> T operator()(T address, uint32_t rank) const {
    return T((address & T(kept)) | T(rank) << shift);
  }
};
struct TakeRank {
  int shift;
  explicit TakeRank(Immediates immediates) : shift(int(immediates[0])) {}
  template <class T> uint32_t operator()(T address) const {
    return uint32_t(address >> shift & 0xFF);
  }
};
// isspacep of a window that is the same for all warps: the upper bits are its number.
struct IsIn {
  int64_t number;
  int shift;
  explicit IsIn(Immediates immediates) : number(immediates[0]), shift(int(immediates[1])) {}
  bool operator()(int64_t address) const { return address >> shift == number; }
};

Result nothing(Context&, const Instruction&) { return CONTINUE; }

const Handlers handlers(joined(
    NamedHandlers{{"mov.u8", move<uint8_t>},
                  {"mov.u16", move<uint16_t>},
                  {"mov.u32", move<uint32_t>},
                  {"mov.u64", move<uint64_t>},
                  {"mov.pred", move_predicate},
                  {"nothing", nothing}},
    parts<uint8_t, uint16_t>(), parts<uint8_t, uint32_t>(), parts<uint8_t, uint64_t>(),
    parts<uint16_t, uint32_t>(), parts<uint16_t, uint64_t>(), parts<uint32_t, uint64_t>(),
    unary<Displace, uint64_t>("cvta"),
    NamedHandlers{named<PutRank, uint32_t, uint32_t>("mapa.u32"),
                  named<PutRank, uint64_t, uint32_t>("mapa.u64")},
    unary<TakeRank, uint32_t, uint64_t>("getctarank"), unary<IsIn, int64_t>("isspacep")));

}  // namespace
}  // namespace emu
