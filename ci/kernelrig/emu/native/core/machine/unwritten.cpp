// Lanes of registers that nothing has written yet: machine/unwritten_registers.py says it in words.
#include "machine.hpp"
#include "registry.hpp"

namespace emu {

// Immediates: how many registers, then their numbers (frontend/unwritten_lanes.py).
Result check_lanes(Context& context, const Instruction& instruction) {
  Core& core = context.core;
  for (int64_t n = 1; n <= instruction.immediates[0]; n++) {
    const int number = int(instruction.immediates[n]);
    const Mask* left = core.unwritten + int64_t(number) * core.warps;
    Mask any = 0;
    for (int row = 0; row < context.count; row++)
      any |= left[context.rows[row].warp] & context.rows[row].lanes;
    if (!any)
      continue;
    std::vector<Mask> lanes(context.batch.warps.size());
    for (int row = 0; row < context.count; row++) {
      const Row& one = context.rows[row];
      lanes[size_t(one.row)] = left[one.warp] & one.lanes;
    }
    if (core.failed(core.call.unwritten(&context.batch, number, instruction.at, lanes.data())))
      return HALT;
  }
  return CONTINUE;
}

namespace {

// The same registers are about to be written.
Result fill_lanes(Context& context, const Instruction& instruction) {
  for (int64_t n = 1; n <= instruction.immediates[0]; n++) {
    Mask* left = context.core.unwritten + instruction.immediates[n] * context.core.warps;
    for (int row = 0; row < context.count; row++)
      left[context.rows[row].warp] &= ~context.rows[row].lanes;
  }
  return CONTINUE;
}

const Handlers unwritten_handlers{{"register.fills", fill_lanes}};

}  // namespace
}  // namespace emu
