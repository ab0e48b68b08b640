// Instructions in which the lanes of a warp work together: shfl, vote, match, redux, elect.
//
// The lanes that take part are those that execute. One that its member mask does not name, a value
// from a lane that does not take part, activemask in a warp that has diverged: those are findings.
#include "machine.hpp"
#include "rounding.hpp"

namespace emu {
namespace {

// Whether the member mask of each lane that executes names it; the mask is the last operand.
bool all_are_members(const Context& context, const Instruction& instruction) {
  const Operand members = instruction.operands[instruction.outs + instruction.ins - 1];
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const uint32_t* named = context.in<uint32_t>(row, members);
    if (row.lanes & ~bits_of([&](int lane) { return named[lane] >> lane & 1; }))
      return false;
  }
  return true;
}

template <class T>
void put_everywhere(const Context& context, const Row& row, Operand result, T x) {
  Lanes<T> made;
  for (int lane = 0; lane < LANES; lane++)
    made[lane] = x;
  put(context, row, result, made);
}

// shfl. `lane` takes from the lane it names, or from itself where that is outside of its segment.
struct Up {
  static int source(int lane, int by, int, int) { return lane - by; }
  static bool inside(int source, int bound) { return source >= bound; }
};
struct Down {
  static int source(int lane, int by, int, int) { return lane + by; }
  static bool inside(int source, int bound) { return source <= bound; }
};
struct Butterfly : Down {
  static int source(int lane, int by, int, int) { return lane ^ by; }
};
struct Index : Down {
  static int source(int, int by, int low, int segment) { return low | (by & ~segment); }
};

template <class Way> Result shuffle(Context& context, const Instruction& instruction) {
  if (!all_are_members(context, instruction))
    return FALLBACK;
  const Operand* reads = instruction.operands + instruction.outs;
  const auto each = [&](const Row& row, auto use) {
    const uint32_t* amount = context.in<uint32_t>(row, reads[1]);
    const uint32_t* bounds = context.in<uint32_t>(row, reads[2]);
    for (int lane = 0; lane < LANES; lane++) {
      const int by = amount[lane] & 31, clamp = bounds[lane] & 31;
      const int segment = bounds[lane] >> 8 & 31;
      const int low = lane & segment;
      const int source = Way::source(lane, by, low, segment);
      const bool inside = Way::inside(source, low | (clamp & ~segment));
      use(lane, inside ? source : lane, inside);
    }
  };
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    Mask absent = 0;
    if (row.lanes != ALL)
      each(row, [&](int lane, int source, bool) {
        absent |= (row.lanes >> lane & 1 & ~(row.lanes >> source)) << lane;
      });
    if (absent)
      return FALLBACK;
  }
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const uint32_t* value = context.in<uint32_t>(row, reads[0]);
    Lanes<uint32_t> made;
    Mask from_inside = 0;
    each(row, [&](int lane, int source, bool inside) {
      made[lane] = value[source];
      from_inside |= Mask(inside) << lane;
    });
    put(context, row, instruction.operands[0], made);
    if (instruction.outs == 2)
      put(context, row, instruction.operands[1], from_inside);
  }
  return CONTINUE;
}

// vote, of the lanes that take part and those of them for which the predicate holds.
struct AllHold {
  Mask operator()(Mask lanes, Mask holding) const { return lanes == holding ? ALL : 0; }
};
struct AnyHolds {
  Mask operator()(Mask, Mask holding) const { return holding ? ALL : 0; }
};
struct Uniform {
  Mask operator()(Mask lanes, Mask holding) const {
    return lanes == holding || !holding ? ALL : 0;
  }
};
template <class Vote> Result vote(Context& context, const Instruction& instruction) {
  if (!all_are_members(context, instruction))
    return FALLBACK;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const Mask holds = *context.in<Mask>(row, instruction.operands[1]);
    put(context, row, instruction.operands[0], Vote()(row.lanes, row.lanes & holds));
  }
  return CONTINUE;
}
Result ballot(Context& context, const Instruction& instruction) {
  if (!all_are_members(context, instruction))
    return FALLBACK;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const Mask holds = *context.in<Mask>(row, instruction.operands[1]);
    put_everywhere<uint32_t>(context, row, instruction.operands[0], row.lanes & holds);
  }
  return CONTINUE;
}

template <class T> Result match_any(Context& context, const Instruction& instruction) {
  if (!all_are_members(context, instruction))
    return FALLBACK;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const T* value = context.in<T>(row, instruction.operands[1]);
    Lanes<uint32_t> made;
    for (int lane = 0; lane < LANES; lane++)
      made[lane] = row.lanes & bits_of([&](int other) { return value[other] == value[lane]; });
    put(context, row, instruction.operands[0], made);
  }
  return CONTINUE;
}
template <class T> Result match_all(Context& context, const Instruction& instruction) {
  if (!all_are_members(context, instruction))
    return FALLBACK;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const T* value = context.in<T>(row, instruction.operands[instruction.outs]);
    const T first = value[__builtin_ctz(row.lanes)];
    const bool same = !(row.lanes & bits_of([&](int lane) { return value[lane] != first; }));
    put_everywhere<uint32_t>(context, row, instruction.operands[0], same ? row.lanes : 0);
    if (instruction.outs == 2)
      put(context, row, instruction.operands[1], same ? ALL : 0);
  }
  return CONTINUE;
}

