// What the handlers of wgmma have in common.
#pragma once

#include "core.hpp"
#include "sync/sync.hpp"
#include "tensor/warpgroups.hpp"

namespace emu {

// What Python is told, with `about`; native/warpgroups.py has the same order.
enum WarpgroupReport : int {
  USES_GROUPS,      // the first use of groups,
  USES_WARPGROUPS,  // and of what warps of a warpgroup agree on
  NOT_READY,        // the register of an operand that holds nothing
  NOT_FENCED,
  ADDS_TO,          // a register of D that holds nothing
  DISAGREES,        // row, and twice: instruction, descriptors of A and B, scale-d
  BAD_OPERANDS,     // descriptors of A and B, how many rows, rows
  A_NOT_FENCED,
};

// The warpgroups of a run, null where they are Python's.
inline Warpgroups* warpgroups_of(Context& context) {
  Sync* sync = sync_of(context);
  return sync && !sync->warpgroups.off ? &sync->warpgroups : nullptr;
}

// Let Python make the parts that it reports from at the end, in the order in which it would.
inline bool made_parts(Core& core, Warpgroups& warpgroups, Batch& batch, int at, bool groups) {
  bool& made = groups ? warpgroups.groups_made : warpgroups.warpgroups_made;
  if (made)
    return true;
  made = true;
  return !core.failed(warpgroups.report(&batch, at, groups ? USES_GROUPS : USES_WARPGROUPS, nullptr));
}

// The step of a product in flight: it reads, then it multiplies.
bool product_step(Core& core, Op& op);

}  // namespace emu
