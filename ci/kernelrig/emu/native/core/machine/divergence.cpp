// How batches part and come together: divergence.py, and Scheduler._diverge. Registers belong to
// warps, so nothing of them is copied; only what Python holds of them (results in flight) is asked
// to follow.
#include "sync/sync.hpp"

#include <algorithm>

namespace emu {
namespace {

void publish(Batch& batch) {
  batch.view.size = batch.size();
  batch.view.warps = batch.warps.data();
  batch.view.lanes = batch.lanes.data();
  batch.view.unset = batch.unset.data();
}

// What a register holds where two batches join: in flight where one of them waits for it.
uint8_t joined(uint8_t one, uint8_t other) {
  return one >= IN_FLIGHT || other >= IN_FLIGHT ? std::max(one, other) : one & other;
}

Mask* missing_of(Point& point, int warp) {
  for (auto& [one, lanes] : point.missing)
    if (one == warp)
      return &lanes;
  return nullptr;
}

}  // namespace

Batch* Core::make(int segment) {
  if (unused.empty()) {
    pool.push_back(std::make_unique<Batch>());
    unused.push_back(pool.back().get());
  }
  Batch* batch = unused.back();
  unused.pop_back();
  batch->view = View{};
  batch->view.serial = ++serial;
  batch->view.segment = segment;
  batch->points.clear();
  batch->waiting.clear();
  return batch;
}

void Core::free(Batch* batch) {
  batch->view.serial = ++serial;
  batch->points.clear();
  unused.push_back(batch);
}

Batch* Core::take(Batch& from, const std::vector<int>& chosen, const std::vector<Mask>& lanes) {
  Batch* made = make(from.segment());
  made->warps.clear();
  for (int row : chosen)
    made->warps.push_back(from.warps[size_t(row)]);
  made->lanes = lanes;
  made->points = from.points;
  made->unset = from.unset;
  publish(*made);
  made->view.pending = from.view.pending & NATIVE_PENDING;
  if (from.view.pending & PYTHON_PENDING)
    failed(call.taken(&from, made, chosen.data(), int(chosen.size())));
  return made;
}

Batch* Core::reconverge(const std::vector<Batch*>& batches) {
  Batch& first = *batches[0];
  if (batches.size() == 1)
    return &first;
  Batch* made = make(first.segment());
  made->points = first.points;
  made->unset = first.unset;
  bool pending = false, same = true;
  for (Batch* one : batches) {
    pending |= (one->view.pending & PYTHON_PENDING) != 0;
    made->view.pending |= one->view.pending & NATIVE_PENDING;
    same &= one->warps == first.warps;
    if (one->unset == made->unset)  // nearly always
      continue;
    for (size_t r = 0; r < made->unset.size(); r++)
      made->unset[r] = joined(made->unset[r], one->unset[r]);
  }
  if (same) {
    made->warps = first.warps;
    made->lanes = first.lanes;
    for (size_t n = 1; n < batches.size(); n++)
      for (size_t row = 0; row < made->lanes.size(); row++)
        made->lanes[row] |= batches[n]->lanes[row];
  } else {
    std::vector<std::pair<int, Mask>> all;
    for (Batch* one : batches)
      for (size_t row = 0; row < one->warps.size(); row++)
        all.emplace_back(one->warps[row], one->lanes[row]);
    std::sort(all.begin(), all.end());
    made->warps.clear();
    made->lanes.clear();
    for (const auto& [warp, lanes] : all) {
      if (!made->warps.empty() && made->warps.back() == warp) {
        made->lanes.back() |= lanes;
        continue;
      }
      made->warps.push_back(warp);
      made->lanes.push_back(lanes);
    }
  }
  publish(*made);
  if (made->view.pending & NATIVE_PENDING)
    for (Batch* one : batches)
      for (size_t r = 0; r < made->unset.size(); r++)
        if (made->unset[r] >= IN_FLIGHT && one->unset[r] < IN_FLIGHT)  // they have written it since
          for (size_t row = 0; row < one->warps.size(); row++)
            sync->brings_no_more(one->warps[row], int64_t(r), one->lanes[row]);
  if (pending) {
    std::vector<Batch*> from = batches;
    failed(call.joined(from.data(), int(from.size()), made));
  }
  for (Batch* one : batches)
    free(one);
  return made;
}

Batch* Core::gather(Batch* batch, const std::vector<Mask>& needed) {
  std::vector<int> complete;
  std::vector<Mask> lanes;
  for (int row = 0; row < batch->size(); row++)
    if (!(needed[size_t(row)] & ~batch->lanes[size_t(row)])) {
      complete.push_back(row);
      lanes.push_back(batch->lanes[size_t(row)]);
    }
  if (int(complete.size()) == batch->size())
    return batch;
  std::vector<Batch*> groups;
  std::vector<int> meeting;
  if (!complete.empty())
    groups.push_back(take(*batch, complete, lanes));
  for (int row = 0; row < batch->size(); row++) {
    const Mask here = batch->lanes[size_t(row)], all = needed[size_t(row)];
    if (!(all & ~here))
      continue;
    const int warp = batch->warps[size_t(row)], segment = batch->segment();
    Batch* one = take(*batch, {row}, {here});
    const auto other = std::find_if(waiters.begin(), waiters.end(), [&](const Waiter& waiter) {
      return waiter.segment == segment && waiter.warp == warp;
    });
    if (other != waiters.end()) {
      const std::vector<Batch*> both{other->batch, one};
      waiters.erase(other);
      share_points(both);
      one = reconverge(both);
    }
    if (all & ~one->lanes[0]) {
      waiters.push_back({segment, warp, one});
      if (waits_elsewhere(waiters.back()))
        meeting.push_back(warp);
    } else {
      groups.push_back(one);
    }
  }
  free(batch);
  Batch* made = nullptr;
  if (!groups.empty()) {
    share_points(groups);
    made = reconverge(groups);
  }
  for (int warp : meeting)
    if (failed(call.meet(warp)))
      break;
  return made;
}

// Whether lanes of the warp wait for others of it in another place, too.
bool Core::waits_elsewhere(const Waiter& waiter) const {
  return std::any_of(waiters.begin(), waiters.end(), [&](const Waiter& other) {
    return other.warp == waiter.warp && other.segment != waiter.segment;
  });
}

// Keep the points that all share; batches that wait at another one are released.
void Core::share_points(const std::vector<Batch*>& batches) {
  size_t shared = 0;
  const auto alike = [&] {
    for (Batch* one : batches)
      if (one->points.size() <= shared || one->points[shared] != batches[0]->points[shared])
        return false;
    return true;
  };
  while (alike())
    shared++;
  for (Batch* one : batches) {
    for (size_t n = shared; n < one->points.size(); n++)
      release(*one->points[n]);
    one->points.resize(shared);
  }
}

void Core::release(Point& point) {
  for (Batch* batch : point.arrived) {
    batch->points.pop_back();
    ready.push_back(batch);
  }
  point.arrived.clear();
  point.missing.clear();
}

Batch* Core::arrive(Batch* batch) {
  const std::shared_ptr<Point> point = batch->points.back();
  // Released, or complete without these lanes: nothing to wait for.
  if (point->missing.empty()) {
    batch->points.pop_back();
    return batch;
  }
  for (size_t row = 0; row < batch->warps.size(); row++)
    if (Mask* missing = missing_of(*point, batch->warps[row]))
      *missing &= ~batch->lanes[row];
  point->arrived.push_back(batch);
  return complete(point);
}

Batch* Core::complete(const std::shared_ptr<Point>& point) {
  std::vector<int> done;
  for (const auto& [warp, lanes] : point->missing)
    if (!lanes)
      done.push_back(warp);
  if (done.empty() || point->arrived.empty())
    return nullptr;
  auto& missing = point->missing;
  missing.erase(std::remove_if(missing.begin(), missing.end(),
                               [](const auto& one) { return !one.second; }),
                missing.end());
  // Warps that miss no lane go on; the rest of each batch stays.
  std::vector<Batch*> going, rest;
  if (missing.empty()) {
    going.swap(point->arrived);
  } else {
    const std::vector<Batch*> arrived = std::move(point->arrived);
    point->arrived.clear();
    for (Batch* batch : arrived) {
      std::vector<int> rows_of[2];
      std::vector<Mask> lanes_of[2];
      for (int row = 0; row < batch->size(); row++) {
        const int warp = batch->warps[size_t(row)];
        const bool stays = std::find(done.begin(), done.end(), warp) == done.end();
        rows_of[stays].push_back(row);
        lanes_of[stays].push_back(batch->lanes[size_t(row)]);
      }
      for (int stays : {0, 1}) {
        if (rows_of[stays].empty())
          continue;
        const bool all = rows_of[!stays].empty();
        (stays ? rest : going).push_back(all ? batch : take(*batch, rows_of[stays], lanes_of[stays]));
      }
      if (!rows_of[0].empty() && !rows_of[1].empty())
        free(batch);
    }
    point->arrived = rest;
  }
  if (going.empty())
    return nullptr;
  for (Batch* batch : going)
    batch->points.pop_back();
  return reconverge(going);
}

Batch* Core::diverge(Batch* batch, const Segment& segment,
                     const std::vector<std::pair<std::vector<Mask>, int>>& ways) {
  const size_t size = batch->warps.size();
  // Only warps whose lanes go different ways need a reconvergence point.
  std::vector<uint8_t> mixed(size);
  bool any = false;
  for (size_t row = 0; row < size; row++) {
    int count = 0;
    for (const auto& way : ways)
      count += way.first[row] != 0;
    mixed[row] = count > 1;
    any |= count > 1;
  }
  const std::vector<std::shared_ptr<Point>> outer = batch->points;
  std::vector<std::shared_ptr<Point>> inner = outer;
  if (segment.reconvergence >= 0 && any && !apart.count(segment.reconvergence)) {
    auto point = std::make_shared<Point>();
    point->segment = segment.reconvergence;
    for (size_t row = 0; row < size; row++)
      if (mixed[row])
        point->missing.emplace_back(batch->warps[row], batch->lanes[row]);
    points.erase(std::remove_if(points.begin(), points.end(),
                                [](const auto& one) { return one->missing.empty(); }),
                 points.end());
    points.push_back(point);
    inner.push_back(point);
  }
  std::vector<Batch*> sides;
  for (const auto& [lanes, target] : ways)
    for (bool apart : {true, false}) {
      std::vector<int> chosen;
      std::vector<Mask> theirs;
      for (size_t row = 0; row < size; row++)
        if (lanes[row] && bool(mixed[row]) == apart) {
          chosen.push_back(int(row));
          theirs.push_back(lanes[row]);
        }
      if (chosen.empty())
        continue;
      batch->segment() = target;
      Batch* made = take(*batch, chosen, theirs);
      made->points = apart ? inner : outer;
      sides.push_back(made);
    }
  free(batch);
  // Those that branch straight to the reconvergence point first: they only wait there.
  std::stable_sort(sides.begin(), sides.end(), [&](Batch* a, Batch* b) {
    return (a->segment() != segment.reconvergence) < (b->segment() != segment.reconvergence);
  });
  ready.insert(ready.end(), sides.begin() + 1, sides.end() - 1);
  Batch* head = sides.front();
  if (!head->points.empty() && head->segment() == head->points.back()->segment)
    head = arrive(head);
  if (head)
    ready.push_back(head);
  return sides.back();
}

}  // namespace emu
