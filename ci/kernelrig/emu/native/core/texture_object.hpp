// Texture and surface objects (isa/_texture_object.py): a handle is the address of 128 bytes that
// the host side wrote, which cudart/library/textures.cpp lays out.
#pragma once

#include <algorithm>

#include "memory.hpp"

namespace emu {

constexpr uint32_t TEXTURE = 0x54584554, SURFACE = 0x46525553;
enum ChannelKind : uint32_t { SIGNED_KIND, UNSIGNED_KIND, FLOAT_KIND };
enum AddressMode : uint32_t { WRAP, CLAMP, MIRROR, BORDER };
constexpr int DIMENSIONS = 3;

struct TextureObject {
  uint32_t magic, linear;
  int64_t address;
  uint32_t width, height, depth, layers, cube, channels, bits, kind;
  int64_t pitch;
  uint32_t modes[DIMENSIONS], filtered, normalized, as_float, srgb;
  float border[4];
  uint8_t unused[28];

  int element_bytes() const { return int(channels * bits / 8); }
  int64_t extent(int axis) const {
    return axis == 0 ? width : std::max<int64_t>(axis == 1 ? height : depth, 1);
  }
  int64_t last_layer() const { return std::max<int64_t>(int64_t(layers) - 1, 0); }
  // The address of an element of a row; z is a slice, or a layer.
  int64_t place(int64_t x, int64_t y, int64_t z, int64_t bytes) const {
    return address + (z * extent(1) + y) * pitch + x * bytes;
  }
};
static_assert(sizeof(TextureObject) == 128);

// The object that all lanes name by `handle`; null where they name several, or none.
const TextureObject* object_of(const Context& context, Operand handle, uint32_t magic);

}  // namespace emu