// redux: an operation with its neutral element.
struct Sum32 {
  template <class T> static constexpr T NEUTRAL = 0;
  template <class T> T operator()(T a, T b) const { return T(uint32_t(a) + uint32_t(b)); }
};
struct Least {
  template <class T> static constexpr T NEUTRAL = std::is_signed_v<T> ? T(INT32_MAX) : T(~0u);
  template <class T> T operator()(T a, T b) const { return a < b ? a : b; }
};
struct Greatest {
  template <class T> static constexpr T NEUTRAL = std::is_signed_v<T> ? T(INT32_MIN) : T(0);
  template <class T> T operator()(T a, T b) const { return a > b ? a : b; }
};
struct AndAll {
  template <class T> static constexpr T NEUTRAL = ~T(0);
  template <class T> T operator()(T a, T b) const { return a & b; }
};
struct OrAll {
  template <class T> static constexpr T NEUTRAL = 0;
  template <class T> T operator()(T a, T b) const { return a | b; }
};
struct XorAll {
  template <class T> static constexpr T NEUTRAL = 0;
  template <class T> T operator()(T a, T b) const { return a ^ b; }
};
template <class Fold, class T> Result reduce(Context& context, const Instruction& instruction) {
  if (!all_are_members(context, instruction))
    return FALLBACK;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const T* value = context.in<T>(row, instruction.operands[1]);
    T made = Fold::template NEUTRAL<T>;
    for (int lane = 0; lane < LANES; lane++)
      made = Fold()(made, row.lanes >> lane & 1 ? value[lane] : Fold::template NEUTRAL<T>);
    put_everywhere(context, row, instruction.operands[0], made);
  }
  return CONTINUE;
}
// Of f32, the constants are .NaN and .abs. Without .NaN, a NaN stands for a lane that is absent.
template <class Pick> Result reduce_floats(Context& context, const Instruction& instruction) {
  if (!all_are_members(context, instruction))
    return FALLBACK;
  const bool nan = instruction.immediates[0], absolute = instruction.immediates[1];
  const int64_t modifiers[] = {nan, false, false};
  const Modified<Pick> pick(modifiers);
  const float neutral = !nan ? NAN : std::is_same_v<Pick, Smaller> ? INFINITY : -INFINITY;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const float* value = context.in<float>(row, instruction.operands[1]);
    float made = neutral;
    for (int lane = 0; lane < LANES; lane++)
      if (row.lanes >> lane & 1)
        made = pick(made, absolute ? size_of(value[lane]) : value[lane]);
    put_everywhere(context, row, instruction.operands[0], made);
  }
  return CONTINUE;
}

// The lane that elect.sync takes: by a hash, always the same of a mask, as PTX promises.
int leader(Mask lanes, int elected) {
  if (elected == FIRST)
    return __builtin_ctz(lanes);
  if (elected == LAST)
    return LANES - 1 - __builtin_clz(lanes);
  const uint64_t mixed = uint64_t(lanes) * 0x9E3779B1 >> 16;
  for (uint64_t skipped = mixed % uint64_t(__builtin_popcount(lanes)); skipped; skipped--)
    lanes &= lanes - 1;
  return __builtin_ctz(lanes);
}
Result elect(Context& context, const Instruction& instruction) {
  if (!all_are_members(context, instruction))
    return FALLBACK;
  for (int k = 0; k < context.count; k++) {
    const Row& row = context.rows[k];
    const int chosen = leader(row.lanes, context.core.shared.elected);
    put_everywhere<uint32_t>(context, row, instruction.operands[0], uint32_t(chosen));
    put(context, row, instruction.operands[1], Mask(1) << chosen);
  }
  return CONTINUE;
}

Result active(Context& context, const Instruction& instruction) {
  if (context.count < context.batch.size())
    return FALLBACK;
  for (int k = 0; k < context.count; k++)
    if (context.rows[k].lanes != ALL)
      return FALLBACK;
  for (int k = 0; k < context.count; k++)
    put_everywhere<uint32_t>(context, context.rows[k], instruction.operands[0], ALL);
  return CONTINUE;
}

// nanosleep: as long as the first thread says.
Result sleep(Context& context, const Instruction& instruction) {
  const Row& row = context.rows[0];
  const uint32_t* duration = context.in<uint32_t>(row, instruction.operands[0]);
  context.core.shared.time += duration[__builtin_ctz(row.lanes)];
  return CONTINUE;
}

const Handlers handlers{
    {"shfl.up.u32", shuffle<Up>},
    {"shfl.down.u32", shuffle<Down>},
    {"shfl.bfly.u32", shuffle<Butterfly>},
    {"shfl.idx.u32", shuffle<Index>},
    {"vote.all.pred", vote<AllHold>},
    {"vote.any.pred", vote<AnyHolds>},
    {"vote.uni.pred", vote<Uniform>},
    {"vote.ballot.pred", ballot},
    {"match.any.u32", match_any<uint32_t>},
    {"match.any.u64", match_any<uint64_t>},
    {"match.all.u32", match_all<uint32_t>},
    {"match.all.u64", match_all<uint64_t>},
    {"redux.add.u32", reduce<Sum32, uint32_t>},
    {"redux.add.s32", reduce<Sum32, int32_t>},
    {"redux.min.u32", reduce<Least, uint32_t>},
    {"redux.min.s32", reduce<Least, int32_t>},
    {"redux.max.u32", reduce<Greatest, uint32_t>},
    {"redux.max.s32", reduce<Greatest, int32_t>},
    {"redux.and.u32", reduce<AndAll, uint32_t>},
    {"redux.or.u32", reduce<OrAll, uint32_t>},
    {"redux.xor.u32", reduce<XorAll, uint32_t>},
    {"redux.min.f32", reduce_floats<Smaller>},
    {"redux.max.f32", reduce_floats<Larger>},
    {"elect.u32", elect},
    {"activemask.u32", active},
    {"nanosleep.u32", sleep},
};

}  // namespace
}  // namespace emu
