// The loop of scheduler.py: choose, run until it must wait, choose again.
#include "machine.hpp"

#include <algorithm>

#include "sync/sync.hpp"

namespace emu {
namespace {

constexpr int64_t POLL = 1 << 14;  // turns

}  // namespace

Result python_step(Context&, const Instruction&) { return FALLBACK; }

Result check_register(Context& context, const Instruction& instruction) {
  const int reg = int(instruction.immediates[0]);
  if (!context.batch.unset[size_t(reg)])
    return CONTINUE;
  Core& core = context.core;
  return core.failed(core.call.unready(&context.batch, reg, instruction.at)) ? HALT : CONTINUE;
}

Core::~Core() = default;

void Core::start(const int32_t* first, const Mask* lanes, int count) {
  ready.clear();
  heads.clear();
  ops.clear();
  streams.clear();
  waiters.clear();
  points.clear();
  parked.clear();
  at_limits = false;
  warps = count;
  policy.used_up.assign(size_t(count), 0);
  policy.in_a_row = 0;
  Batch* batch = make(0);
  batch->warps.assign(first, first + count);
  batch->lanes.assign(lanes, lanes + count);
  batch->unset.assign(size_t(registers), 1);
  batch->view.size = count;
  batch->view.warps = batch->warps.data();
  batch->view.lanes = batch->lanes.data();
  batch->view.unset = batch->unset.data();
  ready.push_back(batch);
}

void Core::run() {
  int64_t turns = 0;
  while (!shared.stopped) {
    if (shared.steps > shared.last_step) {
      failed(call.stuck());
      return;
    }
    if (++turns % POLL == 0 && failed(call.poll()))
      return;
    if (ready.empty() && heads.empty()) {
      if (!release_waiters() && !reach_limits())
        return;
      continue;
    }
    if (!ready.empty() && must_change()) {
      change();
      continue;
    }
    Batch* batch;
    Op* op;
    choose(batch, op);
    if (op) {
      shared.steps++;
      policy.in_a_row = 0;
      step(*op);
    } else {
      const int64_t before = shared.steps;
      const bool again = advance(merged(batch));
      policy.in_a_row = again ? policy.in_a_row + shared.steps - before : 0;
    }
  }
}

void Core::step(Op& op) {
  executing(op.at);
  if (op.python) {
    failed(call.event(op.id));
    return;
  }
  if (op.step(*this, op)) {
    if (op.leaves_stream)
      leave_stream(op);
    return;
  }
  const int64_t id = op.id, clock = op.clock;
  finish(op);
  op_done(*this, clock);
  wake(OP_KEYS | id);
}

void Core::complete(int64_t id) {
  for (auto op = ops.find(id); op != ops.end() && !shared.stopped; op = ops.find(id))
    step(*op->second);
}

// Nothing can go on: release the batches that only wait to reconverge.
bool Core::release_waiters() {
  for (const auto& point : points)
    if (!point->arrived.empty()) {
      const std::shared_ptr<Point> released = point;
      if (!failed(call.unreachable(released.get())))
        release(*released);
      return true;
    }
  return false;
}

// Nothing else goes on: each try_wait gives up from here, once a phase.
bool Core::reach_limits() {
  if (at_limits || parked.empty())
    return false;
  at_limits = true;
  const int answer = call.limits();
  return !failed(answer) && answer;
}

// Runs a batch until it waits (false), or its turn ends: then it is ready again.
bool Core::advance(Batch* batch) {
  int fuel = batch ? turn(batch) : 0;
  while (batch && !shared.stopped) {
    const Segment& segment = segments[size_t(batch->segment())];
    if (!batch->points.empty() && batch->points.back()->segment == batch->segment()) {
      batch = arrive(batch);
      continue;
    }
    executing(segment.first);
    if (segment.condition) {
      batch = may_issue(batch, segment);
      if (!batch || halted())
        return false;
    }
    const int64_t index = batch->segment(), size = batch->size();
    if (!execute(*batch, segment))
      return false;
    Batch* next = batch;
    // What a branch goes by is part of the segment: it is read before the segment is counted.
    if (segment.leaves.given() && segment.leaves.checked >= 0 &&
        !check(*batch, segment.leaves.checked, segment.last - 1))
      return false;
    const bool leaves = segment.end == BRANCH || segment.end == TABLE || segment.end == EXIT;
    if (shared.following && leaves && segment.last > segment.first &&
        follows(segment, segment.last - 1) && follow(*batch, segment.last - 1) < 0)
      return false;
    visits[index] += size;
    shared.time += segment.last - segment.first;
    shared.steps++;
    fuel--;
    switch (segment.end) {
    case BRANCH:
      next = branch(batch, segment);
      break;
    case EXIT:
      next = leave(batch, segment);
      break;
    case TABLE:
      next = jump(batch, segment);
      break;
    default:
      batch->segment()++;
      if (segment.end == STOP && policy.yields(random)) {
        ready.push_back(batch);
        return true;
      }
    }
    batch = next;
    if (fuel <= 0 && batch) {
      for (int warp : batch->warps)
        policy.used_up[size_t(warp)]++;
      ready.push_back(batch);
      return true;
    }
  }
  return false;
}

bool Core::execute(Batch& batch, const Segment& segment) {
  rows.clear();
  for (size_t row = 0; row < batch.warps.size(); row++) {
    const int warp = batch.warps[row];
    rows.push_back({files + warp * file_bytes, batch.lanes[row], warp, int(row)});
  }
  Context whole{*this, batch, constants.data(), rows.data(), int(rows.size()), memory};
  const Instruction* const end = segment.code.data() + segment.code.size();
  int told = -1, python_at = -1;
  for (const Instruction* at = segment.code.data(); at != end; at++) {
    const Instruction& instruction = *at;
    executing(instruction.at);
    bool stores = false;
    // What an operation brings while a register is checked counts for the instruction itself.
    if (instruction.at != told && instruction.run != check_register &&
        instruction.run != check_lanes) {
      told = instruction.at;
      const int answer = shared.following && follows(segment, told) ? follow(batch, told) : 0;
      if (answer < 0)
        return false;
      python_at = answer ? told : -1;
    }
    // What computes an operand of it is not the instruction itself: that one has Python's step.
    if (instruction.at == python_at)
      stores = at + 1 == end || at[1].at != instruction.at;
    Context context = whole;
    if (instruction.guard != NO_GUARD) {
      guarded.clear();
      for (const Row& row : rows) {
        const Mask holds = *context.in<Mask>(row, instruction.guard);
        const Mask lanes = row.lanes & (instruction.negated ? ~holds : holds);
        if (lanes)
          guarded.push_back({row.file, lanes, row.warp, row.row});
      }
      if (guarded.empty())
        continue;
      context.rows = guarded.data();
      context.count = int(guarded.size());
    }
    Result result = stores ? FALLBACK : instruction.run(context, instruction);
    if (result == FALLBACK) {
      result = failed(call.step(&batch, instruction.at)) ? HALT : CONTINUE;
      at += instruction.behind;
    }
    if (result == HALT)
      return false;
    if (stores && follow(batch, ~instruction.at) < 0)
      return false;
    for (int n = 0; n < instruction.setting; n++)
      batch.unset[size_t(instruction.sets[n])] = 0;
  }
  for (int32_t reg : segment.sets)
    batch.unset[size_t(reg)] = 0;
  return true;
}

// Whether Python is told of an instruction: what HeldRegisters.follows says.
bool Core::follows(const Segment& segment, int at) const {
  if (shared.following != TOUCHING)
    return shared.following == EVERYTHING;
  for (int32_t n = followed.starts[at]; n < followed.starts[at + 1]; n++) {
    const int32_t reg = followed.touched[n];
    if (followed.holding[reg / 64] >> reg % 64 & 1)
      return true;
  }
  if (at != segment.first)
    return false;
  const uint64_t* dead = followed.dead + (&segment - segments.data()) * followed.words;
  uint64_t forgotten = 0;
  for (int64_t n = 0; n < followed.words; n++)
    forgotten |= followed.holding[n] & dead[n];
  return forgotten;
}

// Tell Python of an instruction before it runs, and of one that Python's step ran for it behind it.
int Core::follow(Batch& batch, int at) {
  const int answer = call.follow(&batch, at);
  if (answer > 0 && sync)
    for (int warp : batch.warps)
      sync->python_tensor[size_t(warp)] = 1;  // it may be a tcgen05.st
  return failed(answer) ? -1 : answer;
}

bool Core::check(Batch& batch, int reg, int at) {
  return !batch.unset[size_t(reg)] || !failed(call.unready(&batch, reg, at));
}

// Put the lanes of each warp for which `predicate` holds into `into`.
bool Core::masks(Batch& batch, const Segment&, const Predicate& predicate, int at,
                 std::vector<Mask>& into) {
  if (predicate.checked >= 0 && !check(batch, predicate.checked, at))
    return false;
  into = batch.lanes;
  for (size_t row = 0; row < into.size(); row++) {
    const uint8_t* file = files + batch.warps[row] * file_bytes;
    const Mask holds = *reinterpret_cast<const Mask*>(file + predicate.operand);
    into[row] &= predicate.negated ? ~holds : holds;
  }
  return true;
}

Batch* Core::may_issue(Batch* batch, const Segment& segment) {
  thread_local std::vector<Mask> mask, all;
  const bool guards = segment.guard.given();
  // A guard that is false for all lanes skips the instruction: there is nothing to wait for.
  if (guards) {
    if (!masks(*batch, segment, segment.guard, segment.first, mask))
      return nullptr;
    if (std::all_of(mask.begin(), mask.end(), [](Mask one) { return !one; }))
      return batch;
  }
  if (segment.collective != ALONE && (guards || !batch->whole())) {
    if (!guards)
      mask = batch->lanes;
    if (!needed(*batch, segment, mask, all))
      return nullptr;
    Batch* gathered = gather(batch, all);
    if (!gathered || halted())
      return nullptr;
    if (gathered != batch) {
      batch = gathered;
      if (guards && !masks(*batch, segment, segment.guard, segment.first, mask))
        return nullptr;
    }
  }
  if (!segment.waits)
    return batch;
  // Warps that may go on leave the others parked: they are separate batches from here.
  thread_local std::vector<uint8_t> may;
  may.assign(batch->warps.size(), 1);
  const int blocked = ask(*batch, segment, guards ? mask.data() : nullptr, may.data());
  if (failed(blocked))
    return nullptr;
  if (!blocked)
    return batch;
  std::vector<int> chosen[2];
  std::vector<Mask> lanes[2];
  for (int row = 0; row < batch->size(); row++) {
    const int waits = !may[size_t(row)];
    chosen[waits].push_back(row);
    lanes[waits].push_back(batch->lanes[size_t(row)]);
  }
  if (chosen[1].empty())
    return batch;
  const std::vector<int64_t> keys = blocked_by;
  if (chosen[0].empty()) {
    park(batch, keys.data(), int(keys.size()));
    return nullptr;
  }
  Batch* waiting = take(*batch, chosen[1], lanes[1]);
  park(waiting, keys.data(), int(keys.size()));
  Batch* going = take(*batch, chosen[0], lanes[0]);
  free(batch);
  return going;
}

// Who may go on: 0 all, 1 those in `going`; negative where the run is over.
int Core::ask(Batch& batch, const Segment& segment, const Mask* mask, uint8_t* going) {
  if (!segment.may_pass)
    return call.ready(&batch, mask, going);
  thread_local std::vector<Row> whole, asked;
  whole.clear();
  asked.clear();
  for (size_t row = 0; row < batch.warps.size(); row++) {
    const int warp = batch.warps[row];
    const Mask lanes = mask ? mask[row] : batch.lanes[row];
    whole.push_back({files + warp * file_bytes, batch.lanes[row], warp, int(row)});
    if (lanes)
      asked.push_back({files + warp * file_bytes, lanes, warp, int(row)});
  }
  Context context{*this, batch, constants.data(), whole.data(), int(whole.size())};
  for (const Instruction& instruction : segment.asking)
    if (instruction.run(context, instruction) == HALT)
      return -1;
  context.rows = asked.data();
  context.count = int(asked.size());
  const Answer answer = segment.may_pass(context, segment.question, going);
  return answer == ASK_PYTHON ? call.ready(&batch, mask, going) : answer;
}

// The lanes that those `here` name as members, of each warp.
bool Core::named(Batch& batch, const Segment& segment, const std::vector<Mask>& here,
                 std::vector<Mask>& into) {
  const size_t count = batch.warps.size();
  into.assign(count, 0);
  const auto name = [&](size_t row, const uint32_t* members) {
    for (Mask left = here[row]; left; left &= left - 1)
      into[row] |= members[__builtin_ctz(left)];
  };
  if (segment.members == NO_RESULT) {
    std::vector<Mask> members(count * LANES);
    if (failed(call.members(&batch, members.data())))
      return false;
    for (size_t row = 0; row < count; row++)
      name(row, &members[row * LANES]);
    return true;
  }
  rows.clear();
  for (size_t row = 0; row < count; row++) {
    const int warp = batch.warps[row];
    rows.push_back({files + warp * file_bytes, batch.lanes[row], warp, int(row)});
  }
  Context context{*this, batch, constants.data(), rows.data(), int(rows.size())};
  for (const Instruction& instruction : segment.naming)
    if (instruction.run(context, instruction) == HALT)
      return false;
  for (size_t row = 0; row < count; row++)
    name(row, context.in<uint32_t>(rows[row], segment.members));
  return true;
}

// The lanes that a collective instruction needs of each warp.
bool Core::needed(Batch& batch, const Segment& segment, const std::vector<Mask>& here,
                  std::vector<Mask>& into) {
  if (segment.collective == MEMBERS) {
    if (!named(batch, segment, here, into))
      return false;
  } else {
    into.assign(batch.warps.size(), ALL);
  }
  for (size_t row = 0; row < into.size(); row++)
    into[row] &= alive[batch.warps[row]];
  return true;
}

Batch* Core::branch(Batch* batch, const Segment& segment) {
  const int target = segment.targets[0], behind = batch->segment() + 1;
  if (!segment.leaves.given()) {
    batch->segment() = target;
    return batch;
  }
  thread_local std::vector<Mask> taken, rest;
  taken = batch->lanes;
  rest = batch->lanes;
  Mask some = 0, others = 0;
  for (size_t row = 0; row < taken.size(); row++) {
    const uint8_t* file = files + batch->warps[row] * file_bytes;
    Mask holds = *reinterpret_cast<const Mask*>(file + segment.leaves.operand);
    holds = segment.leaves.negated ? ~holds : holds;
    some |= taken[row] &= holds;
    others |= rest[row] &= ~holds;
  }
  if (!some || !others) {
    batch->segment() = some ? target : behind;
    return batch;
  }
  return diverge(batch, segment, {{taken, target}, {rest, behind}});
}

Batch* Core::jump(Batch* batch, const Segment& segment) {
  const size_t size = batch->warps.size();
  std::vector<uint32_t> index(size * LANES);
  if (failed(call.table(batch, index.data())))
    return nullptr;
  std::vector<Mask> beyond(size);
  std::vector<uint32_t> values;
  bool any = false;
  for (size_t row = 0; row < size; row++)
    for (int lane = 0; lane < LANES; lane++)
      if (batch->lanes[row] >> lane & 1) {
        const uint32_t value = index[row * LANES + size_t(lane)];
        values.push_back(value);
        if (value >= segment.targets.size()) {
          beyond[row] |= Mask(1) << lane;
          any = true;
        }
      }
  if (any) {
    failed(call.beyond(batch, beyond.data()));
    return nullptr;
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() == 1) {
    batch->segment() = segment.targets[values[0]];
    return batch;
  }
  std::vector<std::pair<std::vector<Mask>, int>> ways;
  for (uint32_t value : values) {
    std::vector<Mask> lanes(size);
    for (size_t row = 0; row < size; row++)
      for (int lane = 0; lane < LANES; lane++)
        if (batch->lanes[row] >> lane & 1 && index[row * LANES + size_t(lane)] == value)
          lanes[row] |= Mask(1) << lane;
    ways.emplace_back(std::move(lanes), segment.targets[value]);
  }
  return diverge(batch, segment, ways);
}

Batch* Core::leave(Batch* batch, const Segment& segment) {
  std::vector<int> chosen[2];
  std::vector<Mask> lanes[2];
  for (int row = 0; row < batch->size(); row++) {
    const int warp = batch->warps[size_t(row)];
    Mask leaving = batch->lanes[size_t(row)], staying = 0;
    if (segment.leaves.given()) {
      const uint8_t* file = files + warp * file_bytes;
      Mask holds = *reinterpret_cast<const Mask*>(file + segment.leaves.operand);
      holds = segment.leaves.negated ? ~holds : holds;
      staying = leaving & ~holds;
      leaving &= holds;
    }
    if (leaving) {
      chosen[0].push_back(row);
      lanes[0].push_back(leaving);
      // Barriers, points and collective instructions stop waiting for lanes that have exited.
      alive[warp] &= ~leaving;
    }
    if (staying) {
      chosen[1].push_back(row);
      lanes[1].push_back(staying);
    }
  }
  batch->segment()++;  // the lanes that stay keep the registers that are live from here on
  if (chosen[0].empty())
    return batch;
  Batch* staying = nullptr;
  Batch* gone = batch;
  if (!chosen[1].empty()) {
    gone = take(*batch, chosen[0], lanes[0]);
    staying = take(*batch, chosen[1], lanes[1]);
    free(batch);
  }
  for (const auto& point : std::vector<std::shared_ptr<Point>>(gone->points)) {
    for (size_t row = 0; row < gone->warps.size(); row++)
      for (auto& [warp, missing] : point->missing)
        if (warp == gone->warps[row])
          missing &= ~gone->lanes[row];
    if (Batch* going = complete(point))
      ready.push_back(going);
  }
  for (int warp : gone->warps)
    for (size_t n = 0; n < waiters.size();) {
      if (waiters[n].warp != warp) {
        n++;
        continue;
      }
      ready.push_back(waiters[n].batch);
      waiters.erase(waiters.begin() + long(n));
    }
  sync->exited(*gone);
  free(gone);
  return staying;
}

}  // namespace emu
