// tex of texture objects, without cubes and sRGB (isa/texture.py): all that is read is known to be
// plain before observers hear of it.
//
// Operands: four channels, perhaps a predicate; the handle, perhaps a layer, the coordinates.
// Immediates: how many dimensions, whether there are layers, whether coordinates are whole numbers.
#include <cmath>
#include <cstring>
#include <vector>

#include "registry.hpp"
#include "rounding.hpp"
#include "texture_object.hpp"

namespace emu {
namespace {

constexpr int CHANNELS = 4, MOST_CORNERS = 8;
constexpr double WEIGHT = 256, FARTHEST = 1e9;

// Along an axis: the lower element, and the weight of the one above it.
struct Along {
  int64_t low;
  double part;
};

int64_t floor_mod(int64_t value, int64_t size) {
  const int64_t rest = value % size;
  return rest < 0 ? rest + size : rest;
}

struct Fetch {
  const TextureObject& of;
  const int dimensions;
  const bool layered, whole, filtered;

  Fetch(const TextureObject& of, Immediates said)
      : of(of), dimensions(int(said[0])), layered(said[1]), whole(said[2]),
        filtered(of.filtered && !whole) {}

  int corners() const { return filtered ? 1 << dimensions : 1; }
  // Whether corner `number` takes the upper element along an axis: the first axis changes last.
  bool upper(int number, int axis) const { return number >> (dimensions - 1 - axis) & 1; }

  Along along(int axis, float where) const {
    if (of.normalized)
      where *= float(of.extent(axis));
    double x = is_nan(where) ? 0.0 : double(where);
    x = std::min(std::max(x, -FARTHEST), FARTHEST);
    if (!filtered)
      return {int64_t(std::floor(x)), 0.0};
    x = std::floor((x - 0.5) * WEIGHT + 0.5) / WEIGHT;
    const double low = std::floor(x);
    return {int64_t(low), x - low};
  }

  // Where an index lies; false for outside.
  bool within(int axis, int64_t& index) const {
    const int64_t size = of.extent(axis);
    uint32_t mode = of.modes[axis];
    if (of.linear)
      mode = BORDER;
    else if ((mode == WRAP || mode == MIRROR) && !of.normalized)
      mode = CLAMP;
    bool inside = true;
    if (mode == WRAP) {
      index = floor_mod(index, size);
    } else if (mode == MIRROR) {
      index = floor_mod(index, 2 * size);
      index = index < size ? index : 2 * size - 1 - index;
    } else if (mode == BORDER) {
      inside = index >= 0 && index < size;
    }
    index = std::min(std::max<int64_t>(index, 0), size - 1);
    return inside;
  }

  uint32_t bits(const uint8_t* element, int channel) const {
    uint32_t made = 0;
    std::memcpy(&made, element + channel * int(of.bits) / 8, of.bits / 8);
    if (of.kind == SIGNED_KIND && of.bits < 32)
      made = uint32_t(int32_t(made << (32 - of.bits)) >> (32 - of.bits));
    return made;
  }

  // A channel as a number; no element is one outside.
  double number(const uint8_t* element, int channel) const {
    if (channel >= int(of.channels))
      return channel == 3;
    if (!element)
      return of.linear ? 0.0f : of.border[channel];
    const uint32_t made = bits(element, channel);
    if (of.kind == FLOAT_KIND)
      return of.bits == 16 ? of_f16(made) : bits_as<float>(made);
    const double value = of.kind == SIGNED_KIND ? double(int32_t(made)) : double(made);
    if (!of.as_float)
      return value;
    const int digits = int(of.bits) - (of.kind == SIGNED_KIND);
    return std::max(value / double((int64_t(1) << digits) - 1), -1.0);
  }

  // A channel of the one element, as bits; false for a NaN, whose bits are Python's to say.
  bool single(const uint8_t* element, int channel, uint32_t& into) const {
    if (of.kind == FLOAT_KIND || of.as_float) {
      const float value = float(number(element, channel));
      into = bits_as<uint32_t>(value);
      return !is_nan(value);
    }
    if (channel >= int(of.channels))
      into = channel == 3;
    else
      into = element ? bits(element, channel) : 0;
    return true;
  }

