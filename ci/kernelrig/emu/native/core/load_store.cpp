// ld and st of all spaces, `ld.<bits>x<elements>` and `st.<bits>x<elements>`: registers are exactly
// as wide as the elements.
//
// Immediates: the space, semantics, scope, and whether it is ld.global.nc.
#include <cstring>

#include "memory.hpp"
#include "registry.hpp"

namespace emu {
namespace {

ThreadAccess access_of(Context& context, const Instruction& instruction, int size, bool write) {
  ThreadAccess access{context.rows, context.count, instruction.at};
  access.size = size;
  access.write = write;
  access.semantics = int(instruction.immediates[1]);
  access.scope = int(instruction.immediates[2]);
  access.non_coherent = instruction.immediates[3];
  return access;
}

// Whether lanes lie one behind the other, all of them.
bool side_by_side(const int64_t* flat, Mask lanes, int size) {
  if (lanes != ALL)
    return false;
  bool so = true;
  for (int lane = 1; lane < LANES; lane++)
    so &= flat[lane] - flat[lane - 1] == size;
  return so;
}

// Whether lanes store different values to one place, which Python reports. Places are aligned to what
// is stored: two of them are the same or apart.
template <class T, int N>
bool unlike(Context& context, const Instruction& instruction, const Row& row, const int64_t* flat) {
  constexpr int SLOTS = 64, BITS = 6;
  int64_t last = -1;
  bool rising = true;
  each_lane(row.lanes, [&](int lane) {
    rising &= flat[lane] > last;
    last = flat[lane];
  });
  if (rising)
    return false;
  int8_t lane_at[SLOTS];
  std::memset(lane_at, -1, sizeof lane_at);
  bool found = false;
  each_lane(row.lanes, [&](int lane) {
    const uint64_t number = uint64_t(flat[lane]) / (sizeof(T) * N);
    auto slot = unsigned((number * 0x9E3779B97F4A7C15u) >> (64 - BITS));
    while (lane_at[slot] >= 0 && flat[lane_at[slot]] != flat[lane])
      slot = (slot + 1) % SLOTS;
    const int other = lane_at[slot];
    if (other < 0)
      lane_at[slot] = int8_t(lane);
    for (int element = 0; other >= 0 && element < N; element++) {
      const T* values = context.in<T>(row, instruction.operands[1 + element]);
      found |= values[other] != values[lane];
    }
  });
  return found;
}

template <class T, int N> Result load(Context& context, const Instruction& instruction) {
  constexpr int size = int(sizeof(T)) * N;
  Memory& memory = *context.memory;
  ThreadAccess access = access_of(context, instruction, size, false);
  if (!memory.locate(access, context, instruction.operands[N], Space(instruction.immediates[0]),
                     size) ||
      !memory.observe(access))
    return FALLBACK;
  const uint8_t* bytes = memory.bytes[access.arena];
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    const int64_t* flat = access.flat + n * LANES;
    for (int element = 0; element < N; element++) {
      const Operand into = instruction.operands[element];
      if (into == NO_RESULT)
        continue;
      T* values = context.out<T>(row, into);
      const uint8_t* from = bytes + element * int(sizeof(T));
      if (N == 1 && side_by_side(flat, row.lanes, size))
        std::memcpy(values, from + flat[0], LANES * sizeof(T));
      else
        each_lane(row.lanes, [&](int lane) {
          std::memcpy(values + lane, from + flat[lane], sizeof(T));
        });
    }
  }
  return CONTINUE;
}

template <class T, int N> Result store(Context& context, const Instruction& instruction) {
  constexpr int size = int(sizeof(T)) * N;
  Memory& memory = *context.memory;
  ThreadAccess access = access_of(context, instruction, size, true);
  if (!memory.locate(access, context, instruction.operands[0], Space(instruction.immediates[0]),
                     size))
    return FALLBACK;
  if (memory.races && access.semantics == WEAK && access.arena != LOCAL)
    for (int n = 0; n < context.count; n++)
      if (unlike<T, N>(context, instruction, context.rows[n], access.flat + n * LANES))
        return FALLBACK;
  if (!memory.observe(access))
    return FALLBACK;
  uint8_t* bytes = memory.bytes[access.arena];
  uint8_t* written = memory.written[access.arena];
  // Where lanes write to one address, the highest warp and lane wins.
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    const int64_t* flat = access.flat + n * LANES;
    const bool together = side_by_side(flat, row.lanes, size);
    for (int element = 0; element < N; element++) {
      const T* values = context.in<T>(row, instruction.operands[1 + element]);
      uint8_t* into = bytes + element * int(sizeof(T));
      if (N == 1 && together)
        std::memcpy(into + flat[0], values, LANES * sizeof(T));
      else
        each_lane(row.lanes, [&](int lane) {
          std::memcpy(into + flat[lane], values + lane, sizeof(T));
        });
    }
    if (together)
      std::memset(written + flat[0], 1, LANES * size);
    else
      each_lane(row.lanes, [&](int lane) { std::memset(written + flat[lane], 1, size); });
  }
  return CONTINUE;
}

const Handlers handlers{
    {"ld.8x1", load<uint8_t, 1>},   {"ld.8x2", load<uint8_t, 2>},   {"ld.8x4", load<uint8_t, 4>},
    {"ld.8x8", load<uint8_t, 8>},   {"ld.16x1", load<uint16_t, 1>}, {"ld.16x2", load<uint16_t, 2>},
    {"ld.16x4", load<uint16_t, 4>}, {"ld.16x8", load<uint16_t, 8>}, {"ld.32x1", load<uint32_t, 1>},
    {"ld.32x2", load<uint32_t, 2>}, {"ld.32x4", load<uint32_t, 4>}, {"ld.32x8", load<uint32_t, 8>},
    {"ld.64x1", load<uint64_t, 1>}, {"ld.64x2", load<uint64_t, 2>}, {"ld.64x4", load<uint64_t, 4>},
    {"st.8x1", store<uint8_t, 1>},   {"st.8x2", store<uint8_t, 2>},   {"st.8x4", store<uint8_t, 4>},
    {"st.8x8", store<uint8_t, 8>},   {"st.16x1", store<uint16_t, 1>},
    {"st.16x2", store<uint16_t, 2>}, {"st.16x4", store<uint16_t, 4>},
    {"st.16x8", store<uint16_t, 8>}, {"st.32x1", store<uint32_t, 1>},
    {"st.32x2", store<uint32_t, 2>}, {"st.32x4", store<uint32_t, 4>},
    {"st.32x8", store<uint32_t, 8>}, {"st.64x1", store<uint64_t, 1>},
    {"st.64x2", store<uint64_t, 2>}, {"st.64x4", store<uint64_t, 4>},
};

} // namespace
} // namespace emu
