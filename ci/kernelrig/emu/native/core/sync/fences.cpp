// Fences, and the barrier of a warp: nothing happens in values, observers hear of them.
#include <map>

#include "observe/threads.hpp"
#include "registry.hpp"

namespace emu {
namespace {

// Immediates: semantics (races::Sem), scope (of "" and SCOPES).
Result fence(Context& context, const Instruction& instruction) {
  const Memory& memory = *context.memory;
  const int sem = int(instruction.immediates[0]), scope = int(instruction.immediates[1]);
  if (memory.python_listens_to_fences || (memory.python_listens_to_order && scope > 1))
    return FALLBACK;
  if (memory.races)
    memory.races->fenced(threads_of(context.rows, context.count).data(), size_t(context.count),
                         sem, level_of(scope));
  return CONTINUE;
}

// Immediates: of which space (races::Proxied).
Result proxy_fence(Context& context, const Instruction& instruction) {
  const Memory& memory = *context.memory;
  const int space = int(instruction.immediates[0]);
  if (memory.python_listens_to_fences || (memory.python_listens_to_order && space != races::PROXY_GLOBAL))
    return FALLBACK;
  if (memory.races)
    memory.races->proxy_fenced(threads_of(context.rows, context.count).data(),
                               size_t(context.count), space);
  return CONTINUE;
}

Result warp_sync(Context& context, const Instruction& instruction) {
  const Memory& memory = *context.memory;
  if (memory.python_listens_to_fences)
    return FALLBACK;
  // Lanes that name one mask synchronise; masks in the order of their values.
  thread_local std::map<uint32_t, std::vector<races::Threads>> meeting;
  meeting.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    const uint32_t* members = context.in<uint32_t>(row, instruction.operands[0]);
    for (Mask left = row.lanes; left;) {
      const uint32_t named = members[__builtin_ctz(left)];
      Mask lanes = 0;
      for (int lane = 0; lane < LANES; lane++)
        lanes |= Mask(members[lane] == named) << lane;
      lanes &= left;
      if (lanes & ~named)
        return FALLBACK;
      meeting[named].push_back({row.warp, lanes});
      left &= ~lanes;
    }
  }
  if (memory.races)
    for (const auto& [named, threads] : meeting)
      memory.races->warp_synced(threads.data(), threads.size());
  return CONTINUE;
}

const Handlers handlers{
    {"fence", fence}, {"fence.proxy", proxy_fence}, {"bar.warp.sync", warp_sync}};

}  // namespace
}  // namespace emu
