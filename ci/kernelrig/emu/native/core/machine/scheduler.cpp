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
  policy.yielded.assign(size_t(count), 0);
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
    if (shared.steps > shared.next_look) {  // which a look sets anew
      if (failed(call.look()))
        return;
      continue;
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
        for (int warp : batch->warps)
          policy.yielded[size_t(warp)]++;
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

}  // namespace emu
