// What the observers of the core hear of synchronisation and operations (machine.hooks).
#include <cstring>

#include "observe/publication.hpp"
#include "observe/races.hpp"
#include "sync/sync.hpp"

namespace emu {

void Sync::arrived(const std::vector<Threads>& threads, const Barrier& barrier, int sem, int level,
                   int at) {
  if (memory.races)
    memory.races->arrived(threads.data(), threads.size(), barrier.flat, barrier.number,
                          barrier.phase, sem, level);
  if (memory.publication)
    memory.publication->arrived(threads.data(), threads.size(), barrier, sem, level, at);
}

// A wait that returns before any phase is over, as of a fresh mbarrier, learns of nothing.
void Sync::waited(const std::vector<Threads>& threads, const Barrier& barrier, int sem, int level,
                  int at) {
  if (!barrier.phase)
    return;
  if (memory.races)
    memory.races->waited(threads.data(), threads.size(), barrier.flat, barrier.number,
                         barrier.phase - 1, sem, level);
  if (memory.publication)
    memory.publication->waited(threads.data(), threads.size(), barrier, sem, level, at);
}

void Sync::op_arrived(const Op& op, const Barrier& barrier, bool bytes) {
  if (memory.races)
    memory.races->op_arrived(op.clock, barrier.flat, barrier.number, barrier.phase, bytes);
  if (memory.publication)
    memory.publication->op_arrived(op.id, op.warp, barrier, bytes);
}

void Sync::tensor_waited(const std::vector<Threads>& threads,
                         const std::vector<int64_t>& clocks) {
  if (memory.races)
    memory.races->tensor_waited(threads.data(), threads.size(), clocks.data(), clocks.size());
}

void Sync::group_waited(int warp, Mask lanes, const std::vector<int64_t>& clocks, bool read) {
  if (memory.races && !clocks.empty())
    memory.races->group_waited(warp, lanes == core.alive[warp] ? ALL : lanes, clocks.data(),
                               clocks.size(), read);
}

void Sync::accessed(const Op& op, Arena arena, const std::vector<int64_t>& starts, int64_t size,
                    bool write, const AccessDetail* detail) {
  acting = &op;
  const int64_t count = int64_t(starts.size());
  if (!memory.observe_operation(op.at, op.clock, arena, starts.data(), count, int(size), write,
                                detail ? int(detail->swizzle) : 0)) {
    op.follows |= !write;
    const int64_t words[] = {reinterpret_cast<int64_t>(starts.data()), count, arena, size, write,
                             reinterpret_cast<int64_t>(detail)};
    failed(op, ACCESSED, reinterpret_cast<int64_t>(words), 0, 0);
  }
  acting = nullptr;
}

void Sync::tensor_accessed(const Op& op, int64_t slot, int64_t lane, int64_t lanes, int64_t column,
                           int64_t columns, bool write, const AccessDetail* detail) {
  uint8_t* marks = tensor[size_t(slot)].written;
  bool right = !(marks && write && op.follows);
  for (int64_t row = lane; marks && !write && right && row < lane + lanes; row++)
    right = !std::memchr(marks + row * TENSOR_COLUMNS + column, 0, size_t(columns));
  acting = &op;
  if (!right) {
    op.follows |= !write;
    const int64_t words[] = {slot, lane, lane + lanes, column, column + columns, write,
                             reinterpret_cast<int64_t>(detail)};
    failed(op, TENSOR_ACCESSED, reinterpret_cast<int64_t>(words), 0, 0);
  } else {
    for (int64_t row = lane; marks && write && row < lane + lanes; row++)
      std::memset(marks + row * TENSOR_COLUMNS + column, 1, size_t(columns));
    if (memory.races)
      memory.races->op_tensor(op.clock,
                              {int(slot), int(lane), int(lane + lanes), int(column),
                               int(column + columns)},
                              write);
  }
  acting = nullptr;
}

void op_done(Core& core, int64_t clock) {
  if (core.memory->races)
    core.memory->races->op_done(clock);
}

} // namespace emu
