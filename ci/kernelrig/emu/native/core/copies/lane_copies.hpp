// cp.async: what lanes of a warp copy by one instruction, and arrivals on mbarriers that wait until
// copies are done (isa.cp_async, machine.copy_arrivals).
//
// A copy reads, then writes; an arrival starts when the last copy that it waits for has written.
#pragma once

#include <unordered_map>
#include <vector>

#include "core.hpp"
#include "pool.hpp"

namespace emu {

struct Sync;

// Copies of lanes, each `amount` bytes from its source and zeros up to `size`: flat places by lane.
struct LaneCopy {
  std::vector<int64_t> sources, targets;
  int64_t amount, size;
  std::vector<uint8_t> data;
};

// An arrival of lanes at a place of shared memory.
struct CopyArrival {
  int64_t slot, offset;
  std::vector<int64_t> clocks;  // of the copies, for the race detector
  size_t missing;               // how many of them are not done
};

class LaneCopies {
public:
  explicit LaneCopies(Sync& sync) : sync(sync) {}

  void start() { behind.clear(); }

  // A copy whose lanes have no places yet: to be issued, or put back.
  LaneCopy* make();
  void put(LaneCopy* copy) { copies.put(copy); }
  void issue(int warp, Mask lanes, int at, LaneCopy* copy);
  // Lanes of a warp arrive when what they have copied so far is done; those with the same copies
  // together.
  void arrive_later(int warp, Mask lanes, int at, int64_t slot, int64_t offset);
  // A copy has written.
  void ended(int64_t op);

private:
  static bool copy_step(Core& core, Op& op);
  static bool arrival_step(Core& core, Op& op);

  Sync& sync;
  std::unordered_map<int64_t, std::vector<Op*>> behind;  // by copy: the arrivals that wait for it
  Pool<LaneCopy> copies;
  Pool<CopyArrival> arrivals;
};

} // namespace emu
