// Batches that wait for something, and asynchronous operations (Machine.park, OperationQueue).
#include "machine.hpp"

#include <algorithm>

namespace emu {

void Core::park(Batch* batch, const int64_t* keys, int count) {
  batch->waiting.assign(keys, keys + count);
  batch->view.keys = count;
  batch->view.waiting = batch->waiting.data();
  for (int64_t key : batch->waiting) {
    const auto found = parked.emplace(key, Parked{parkings, {}});
    parkings += found.second;
    found.first->second.batches.push_back(batch);
  }
}

void Core::wake(int64_t key) {
  const auto found = parked.find(key);
  if (found == parked.end())
    return;
  const std::vector<Batch*> woken = std::move(found->second.batches);
  parked.erase(found);
  for (Batch* batch : woken) {
    if (std::find(batch->waiting.begin(), batch->waiting.end(), key) == batch->waiting.end())
      continue;
    for (int64_t other : batch->waiting) {
      const auto one = parked.find(other);
      if (one == parked.end())
        continue;
      auto& list = one->second.batches;
      const auto at = std::find(list.begin(), list.end(), batch);
      if (at != list.end())
        list.erase(at);
    }
    batch->waiting.clear();
    batch->view.keys = 0;
    ready.push_back(batch);
  }
}

Op* Core::make_op() {
  if (unused_ops.empty()) {
    op_pool.push_back(std::make_unique<Op>());
    unused_ops.push_back(op_pool.back().get());
  }
  Op* op = unused_ops.back();
  unused_ops.pop_back();
  *op = Op{};
  op->id = next_op++;
  return op;
}

void Core::issue(Op* op) {
  ops.emplace(op->id, op);
  if (op->stream >= 0) {
    auto& queue = streams[op->stream];
    queue.push_back(op);
    if (queue.size() > 1)
      return;
  }
  heads.push_back(op);
}

void Core::leave_stream(Op& op) {
  if (op.stream < 0)
    return;
  const auto found = streams.find(op.stream);
  found->second.pop_front();
  if (found->second.empty())
    streams.erase(found);
  else
    heads.push_back(found->second.front());
  op.stream = -1;
}

void Core::finish(Op& op) {
  op.done = op.read = true;
  heads.erase(std::find(heads.begin(), heads.end(), &op));
  leave_stream(op);
  ops.erase(op.id);
  unused_ops.push_back(&op);
}

}  // namespace emu
