// What Python calls of mbarriers, groups and native operations: native/sync.py.
#include "sync/sync.hpp"

#include <algorithm>

#include "observe/clocks.hpp"

using namespace emu;

extern "C" {

// Let the core do what is in sync.hpp; `listens`: an observer of Python's hears of it. `names` are
// those of native operations.
void core_sync(Core* core, Memory* memory, const char* const* names, int64_t named,
               int (*fault)(int64_t, int, int64_t, int64_t, int64_t), int listens) {
  core->sync = std::make_shared<Sync>(*core, *memory);
  core->sync->fault = fault;
  core->sync->listens = listens;
  for (int64_t n = 0; n < named; n++)
    core->sync->names.push_back(races::interned(names[n]));
}

// Before each wave: whether the CTAs of a cluster leave its barrier one after the other, and how often
// a try_wait that must wait returns false instead.
void core_conduct(Core* core, int in_turn, double spurious) {
  core->sync->in_turn = in_turn;
  core->sync->spurious = spurious;
}

void core_sync_start(Core* core) { core->sync->start(core->warps); }

// Say that the mbarrier at a flat byte is live; null that it is no more.
void core_barrier(Core* core, int64_t flat, Barrier* barrier) {
  if (barrier)
    core->sync->begins(*barrier);
  else
    core->sync->ends(flat);
}

void core_remember(Core* core, int warp, int64_t flat, int at) {
  if (const Barrier* barrier = core->sync->find(flat))
    core->sync->remember(warp, *barrier, at);
}

// The number of the wait that a warp passed last, -1 for none.
int core_last_wait(Core* core, int warp) { return core->sync->last_wait[size_t(warp)]; }

// What it was: the mbarrier, the instruction, whether it was early, the phase.
void core_wait(Core* core, int number, int64_t* out) {
  const PassedWait& wait = core->sync->waits[size_t(number)];
  out[0] = reinterpret_cast<int64_t>(wait.barrier);
  out[1] = wait.at;
  out[2] = wait.early;
  out[3] = wait.phase;
}

// What wgmma reports by, and the names of its operations, by instruction; `off`: Python has all of it.
void core_warpgroups(Core* core, int (*report)(Batch*, int, int, const int64_t*),
                     const int32_t* names, int off) {
  core->sync->warpgroups.report = report;
  core->sync->warpgroups.names = names;
  core->sync->warpgroups.off = off;
}

// Products that not all warps of a warpgroup have issued, three numbers each: how many have, the
// first of them, the instruction. Up to `limit` are written, how many there are is returned.
int64_t core_products_expected(Core* core, int64_t* out, int64_t limit) {
  std::vector<const Expected*> found;
  for (const auto& one : core->sync->warpgroups.expected)
    found.push_back(&one.second);
  std::sort(found.begin(), found.end(),
            [](const Expected* a, const Expected* b) { return a->order < b->order; });
  for (size_t n = 0; n < found.size() && int64_t(n) < limit; n++)
    for (int64_t word : {int64_t(found[n]->count), int64_t(found[n]->warp), found[n]->what.at})
      *out++ = word;
  return int64_t(found.size());
}

// How many warps of a warpgroup have issued a product that a warp waits for.
int core_product_warps(Core* core, int64_t key) {
  const JointProduct* found = core->sync->warpgroups.joint_of(key);
  return found ? found->warps : 0;
}

// Whether a wait gave up already; `add`: it does now.
int core_gave_up(Core* core, int warp, int at, int64_t flat, int64_t phase, int add) {
  auto& known = core->sync->returned;
  if (add)
    return !known.insert({warp, at, flat, phase}).second;
  return int(known.count({warp, at, flat, phase}));
}

// The mbarrier that a warp has waited for last, and its phase; false for none.
int core_wanted(Core* core, int warp, int64_t* out) {
  const Sync::Wanted& wanted = core->sync->wanted[size_t(warp)];
  out[0] = reinterpret_cast<int64_t>(wanted.barrier);
  out[1] = wanted.phase;
  return wanted.barrier != nullptr;
}

void core_forget_wanted(Core* core, int warp) { core->sync->wanted[size_t(warp)] = {}; }

// An operation of Python's goes into the next group of lanes.
void core_group_add(Core* core, int kind, int warp, uint32_t lanes, int64_t op) {
  core->sync->add(GroupKind(kind), warp, lanes, *core->ops.at(op));
}

void core_group_commit(Core* core, int kind, int warp, uint32_t lanes) {
  core->sync->commit(GroupKind(kind), warp, lanes);
}

// A wait of Python's for groups, as that of `wait_for_groups`: the keys of what it waits for, up to
// `limit` of them; how many there are is returned.
int64_t core_group_unfinished(Core* core, int kind, int warp, uint32_t lanes, int64_t newest,
                              int read, int64_t* out, int64_t limit) {
  const std::vector<int64_t> found =
      core->sync->unfinished(GroupKind(kind), warp, lanes, newest, read);
  std::copy_n(found.begin(), std::min(limit, int64_t(found.size())), out);
  return int64_t(found.size());
}

void core_group_waited(Core* core, int kind, int warp, uint32_t lanes, int64_t newest, int read) {
  core->sync->waited(GroupKind(kind), warp, lanes, newest, read);
}

// Whether there are groups of a kind.
int core_groups(Core* core, int kind) { return !core->sync->touched[kind].empty(); }

int core_group_holds(Core* core, int kind, int warp, int64_t op) {
  for (const Queue& queue : core->sync->queues[kind][size_t(warp)])
    for (const auto& group : queue.groups)
      for (const Issued& one : group)
        if (one.op == op)
          return 1;
  return 0;
}

// What was issued and not committed, six numbers each: the warp, the lanes that share it, operation,
// lane, instruction, name. Up to `limit` are written, how many there are is returned.
int64_t core_group_uncommitted(Core* core, int kind, int64_t* out, int64_t limit) {
  int64_t count = 0;
  for (int warp : core->sync->touched[kind])
    for (const Queue& queue : core->sync->queues[kind][size_t(warp)])
      for (const Issued& one : queue.uncommitted) {
        if (count++ >= limit)
          continue;
        const int64_t words[] = {warp, queue.lanes, one.op, one.lane, one.at, one.name};
        out = std::copy(std::begin(words), std::end(words), out);
      }
  return count;
}

// The wait before the native operation whose access observers hear of, by number; -1 for none.
int core_acting_wait(Core* core) {
  const Op* acting = core->sync->acting;
  return acting ? acting->wait : -1;
}

// A native operation in flight: its name, warp, lane, instruction, the wait before it, its number
// in the race detector, and the lanes that issued it each for itself.
int core_op(Core* core, int64_t number, int64_t* out) {
  const auto found = core->ops.find(number);
  if (found == core->ops.end() || found->second->python)
    return 0;
  const Op& op = *found->second;
  const int64_t words[] = {op.name, op.warp, op.lane, op.at, op.wait, op.clock, op.lanes};
  std::copy(std::begin(words), std::end(words), out);
  return 1;
}

void core_complete(Core* core, int64_t number) { core->complete(number); }

// An operation of Python's has read its sources.
void core_op_read(Core* core, int64_t number) {
  const auto found = core->ops.find(number);
  if (found != core->ops.end())
    found->second->read = true;
}
}
