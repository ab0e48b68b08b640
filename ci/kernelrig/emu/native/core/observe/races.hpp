// The race detector: accesses to the same bytes, one of them a write, that nothing orders. It finds
// what kernelrig.emu.observe.races finds, record by record and in the same order, so that reports of
// both are one; the rules, and why, stand there.
//
// How it works. Every event of a run (machine/events.py) is a function here. Threads are named by
// warps on the machine and lanes, operations and uses of barriers by numbers that the caller gives
// out, each once. What is ordered is in `clocks`, who accessed what in `shadow`. A conflict is told
// to `Report`; its words are made in Python, which reads the records as they lie here.
#pragma once

#include <array>
#include <list>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "atomic_chains.hpp"
#include "regions.hpp"
#include "view_changes.hpp"

namespace emu::races {

constexpr int64_t MOST_WRONG = 4096;  // of a region, after which it is watched no longer
constexpr int64_t MOST_IN_RUN = 2 * MOST_WRONG;  // of a run, after which one of a region is enough
constexpr size_t MOST_INSTANCES = 1024;
constexpr size_t MOST_APART = 8;  // lanes that share a place

// FULL: there are no numbers left for further records; what follows is not looked at.
enum Event : int { CONFLICT, READ_NON_COHERENT, WROTE_NON_COHERENT, ADVICE, FULL, SWIZZLE,
  WROTE_BEHIND_NON_COHERENT };

// What is reported: `codes` that are not ordered before the access under way, and the granule of
// each (of others than conflicts the first of the access). Conflicts that are alike but for the
// names of their granules have one number in `alike`. Valid during the call.
enum Hint : int { STALE = 1, WAITED = 2, FENCED_BEFORE = 4, ANNOUNCED = 8, OF_A_WARP = 16 };  // observe.unacquired.Hint
struct Found {
  int event, space, region;  // `region`: the number of its allocation or CTA
  int shift;                 // of the region
  int write, at;
  Mask bits;
  int count;
  const Code* codes;
  const int32_t* granules;
  const Actor* who;
  int asynchronous, columns;  // of the access; of its cluster
  int number;                 // of its warp, on the machine
  const int32_t *alike, *hints;  // of conflicts, else null
  // The last instruction of the CTA that saw a release and acquired nothing; of what a flag announced,
  // its last that saw a strong write. Or -1.
  int relaxed_at;
  // Answered: how many are warnings alone, and whether one of them is of writes of one value.
  int warnings, of_one_value;
  int swizzle, written;  // of a tile: by which it is read, and was written
};
using Report = int (*)(void*, Found*);  // not 0: nothing more is reported

struct Started {
  const int64_t *slot_of, *rank_of, *cta_of;  // by warp
  int64_t warps;
  int cluster_ctas, warps_a_cta;
  int64_t shared_bytes;
  const Allocation* allocations;
  int64_t allocated;
};

// How threads access memory. Of an atomic: `turns` are its lanes (32 a row) in the order in which they
// go, null where no two share a place; `observed`: its threads get to know what it read.
struct AccessForm {
  int size;
  bool write, atomic;
  int sem, level;
  bool non_coherent;
  const int32_t* turns = nullptr;
  size_t turn_count = 0;
  bool observed = true;
};

class Races {
 public:
  Races(Report report, void* user) : regions_(records_), chains_(records_), report_(report), user_(user) {}

  void started(const Started& wave);

  // `flat` has 32 places for each of `threads`; those outside its lanes mean nothing.
  void accessed(const Threads* threads, size_t count, int at, int space, const int64_t* flat,
                const AccessForm& how);
  void arrived(const Threads* threads, size_t count, int64_t place, int64_t barrier, int64_t phase,
               int sem, int level);
  void waited(const Threads* threads, size_t count, int64_t place, int64_t barrier, int64_t phase,
              int sem, int level);
  void barrier_arrived(const Threads* threads, size_t count, int64_t instance, int sem, int level);
  void barrier_passed(const Threads* threads, size_t count, int64_t instance, int sem, int level);
  void warp_synced(const Threads* threads, size_t count);
  void fenced(const Threads* threads, size_t count, int sem, int level);
  void proxy_fenced(const Threads* threads, size_t count, int space);
  void tensor_fenced(const Threads* threads, size_t count, bool before);
  void tensor_waited(const Threads* threads, size_t count, const int64_t* ops, size_t waited);
  void group_waited(int warp, Mask lanes, const int64_t* ops, size_t waited, bool read);

  // Returns the number of an operation that `warps` issue together, by one lane or (-1) all; with
  // `by_lanes`, of one that these lanes of a warp issue each for itself.
  int64_t op_issued(const int* warps, size_t count, int lane, Mask by_lanes, int at,
                    const Name* name, bool generic);
  // `starts` of an operation by lanes are one a lane.
  void op_accessed(int64_t op, int space, const int64_t* starts, size_t count, int size,
                   bool write, int swizzle = 0);
  void op_tensor(int64_t op, const Piece& piece, bool write);
  void op_arrived(int64_t op, int64_t place, int64_t barrier, int64_t phase, bool bytes);
  void copies_arrived(const int64_t* ops, size_t count, Mask lanes, int64_t place, int64_t barrier,
                      int64_t phase);
  void op_done(int64_t op) { operations_[size_t(op)]->end(); }

  // A report failed: nothing more is looked at.
  bool ended() const { return silent_; }
  const Records& records() const { return records_; }
  const Operation& operation(int64_t op) const { return *operations_[size_t(op)]; }
  // What the access under way knows of a cluster, during a report; null is nothing.
  const Clock* known(int32_t cluster) const;