  bool sum(const uint8_t* const* elements, const Along* axes, int channel, uint32_t& into) const {
    double total = 0;
    for (int corner = 0; corner < corners(); corner++) {
      double weight = 1;
      for (int axis = 0; axis < dimensions; axis++)
        weight *= upper(corner, axis) ? axes[axis].part : 1 - axes[axis].part;
      total += weight * number(elements[corner], channel);
    }
    const float value = float(total);
    into = bits_as<uint32_t>(value);
    return !is_nan(value);
  }
};

// What an instruction reads of each corner, and from where.
struct Reads {
  std::vector<Row> rows[MOST_CORNERS];
  std::vector<int64_t> addresses[MOST_CORNERS], flat[MOST_CORNERS];
};

Result tex(Context& context, const Instruction& instruction) {
  const Operand* reads = instruction.operands + instruction.outs;
  const TextureObject* of = object_of(context, reads[0], TEXTURE);
  if (!of || of->cube || (of->as_float && of->srgb) || (of->kind == FLOAT_KIND && of->bits == 8))
    return FALLBACK;
  const Fetch fetch(*of, instruction.immediates);
  Memory& memory = *context.memory;
  const int corners = fetch.corners(), size = of->element_bytes();
  const Operand* coordinates = reads + 1 + fetch.layered;
  thread_local Reads made;
  thread_local std::vector<Along> axes;
  axes.resize(size_t(context.count) * LANES * DIMENSIONS);
  for (int corner = 0; corner < corners; corner++) {
    made.rows[corner].clear();
    made.addresses[corner].clear();
  }
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    Along* const of_row = axes.data() + size_t(n) * LANES * DIMENSIONS;
    each_lane(row.lanes, [&](int lane) {
      for (int axis = 0; axis < fetch.dimensions; axis++)
        of_row[lane * DIMENSIONS + axis] =
            fetch.whole ? Along{context.in<int32_t>(row, coordinates[axis])[lane], 0.0}
                        : fetch.along(axis, context.in<float>(row, coordinates[axis])[lane]);
    });
    for (int corner = 0; corner < corners; corner++) {
      int64_t addresses[LANES] = {};
      Mask inside = 0;
      each_lane(row.lanes, [&](int lane) {
        int64_t at[DIMENSIONS] = {};
        bool within = true;
        for (int axis = 0; axis < fetch.dimensions; axis++) {
          at[axis] = of_row[lane * DIMENSIONS + axis].low + (corners > 1 && fetch.upper(corner, axis));
          within &= fetch.within(axis, at[axis]);
        }
        int64_t slice = 0;
        if (fetch.layered)
          slice = std::min<int64_t>(context.in<uint32_t>(row, reads[1])[lane], of->last_layer());
        addresses[lane] = of->place(at[0], at[1], of->depth ? at[2] : slice, size);
        inside |= Mask(within) << lane;
      });
      made.rows[corner].push_back({row.file, inside, row.warp, row.row});
      made.addresses[corner].insert(made.addresses[corner].end(), addresses, addresses + LANES);
    }
  }
  ThreadAccess accesses[MOST_CORNERS];
  thread_local std::vector<Row> some[MOST_CORNERS];
  thread_local std::vector<int64_t> places;
  for (int corner = 0; corner < corners; corner++) {
    // Rows that read something, one behind the other.
    some[corner].clear();
    places.clear();
    for (size_t n = 0; n < made.rows[corner].size(); n++)
      if (made.rows[corner][n].lanes) {
        some[corner].push_back(made.rows[corner][n]);
        const int64_t* from = made.addresses[corner].data() + n * LANES;
        places.insert(places.end(), from, from + LANES);
      }
    ThreadAccess& access = accesses[corner];
    access = {some[corner].data(), int(some[corner].size()), instruction.at};
    made.flat[corner].resize(places.size());
    access.flat = made.flat[corner].data();
    access.size = size;
    access.non_coherent = true;
    if (access.count && (!memory.locate_global(access, places.data(), size) ||
                         !memory.may_observe(access)))
      return FALLBACK;
  }
  thread_local std::vector<Lanes<uint32_t>> results;
  results.resize(size_t(context.count) * CHANNELS);
  int next[MOST_CORNERS] = {};  // of the rows that read something
  bool plain = true;
  for (int n = 0; n < context.count; n++) {
    const int64_t* flat[MOST_CORNERS];
    Mask inside[MOST_CORNERS];
    for (int corner = 0; corner < corners; corner++) {
      inside[corner] = made.rows[corner][size_t(n)].lanes;
      flat[corner] = made.flat[corner].data() + next[corner] * LANES;
      next[corner] += inside[corner] != 0;
    }
    each_lane(context.rows[n].lanes, [&](int lane) {
      const uint8_t* elements[MOST_CORNERS];
      for (int corner = 0; corner < corners; corner++)
        elements[corner] = inside[corner] >> lane & 1 ? memory.bytes[GLOBAL] + flat[corner][lane]
                                                      : nullptr;
      for (int channel = 0; channel < CHANNELS; channel++) {
        uint32_t& into = results[size_t(n * CHANNELS + channel)][lane];
        plain &= corners > 1 ? fetch.sum(elements, axes.data() + size_t(n * LANES + lane) * DIMENSIONS,
                                         channel, into)
                             : fetch.single(elements[0], channel, into);
      }
    });
  }
  if (!plain)
    return FALLBACK;
  for (int corner = 0; corner < corners; corner++)
    if (accesses[corner].count)
      memory.observe(accesses[corner]);
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    for (int channel = 0; channel < CHANNELS; channel++)
      put(context, row, instruction.operands[channel], results[size_t(n * CHANNELS + channel)]);
    if (instruction.outs > CHANNELS)  // all is resident
      put(context, row, instruction.operands[CHANNELS], ALL);
  }
  return CONTINUE;
}

const Handlers handlers{{"tex", tex}};

}  // namespace
}  // namespace emu
