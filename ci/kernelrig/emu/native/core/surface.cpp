// suld and sust of surface objects (isa/surface.py).
//
// Operands: of suld the values, then the handle, perhaps a layer, the coordinates; of sust the
// values come last. Immediates: how many dimensions, whether there are layers, what becomes of a
// place outside.
#include <cstring>
#include <vector>

#include "registry.hpp"
#include "lanes.hpp"
#include "texture_object.hpp"

namespace emu {
namespace {

enum Outside : int64_t { TRAP, CLAMPED, ZERO };

// The rows that access something, and where; `all` has every row.
struct Places {
  std::vector<Row> rows, all;
  std::vector<int64_t> flat;
  ThreadAccess access;
};

bool find(Context& context, const Instruction& instruction, const Operand* reads, int size,
          bool write, Places& into) {
  const TextureObject* of = object_of(context, reads[0], SURFACE);
  if (!of)
    return false;
  const int dimensions = int(instruction.immediates[0]);
  const bool layered = instruction.immediates[1];
  const int64_t outside = instruction.immediates[2];
  const Operand* coordinates = reads + 1 + layered;
  if (int64_t(of->width) * of->element_bytes() < size)
    return false;
  thread_local std::vector<int64_t> addresses;
  into.rows.clear();
  into.all.clear();
  addresses.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    int64_t places[LANES] = {};
    Mask inside = row.lanes;
    each_lane(row.lanes, [&](int lane) {
      int64_t at[DIMENSIONS] = {};
      for (int axis = 0; axis < dimensions; axis++) {
        const int64_t limit =
            axis ? of->extent(axis) : int64_t(of->width) * of->element_bytes() - size + 1;
        const int64_t index = context.in<int32_t>(row, coordinates[axis])[lane];
        if (outside != CLAMPED && (index < 0 || index >= limit))
          inside &= ~(Mask(1) << lane);
        at[axis] = std::min(std::max<int64_t>(index, 0), limit - 1);
      }
      int64_t slice = 0;
      if (layered)
        slice = std::min<int64_t>(context.in<uint32_t>(row, reads[1])[lane], of->last_layer());
      places[lane] = of->place(at[0], at[1], of->depth ? at[2] : slice, 1);
    });
    if (outside == TRAP && inside != row.lanes)
      return false;
    into.all.push_back({row.file, inside, row.warp, row.row});
    if (inside) {
      into.rows.push_back(into.all.back());
      addresses.insert(addresses.end(), places, places + LANES);
    }
  }
  into.access = {into.rows.data(), int(into.rows.size()), instruction.at};
  into.flat.resize(addresses.size());
  into.access.flat = into.flat.data();
  into.access.size = size;
  into.access.write = write;
  Memory& memory = *context.memory;
  return into.rows.empty() || (memory.locate_global(into.access, addresses.data(), size) &&
                               memory.observe(into.access));
}

template <class T, int N> Result load(Context& context, const Instruction& instruction) {
  thread_local Places found;
  if (!find(context, instruction, instruction.operands + N, int(sizeof(T)) * N, false, found))
    return FALLBACK;
  const int64_t* flat = found.flat.data();
  for (int n = 0; n < context.count; n++) {
    const Mask inside = found.all[size_t(n)].lanes;
    for (int element = 0; element < N; element++) {
      Lanes<T> made{};
      each_lane(inside, [&](int lane) {
        std::memcpy(&made[lane], context.memory->bytes[GLOBAL] + flat[lane] + element * int(sizeof(T)),
                    sizeof(T));
      });
      put(context, context.rows[n], instruction.operands[element], made);
    }
    flat += inside ? LANES : 0;
  }
  return CONTINUE;
}

template <class T, int N> Result store(Context& context, const Instruction& instruction) {
  constexpr int size = int(sizeof(T)) * N;
  thread_local Places found;
  if (!find(context, instruction, instruction.operands, size, true, found))
    return FALLBACK;
  const Operand* values = instruction.operands + instruction.ins - N;
  const int64_t* flat = found.flat.data();
  for (const Row& row : found.rows) {  // the highest warp and lane wins
    for (int element = 0; element < N; element++) {
      const T* from = context.in<T>(row, values[element]);
      each_lane(row.lanes, [&](int lane) {
        std::memcpy(context.memory->bytes[GLOBAL] + flat[lane] + element * int(sizeof(T)), from + lane,
                    sizeof(T));
      });
    }
    each_lane(row.lanes, [&](int lane) {
      std::memset(context.memory->written[GLOBAL] + flat[lane], 1, size);
    });
    flat += LANES;
  }
  return CONTINUE;
}

template <class T, int N> NamedHandlers both(const std::string& form) {
  return {{"suld." + form, load<T, N>}, {"sust." + form, store<T, N>}};
}
const Handlers handlers{joined(
    both<uint8_t, 1>("8x1"), both<uint8_t, 2>("8x2"), both<uint8_t, 4>("8x4"),
    both<uint16_t, 1>("16x1"), both<uint16_t, 2>("16x2"), both<uint16_t, 4>("16x4"),
    both<uint32_t, 1>("32x1"), both<uint32_t, 2>("32x2"), both<uint32_t, 4>("32x4"),
    both<uint64_t, 1>("64x1"), both<uint64_t, 2>("64x2"))};

}  // namespace
}  // namespace emu
