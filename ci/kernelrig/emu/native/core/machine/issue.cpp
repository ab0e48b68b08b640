// Which warps may run what comes next, and who waits: scheduler.py, Scheduler._may_issue.
#include "machine.hpp"

#include <algorithm>

namespace emu {

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

}  // namespace emu
