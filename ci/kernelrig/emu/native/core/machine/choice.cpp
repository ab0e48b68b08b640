// Which batch or operation goes next, and which warps go together: schedule_policy.py, and
// Scheduler._merged. Each draw is the one that Python's random.Random would make.
#include "machine.hpp"

#include <algorithm>

namespace emu {
namespace {

constexpr int MOST_LATER = 10;
constexpr int64_t PATIENCE = 4 * TURN;

// The first; arrivals that nothing orders come behind all others, the last one first.
Op* latest_of(const std::vector<Op*>& heads) {
  for (Op* op : heads)
    if (op->stream >= 0 || !op->leaves_stream)
      return op;
  return heads.back();
}

double weight(Core& core, int64_t key) {
  constexpr double WEIGHTS[] = {1.0, 1.0, 0.1, 0.01};
  const double drawn = WEIGHTS[core.random.below(4)];  // drawn for known keys too
  return core.policy.slow.emplace(key, drawn).first->second;
}

}  // namespace

int64_t Core::least(const Batch* also) const {
  int64_t found = also ? policy.used_up[size_t(also->warps[0])] : INT64_MAX;
  for (const Batch* one : ready)
    found = std::min(found, policy.used_up[size_t(one->warps[0])]);
  return found;
}

// How many segments a batch may run.
int Core::turn(const Batch* batch) const {
  const int64_t ahead = policy.used_up[size_t(batch->warps[0])] - least(batch);
  return TURN >> std::min<int64_t>(SHORTEN, ahead);
}

// Whether all that is ready may be waiting for what is not, and starts to count anew.
bool Core::must_change() {
  if (policy.in_a_row <= PATIENCE * int64_t(ready.size()))
    return false;
  policy.in_a_row = 0;
  return true;
}

// All that is ready may wait in loops for what a late schedule holds back, or for lanes that wait
// at a reconvergence point, where none will wait again.
void Core::change() {
  if (!heads.empty() && policy.kind == LATE) {
    Op* op = latest_of(heads);
    shared.steps++;
    step(*op);
    return;
  }
  for (const auto& point : points)
    if (!point->arrived.empty()) {
      const std::shared_ptr<Point> released = point;
      apart.insert(released->segment);
      release(*released);
      return;
    }
  reach_limits();
}

void Core::choose(Batch*& batch, Op*& op) {
  batch = nullptr;
  op = nullptr;
  if (policy.kind == FRIENDLY) {
    if (!heads.empty())
      op = heads.front();
    else
      batch = ready.front();
    return;
  }
  if (policy.kind == LATE) {
    if (ready.empty()) {
      op = latest_of(heads);
      return;
    }
    batch = *std::min_element(ready.begin(), ready.end(), [this](Batch* a, Batch* b) {
      const int64_t one = policy.used_up[size_t(a->warps[0])];
      const int64_t other = policy.used_up[size_t(b->warps[0])];
      return one != other ? one < other : slot_of[a->warps[0]] < slot_of[b->warps[0]];
    });
    return;
  }
  const size_t count = ready.size() + heads.size();
  size_t number;
  if (policy.kind == RANDOM || random.uniform() < 0.1) {
    number = size_t(random.below(int64_t(count)));
  } else {
    std::vector<double> sums;
    sums.reserve(count);
    double sum = 0;
    const int64_t least = this->least(nullptr);
    for (Batch* one : ready) {
      const int64_t ahead = policy.used_up[size_t(one->warps[0])] - least;
      const double later = double(1 << std::min<int64_t>(MOST_LATER, ahead));
      sums.push_back(sum += weight(*this, one->warps[0]) / later);
    }
    for (Op* one : heads)
      sums.push_back(sum += weight(*this, -1 - int64_t(one->at)));
    const double drawn = random.uniform() * sum;
    number = size_t(std::upper_bound(sums.begin(), sums.end() - 1, drawn) - sums.begin());
  }
  if (number < ready.size())
    batch = ready[number];
  else
    op = heads[number - ready.size()];
}

Batch* Core::merged(Batch* batch) {
  ready.erase(std::find(ready.begin(), ready.end(), batch));
  const int size = batch->size();
  if (size > 1 && !batch->view.pending && policy.splits(random)) {
    const int split = 1 + int(random.below(size - 1));
    // random.sample of all, by its pool.
    std::vector<int> pool(static_cast<size_t>(size)), order;
    for (int row = 0; row < size; row++)
      pool[size_t(row)] = row;
    for (int left = size; left > 0; left--) {
      const size_t drawn = size_t(random.below(left));
      order.push_back(pool[drawn]);
      pool[drawn] = pool[size_t(left - 1)];
    }
    std::sort(order.begin(), order.begin() + split);
    std::sort(order.begin() + split, order.end());
    const auto part = [&](int begin, int end) {
      std::vector<int> chosen(order.begin() + begin, order.begin() + end);
      std::vector<Mask> lanes;
      for (int row : chosen)
        lanes.push_back(batch->lanes[size_t(row)]);
      return take(*batch, chosen, lanes);
    };
    ready.push_back(part(split, size));
    Batch* going = part(0, split);
    free(batch);
    return going;
  }
  if (ready.empty() || batch->view.pending || policy.splits(random))
    return batch;
  std::vector<Batch*> together{batch}, others;
  for (Batch* one : ready) {
    const bool mate = one->segment() == batch->segment() && one->points == batch->points &&
                      !one->view.pending;
    (mate ? together : others).push_back(one);
  }
  if (together.size() == 1)
    return batch;
  ready = others;
  return reconverge(together);
}

}  // namespace emu