 private:
  struct Phases {
    int64_t barrier = -1;
    std::vector<std::pair<int64_t, std::unique_ptr<Sync>>> syncs;
  };
  struct Instance {
    int64_t number;
    Sync sync;
  };
  // Lanes of a warp that access a variable, by one instruction.
  struct Strong {
    Warp* warp;
    int64_t flat;
    Mask lanes;
  };
  using Variables = std::unordered_map<int64_t, Sync>;

  Sync& phase(int64_t place, int64_t barrier, int64_t phase);
  Sync& instance(int64_t number);
  void release_all(const Threads* threads, size_t count, Sync& sync, int sem, int level);
  void acquire_all(const Threads* threads, size_t count, const Sync& sync, int sem, int level);
  void synchronise(std::vector<Strong>& strong, int space, const AccessForm& how, int level, int at);

  void look(const Threads* threads, size_t count, int at, int space, const int64_t* flat,
            const AccessForm& how);
  void look(Operation& operation, int space, const int64_t* starts, size_t count, int size,
            bool write, int swizzle);
  // Whether a tile is read by the swizzle that it was written with (observe.tile_swizzles).
  void check_swizzle(const Region& region, const Access& access, int64_t flat, int swizzle);
  void take_turns(const Threads* threads, const int64_t* flat, const AccessForm& how);
  void tell_full(int buffer, int shift);
  template <class Look> void guarded(Look look);
  int record_of(const Access& access, int column, Time time);
  void by_threads(const Access& access, Warp& warp, int record, const int64_t* flat,
                  const int32_t* lanes, size_t count, bool non_coherent);
  // What lanes do each for itself, some time after they issued it.
  void by_lanes(Operation& operation, int space, const int64_t* starts, size_t count, int size,
                bool write);
  bool plainly_read(Region& region, const Access& access, Warp& warp, int record,
                    const int64_t* flat, const int32_t* lanes, size_t count);
  // Distinct granules of an access by threads, with code and column (-1: several) of each.
  void codes_of(Region& region, const Access& access, int record, const int64_t* flat,
                const int32_t* lanes, size_t count);
  void merged(Region& region, const Access& access, int record, const int64_t* flat,
              const int32_t* lanes, size_t count);
  void recall(Region& region);
  bool plainly(Region& region, const Access& access, Runs runs, int record,
               const Piece* piece = nullptr);
  Where taken() const { return {taken_.granules(), 0, taken_.count}; }
  bool watches(const Region& region, const Access& access) const;
  // `where` is what stands in `taken_`, or a run of granules.
  // `one`: the flat byte of global memory, where a single lane accesses.
  void check(Region& region, const Access& access, Where where, Codes codes, Own own,
             const Piece* piece, int64_t one = -1);
  static bool is_enough(int64_t of_region, int64_t of_run) {
    return of_region > (of_run > MOST_IN_RUN ? 0 : MOST_WRONG);
  }
  void add_wrong(Region& region, size_t wrong) {
    region.wrong += int64_t(wrong);
    wrong_in_run_ += int64_t(wrong);
  }
  int column_of(Cluster& cluster);
  void check_non_coherent(Region& region, const Access& access);
  void note_non_coherent(Region& region);
  int32_t alike(const Access& access, Code code, int hint);
  int hint_of(const Region& region, const Access& access, Code code, int32_t granule) const;
  // Returns what was answered.
  Found tell(int event, const Region& region, const Access& access, const std::vector<Code>& codes,
             const std::vector<int32_t>& granules, int hint = 0, int swizzle = 0,
             int written = 0);
  // Strong reads of what a flag alone announced (observe.announced).
  void check_announced(Region& region, const Access& access, Where where);
  // The same of other lanes of a warp.
  void check_lanes(Region& region, const Access& access, Where where, Own own,
                   const OrderCheck& strict);
  bool is_announced(const Access& access, Code code) const;

  Records records_;
  Regions regions_;
  AtomicChains chains_;
  Report report_;
  void* user_;
  bool silent_ = false;
  int64_t wrong_in_run_ = 0, advised_in_run_ = 0;
  int wave_ = 0;
  bool pairs_ = false;    // more than one CTA in a cluster
  bool several_ = false;  // clusters
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<std::unique_ptr<Warp>> all_warps_;  // of all waves: records name them
  std::vector<Warp*> warps_;                      // on the machine
  std::vector<std::unique_ptr<Operation>> operations_;
  std::unordered_map<int64_t, Phases> phases_;
  std::list<Instance> instances_;  // the least recently used first
  std::unordered_map<int64_t, std::list<Instance>::iterator> instance_of_;
  Variables variables_[2];  // of global and of shared memory, by flat byte
  Sync sequential_;         // of fence.sc
  std::unordered_map<int, int> relaxed_, flags_;  // CTA -> `relaxed_at`
  bool stores_ = false;  // a strong store, no atomic, went to global memory
  const Access* current_ = nullptr;
  std::set<std::array<int, 3>> swizzles_told_;
  std::map<std::array<int64_t, 5>, int32_t> alike_;  // conflicts by what a report says of them

  // Of the access under way, kept for the next.
  std::vector<Share> shares_;
  Taken taken_;
  std::vector<int32_t> own_, list_;
  std::vector<Code> codes_;
  std::vector<uint8_t> bad_;
  std::vector<Mask> bits_;
  std::vector<Strong> strong_;
  Wrong wrong_;
  Region::Before before_;
};

// Look, and where no numbers are left for records say so.
template <class Look> void Races::guarded(Look look) {
  if (silent_) return;
  try {
    look();
  } catch (const TooManyGranules& many) {
    tell_full(many.name, many.shift);
  } catch (const std::length_error&) {
    tell_full(-1, 0);
  }
}

}  // namespace emu::races
