// Release and acquire: how ordering passes from thread to thread, within their scopes, as
// kernelrig.emu.observe.release_acquire says. PTX ISA 8.7 to 8.9.
#pragma once

#include "order_check.hpp"

namespace emu::races {

// Of accesses, fences and barriers; volatile accesses are relaxed ones that reach the system.
enum Sem : int { WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL, VOLATILE, SC };

// What was published at one place, by the scope in which it is visible: `near` is for a CTA, `wide`
// for a cluster, `far` for all. `ended` are completions of operations, which reach any scope;
// `order` is that of tcgen05 operations, by cluster, which relaxed arrivals carry too. `performed`, of
// a variable alone, is what a relaxed read of it comes after on hardware: it acquires nothing by the
// text; `sequential` is what a fence.sc behind any read of it takes; `followed` is what its writes came
// after.
class Sync {
 public:
  void publish(const Warp& warp, const KnownRef& known, int level);
  void pass_order(const Cluster& cluster, const RowRef& row);
  void pass_completions(const Cluster& cluster, const RowRef& times, const RowRef& done);
  // Operations are complete: times by column.
  void end(const Operation& operation, const RowRef& times, bool asynchronous);
  void end_one(const Operation& operation);
  // The same of copies that each of `lanes` issued for itself.
  void end_copies(const Operation& copies, Mask lanes);
  KnownRef reach(const Warp& warp, int level) const;
  bool empty() const { return near_.empty() && wide_.empty() && !far_ && !ended_; }
  const RowRef* order(const Cluster& cluster) const;
  KnownRef performed, sequential, followed;

 private:
  template <class T> using ByNumber = std::vector<std::pair<int32_t, T>>;
  ByNumber<KnownRef> near_, wide_;
  KnownRef far_, ended_;
  ByNumber<RowRef> order_;
};

// Publishes what lanes have done; with relaxed semantics, what an earlier fence published.
void release(const Warp& warp, Mask bits, Sync& sync, int sem, int level);

// Notes with a strong write of gpu scope what its thread, or others before it, have fenced.
void perform(const Warp& warp, Mask bits, Sync& sync, bool releases);

// Notes with a strong write of gpu scope what came before it, fenced or not.
void follow(const Warp& warp, Mask bits, Sync& sync);

// Lets lanes acquire what was published; with relaxed semantics, a later acquire fence does. `cap`:
// the scope of such a fence is limited to that of this read; not so for mbarriers.
void acquire(Warp& warp, Mask bits, const Sync& sync, int sem, int level, bool cap = false);

// bar.warp.sync: the lanes know all that any of them knows and has done (PTX ISA 9.7.13.2).
void sync_warp(Warp& warp, Mask bits);

}  // namespace emu::races
