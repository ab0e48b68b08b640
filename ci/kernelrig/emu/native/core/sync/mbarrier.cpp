// Arrivals on mbarriers and waits for them, where nothing is misused.
#include "registry.hpp"
#include "sync/sync.hpp"

namespace emu {
namespace {

// Lanes that name one mbarrier, by warp.
struct Named {
  Barrier* barrier;
  std::vector<Row> rows;
};

Mask bits_of(const int64_t* values, int64_t value) {
  Mask bits = 0;
  for (int lane = 0; lane < LANES; lane++)
    bits |= Mask(values[lane] == value) << lane;
  return bits;
}

// Find the mbarriers that lanes name, in the order of the first lane; false where one names none
// that it may use: another CTA's only with `remote`.
bool find_all(Sync& sync, Context& context, Operand address, bool remote,
              std::vector<Named>& into) {
  into.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    const int64_t* named = context.in<int64_t>(row, address);
    for (Mask left = row.lanes; left;) {
      const int64_t at = named[__builtin_ctz(left)];
      const Mask lanes = left & bits_of(named, at);
      left &= ~lanes;
      Barrier* barrier = sync.find(sync.named(row.warp, at));
      if (!barrier)
        return false;
      if (barrier->slot != sync.core.slot_of[row.warp] &&
          (!remote || !sync.is_running(barrier->slot)))
        return false;
      Named* known = nullptr;
      for (Named& one : into)
        if (one.barrier == barrier)
          known = &one;
      if (!known) {
        into.push_back({barrier, {}});
        known = &into.back();
      }
      // A generic address and one of its own may name the same.
      if (!known->rows.empty() && known->rows.back().row == row.row)
        known->rows.back().lanes |= lanes;
      else
        known->rows.push_back({row.file, lanes, row.warp, row.row});
    }
  }
  return true;
}

const std::vector<Threads>& threads_of(const std::vector<Row>& rows) {
  thread_local std::vector<Threads> found;
  found.clear();
  for (const Row& row : rows)
    found.push_back({row.warp, row.lanes});
  return found;
}

int threads(const Named& named) {
  int count = 0;
  for (const Row& row : named.rows)
    count += __builtin_popcount(row.lanes);
  return count;
}

enum Number : int { ONE, COUNT, BYTES };

// Immediates: what the number is, whether the mbarrier may be another CTA's, semantics and scope.
Result arrive(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  thread_local std::vector<Named> found;
  if (!sync || !find_all(*sync, context, instruction.operands[1], instruction.immediates[1], found))
    return FALLBACK;
  const Number number = Number(instruction.immediates[0]);
  thread_local std::vector<std::pair<int64_t, int64_t>> asked;  // arrivals of a thread, bytes
  asked.clear();
  for (const Named& named : found) {
    int64_t each = 1, bytes = 0;
    for (const Row& row : named.rows) {
      if (number == ONE)
        continue;
      const uint32_t* given = context.in<uint32_t>(row, instruction.operands[2]);
      uint32_t same;
      if (number == BYTES) {
        for (int lane = 0; lane < LANES; lane++)
          bytes += row.lanes >> lane & 1 ? given[lane] : 0;
      } else if (!uniform(given, row.lanes, same) || (&row != &named.rows[0] && same != each)) {
        return FALLBACK;
      } else {
        each = same;
      }
    }
    if (each < 1 || !named.barrier->may_arrive(each * threads(named)) ||
        !named.barrier->may_transact(bytes))
      return FALLBACK;
    asked.emplace_back(each, bytes);
  }
  const Operand states = instruction.operands[0];
  for (size_t n = 0; n < found.size(); n++) {
    Barrier& barrier = *found[n].barrier;
    const auto [each, bytes] = asked[n];
    int64_t before = barrier.pending;
    if (states != NO_RESULT)
      for (const Row& row : found[n].rows)
        for (int lane = 0; lane < LANES; lane++)
          if (row.lanes >> lane & 1) {
            context.out<uint64_t>(row, states)[lane] = barrier.state(before);
            before -= each;
          }
    const int64_t phase = barrier.phase;
    barrier.arrived_by = found[n].rows[0].warp;
    sync->arrived(threads_of(found[n].rows), barrier, int(instruction.immediates[2]),
                  level_of(int(instruction.immediates[3])), instruction.at);
    // expect_tx comes first, so that the arrival cannot complete the phase without its bytes.
    if (bytes)
      barrier.transact(bytes);
    barrier.arrive(each * threads(found[n]));
    if (barrier.phase != phase)
      sync->wake(barrier);
  }
  return CONTINUE;
}

// expect_tx and complete_tx alone. Immediates: the sign, and whether it may be another CTA's.
Result transact(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  thread_local std::vector<Named> found;
  if (!sync || !find_all(*sync, context, instruction.operands[0], instruction.immediates[1], found))
    return FALLBACK;
  for (const Named& named : found)
    if (threads(named) != 1)
      return FALLBACK;
  const auto bytes_of = [&](const Named& named) {
    const Row& row = named.rows[0];
    const uint32_t* given = context.in<uint32_t>(row, instruction.operands[1]);
    return instruction.immediates[0] * int64_t(given[__builtin_ctz(row.lanes)]);
  };
  for (const Named& named : found)
    if (!named.barrier->may_transact(bytes_of(named)))
      return FALLBACK;
  for (const Named& named : found) {
    const int64_t phase = named.barrier->phase, bytes = bytes_of(named);
    if (bytes)
      named.barrier->transact(bytes);
    if (named.barrier->phase != phase)
      sync->wake(*named.barrier);
  }
  return CONTINUE;
}

template <class T> bool parity_of(Context& context, const Instruction& instruction, const Row& row,
                                  int number, int64_t& parity) {
  T phase;
  if (!uniform(context.in<T>(row, instruction.operands[number]), row.lanes, phase))
    return false;
  parity = int64_t(phase >> (sizeof(T) == 8 ? PHASE_BIT : 0) & 1);
  return true;
}

// test_wait and try_wait, by parity (u32) or by state (u64). Immediates: semantics and scope.
template <class T> Result wait(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  thread_local std::vector<Named> found;
  if (!sync || !find_all(*sync, context, instruction.operands[1], false, found))
    return FALLBACK;
  int64_t parity = 0;
  for (int n = 0; n < context.count; n++)
    if (!parity_of<T>(context, instruction, context.rows[n], 2, parity))
      return FALLBACK;
  for (const Named& named : found) {
    thread_local std::vector<Row> seen;
    seen.clear();
    for (const Row& row : named.rows) {
      parity_of<T>(context, instruction, row, 2, parity);
      const bool over = named.barrier->has_completed(parity);
      if (instruction.operands[0] != NO_RESULT) {
        Mask& result = *context.out<Mask>(row, instruction.operands[0]);
        result = (result & ~row.lanes) | (over ? row.lanes : 0);
      }
      if (!over)
        continue;
      named.barrier->observed = 1;
      sync->remember(row.warp, *named.barrier, instruction.at);
      seen.push_back(row);
    }
    if (!seen.empty())
      sync->waited(threads_of(seen), *named.barrier, int(instruction.immediates[0]),
                   level_of(int(instruction.immediates[1])), instruction.at);
  }
  return CONTINUE;
}

// Which warps of a try_wait may go on: those whose wait returns true, and, once a phase and with
// the probability of the schedule, those whose wait gives up.
template <class T>
Answer may_pass(Context& context, const Instruction& instruction, uint8_t* going) {
  Sync* sync = sync_of(context);
  if (!sync)
    return ASK_PYTHON;
  struct Waiting {
    const Row* row;
    Barrier* barrier;
  };
  thread_local std::vector<Waiting> waiting, ordered;
  waiting.clear();
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    int64_t at, parity;
    if (!uniform(context.in<int64_t>(row, instruction.operands[1]), row.lanes, at) ||
        !parity_of<T>(context, instruction, row, 2, parity))
      return ASK_PYTHON;
    Barrier* barrier = sync->find(sync->named(row.warp, at));
    // The wait itself reports that there is none, or that it is another CTA's.
    if (barrier && barrier->slot == sync->core.slot_of[row.warp] &&
        !barrier->has_completed(parity))
      waiting.push_back({&row, barrier});
  }
  if (waiting.empty())
    return ALL_READY;
  // Those that name one mbarrier are asked together, as all rows that name it were grouped.
  ordered.clear();
  if (context.count == 1) {
    ordered = waiting;
  } else {
    std::vector<int64_t> places;
    for (int n = 0; n < context.count; n++) {
      const Row& row = context.rows[n];
      const int64_t flat = sync->named(
          row.warp, context.in<int64_t>(row, instruction.operands[1])[__builtin_ctz(row.lanes)]);
      bool known = false;
      for (int64_t place : places)
        known |= place == flat;
      if (known)
        continue;
      places.push_back(flat);
      for (const Waiting& one : waiting)
        if (one.barrier->flat == flat)
          ordered.push_back(one);
    }
  }
  Core& core = sync->core;
  core.blocked_by.clear();
  for (const Waiting& one : ordered) {
    const Barrier& barrier = *one.barrier;
    const std::tuple<int, int, int64_t, int64_t> tried{one.row->warp, instruction.at, barrier.flat,
                                                       barrier.phase};
    if (sync->spurious != 0 && !sync->returned.count(tried) &&
        core.random.uniform() < sync->spurious) {
      sync->returned.insert(tried);
      continue;
    }
    going[one.row->row] = 0;
    sync->wanted[size_t(one.row->warp)] = {&barrier, barrier.phase};
    const int64_t key = BARRIER_KEYS | barrier.flat;
    bool known = false;
    for (int64_t other : core.blocked_by)
      known |= other == key;
    if (!known)
      core.blocked_by.push_back(key);
  }
  return core.blocked_by.empty() ? ALL_READY : SOME_WAIT;
}

const Handlers mbarrier_handlers{{"mbarrier.arrive", arrive},
                        {"mbarrier.transact", transact},
                        {"mbarrier.wait.u32", wait<uint32_t>},
                        {"mbarrier.wait.u64", wait<uint64_t>}};
const Conditions mbarrier_conditions{{"mbarrier.wait.u32", may_pass<uint32_t>},
                            {"mbarrier.wait.u64", may_pass<uint64_t>}};

}  // namespace
}  // namespace emu
