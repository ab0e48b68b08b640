#include "texture_object.hpp"

namespace emu {

const TextureObject* object_of(const Context& context, Operand handle, uint32_t magic) {
  const Memory& memory = *context.memory;
  const Row& first = context.rows[0];
  const int64_t named = context.in<int64_t>(first, handle)[__builtin_ctz(first.lanes)];
  for (int n = 0; n < context.count; n++) {
    const int64_t* handles = context.in<int64_t>(context.rows[n], handle);
    bool same = true;
    each_lane(context.rows[n].lanes, [&](int lane) { same &= handles[lane] == named; });
    if (!same)
      return nullptr;
  }
  const int64_t at = named - GLOBAL_BASE;
  if (named < GLOBAL_BASE)
    return nullptr;
  const int64_t home =
      std::upper_bound(memory.starts, memory.starts + memory.allocations, at) - memory.starts - 1;
  if (home < 0 || at + int64_t(sizeof(TextureObject)) > memory.ends[home] || at % 8)
    return nullptr;
  const auto* found = reinterpret_cast<const TextureObject*>(memory.bytes[GLOBAL] + at);
  const bool known = (found->bits == 8 || found->bits == 16 || found->bits == 32) &&
                     (found->channels == 1 || found->channels == 2 || found->channels == 4);
  return found->magic == magic && known && found->width ? found : nullptr;
}

}  // namespace emu
