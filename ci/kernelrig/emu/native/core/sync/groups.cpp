// Groups of copies: commit and wait (machine.async_groups).
#include <algorithm>

#include "registry.hpp"
#include "sync/sync.hpp"

namespace emu {

namespace {

// Calls `each` for the operations that a wait which leaves `newest` groups waits for; of -1
// also for those that are not committed.
template <class Each> void older(const Queue& queue, int64_t newest, bool read, Each each) {
  const int64_t last = int64_t(queue.groups.size()) - std::max<int64_t>(newest, 0);
  for (int64_t n = read ? int64_t(queue.seen_read) : 0; n < last; n++)
    for (const Issued& one : queue.groups[size_t(n)])
      each(one);
  if (newest < 0)
    for (const Issued& one : queue.uncommitted)
      each(one);
}

} // namespace

bool Sync::is_over(const Issued& one) const {
  const JointProduct* together = warpgroups.joint_of(one.together);
  if (!together)
    return is_over(one.op, false);
  return together->warps == WARPGROUP &&
         std::all_of(together->parts.begin(), together->parts.end(),
                     [this](const auto& part) { return is_over(part.first, false); });
}

void Sync::left(const Issued& one, std::vector<int64_t>& clocks) {
  const auto add = [&clocks](int64_t clock) {
    if (std::find(clocks.begin(), clocks.end(), clock) == clocks.end())
      clocks.push_back(clock);
  };
  const auto together = warpgroups.joint.find(one.together);
  if (together == warpgroups.joint.end())
    return add(one.clock);
  for (const auto& part : together->second.parts)
    add(part.second);
  if (!--together->second.unwaited)
    warpgroups.joint.erase(together);
}

std::vector<int64_t> Sync::unfinished(GroupKind kind, int warp, Mask lanes, int64_t newest,
                                      bool read) {
  std::vector<int64_t> found;
  const auto add = [&found](int64_t key) {
    if (std::find(found.begin(), found.end(), key) == found.end())
      found.push_back(key);
  };
  for (Queue* queue : queues_of(kind, warp, lanes))
    older(*queue, newest, read, [&](const Issued& one) {
      const JointProduct* together = warpgroups.joint_of(one.together);
      if (!together) {
        if (!is_over(one.op, read))
          add(OP_KEYS | one.op);
        return;
      }
      if (together->warps < WARPGROUP)
        add(PRODUCT_KEYS | one.together);
      for (const auto& part : together->parts)
        if (!is_over(part.first, read))
          add(OP_KEYS | part.first);
    });
  return found;
}

void Sync::waited(GroupKind kind, int warp, Mask lanes, int64_t newest, bool read) {
  if (newest < 0) {
    commit(kind, warp, lanes);
    newest = 0;
  }
  for (Queue* queue : queues_of(kind, warp, lanes)) {
    const int64_t last = int64_t(queue->groups.size()) - newest;
    if (last <= 0)
      continue;
    thread_local std::vector<int64_t> clocks;
    clocks.clear();
    if (memory.races || kind == MATRIX_GROUPS)
      older(*queue, newest, read, [this](const Issued& one) { left(one, clocks); });
    queue->seen_read = std::max(queue->seen_read, size_t(last));
    if (!read) {
      queue->groups.erase(queue->groups.begin(), queue->groups.begin() + last);
      queue->seen_read -= size_t(last);
    }
    group_waited(warp, queue->lanes & lanes, clocks, read);
  }
}

// Immediates of all: the kind of groups; of waits also how many may be left (-1: a wait for all,
// and a commit), and whether only the reads of the sources are waited for.
Result commit_groups(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  for (int n = 0; n < context.count; n++)
    sync->commit(GroupKind(instruction.immediates[0]), context.rows[n].warp,
                 context.rows[n].lanes);
  return CONTINUE;
}

Answer groups_may_pass(Context& context, const Instruction& instruction, uint8_t* going) {
  Sync* sync = sync_of(context);
  if (!sync)
    return ASK_PYTHON;
  const bool read = instruction.immediates[2];
  std::vector<int64_t>& keys = sync->core.blocked_by;
  keys.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    for (int64_t key : sync->unfinished(GroupKind(instruction.immediates[0]), row.warp, row.lanes,
                                        instruction.immediates[1], read)) {
      going[row.row] = 0;
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        keys.push_back(key);
    }
  }
  return keys.empty() ? ALL_READY : SOME_WAIT;
}

Result wait_for_groups(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  for (int n = 0; n < context.count; n++)
    sync->waited(GroupKind(instruction.immediates[0]), context.rows[n].warp, context.rows[n].lanes,
                 instruction.immediates[1], instruction.immediates[2]);
  return CONTINUE;
}

namespace {

// What changes nothing.
Result quiet(Context& context, const Instruction&) { return sync_of(context) ? CONTINUE : FALLBACK; }

const Handlers groups_handlers{{"group.commit", commit_groups}, {"group.wait", wait_for_groups}, {"sync.quiet", quiet}};
const Conditions groups_conditions{{"group.wait", groups_may_pass}};

} // namespace
} // namespace emu
