// Fences, and the barrier of a warp: nothing happens in values, observers hear of them.
#include <map>

#include "memory.hpp"
#include "observe/publication.hpp"
#include "observe/races.hpp"
#include "registry.hpp"

namespace emu {
namespace {

// Immediates: semantics (races::Sem), scope (of "" and SCOPES).
Result fence(Context& context, const Instruction& instruction) {
  const Memory& memory = *context.memory;
  const int sem = int(instruction.immediates[0]), scope = int(instruction.immediates[1]);
  if (memory.python_listens_to_fences)
    return FALLBACK;
  const std::vector<Threads>& threads = threads_of(context.rows, context.count);
  if (memory.races)
    memory.races->fenced(threads.data(), threads.size(), sem, level_of(scope));
  if (memory.publication)
    memory.publication->fenced(threads.data(), threads.size(), sem, level_of(scope));
  return CONTINUE;
}

// Immediates: of which space (races::Proxied).
Result proxy_fence(Context& context, const Instruction& instruction) {
  const Memory& memory = *context.memory;
  const int space = int(instruction.immediates[0]);
  if (memory.python_listens_to_fences)
    return FALLBACK;
  const std::vector<Threads>& threads = threads_of(context.rows, context.count);
  if (memory.races)
    memory.races->proxy_fenced(threads.data(), threads.size(), space);
  if (memory.publication && space != races::PROXY_GLOBAL)
    memory.publication->proxy_fenced(threads.data(), threads.size());
  return CONTINUE;
}

// Immediate: whether it is fence::before_thread_sync.
Result tensor_fence(Context& context, const Instruction& instruction) {
  const Memory& memory = *context.memory;
  if (memory.python_listens_to_fences)
    return FALLBACK;
  if (memory.races)
    memory.races->tensor_fenced(threads_of(context.rows, context.count).data(),
                                size_t(context.count), instruction.immediates[0]);
  return CONTINUE;
}

// fence.mbarrier_init.
Result publish(Context& context, const Instruction&) {
  const Memory& memory = *context.memory;
  if (memory.python_listens_to_fences)
    return FALLBACK;
  if (memory.publication)
    memory.publication->published(threads_of(context.rows, context.count).data(),
                                  size_t(context.count));
  return CONTINUE;
}

Result warp_sync(Context& context, const Instruction& instruction) {
  const Memory& memory = *context.memory;
  if (memory.python_listens_to_fences)
    return FALLBACK;
  // Lanes that name one mask synchronise; masks in the order of their values.
  thread_local std::map<uint32_t, std::vector<Threads>> meeting;
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

const Handlers fences_handlers{
    {"fence", fence},
    {"fence.proxy", proxy_fence},
    {"fence.mbarrier_init", publish},
    {"tcgen05.fence", tensor_fence},
    {"bar.warp.sync", warp_sync}};

}  // namespace
}  // namespace emu
