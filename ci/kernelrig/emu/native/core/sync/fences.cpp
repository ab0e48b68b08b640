// Fences, and the barrier of a warp: nothing happens in values.
#include "registry.hpp"
#include "sync/sync.hpp"

namespace emu {
namespace {

Result fence(Context& context, const Instruction&) { return sync_of(context) ? CONTINUE : FALLBACK; }

Result warp_sync(Context& context, const Instruction& instruction) {
  if (!sync_of(context))
    return FALLBACK;
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    const uint32_t* members = context.in<uint32_t>(row, instruction.operands[0]);
    for (int lane = 0; lane < LANES; lane++)
      if (row.lanes >> lane & 1 & ~(members[lane] >> lane))
        return FALLBACK;
  }
  return CONTINUE;
}

const Handlers handlers{{"fence", fence}, {"bar.warp.sync", warp_sync}};

} // namespace
} // namespace emu
