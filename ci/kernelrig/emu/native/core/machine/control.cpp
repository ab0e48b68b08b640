// How batches leave a segment: they branch, jump by a table, or end (scheduler.py).
#include "machine.hpp"

#include <algorithm>

#include "sync/sync.hpp"

namespace emu {

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
