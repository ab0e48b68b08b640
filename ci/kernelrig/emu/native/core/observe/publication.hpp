// Whether an mbarrier's init has been published to its users: what kernelrig.emu.observe.publication
// finds, whose first lines say what it takes.
//
// How it works. mbarriers have numbers, each object its own, and what is known of them are sets of
// such numbers. Who uses one that it may not know of is told to `Report`; the words of it are made
// in Python.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "../sync/barrier.hpp"
#include "threads.hpp"

namespace emu {

// A set of small numbers.
class Numbers {
public:
  bool has(int64_t number) const {
    const size_t word = size_t(number) / 64;
    return word < words.size() && words[word] >> (number & 63) & 1;
  }
  void add(int64_t number) {
    widen(size_t(number) / 64 + 1);
    words[size_t(number) / 64] |= uint64_t(1) << (number & 63);
  }
  void remove(int64_t number) {
    if (has(number))
      words[size_t(number) / 64] &= ~(uint64_t(1) << (number & 63));
  }
  void add(const Numbers& others) { add_common(others, others); }
  // Adds what is in both.
  void add_common(const Numbers& some, const Numbers& others) {
    const size_t count = std::min(some.words.size(), others.words.size());
    widen(count);
    for (size_t n = 0; n < count; n++)
      words[n] |= some.words[n] & others.words[n];
  }

private:
  void widen(size_t count) {
    if (words.size() < count)
      words.resize(count);
  }
  std::vector<uint64_t> words;
};

// What an unpublished mbarrier is used for.
enum Use : int { ARRIVAL, BYTES_COUNTED, SIGNAL, WAIT };
// Added to it: only the fence of the init is missing, a barrier.cluster is there.
constexpr int FENCE_ALONE = 4;
// Added to it: the mbarrier is of the thread's own CTA.
constexpr int OWN = 8;

class Publication {
public:
  // Arrivals of lanes of a warp at an instruction, or (`warp` -1) of an operation.
  using Report = int (*)(int use, int64_t op, int warp, Mask lanes, int at, const Barrier*);

  Publication(const int64_t* slot_of, Report report) : slot_of(slot_of), report(report) {}

  // mbarriers.
  void begins(const Barrier& barrier);
  void ends(const Barrier& barrier);

  // Publishing and learning. Semantics are numbers of races::Sem, levels of `Level`.
  void published(const Threads* threads, size_t count);
  void proxy_fenced(const Threads* threads, size_t count);
  void barrier_arrived(const Threads* threads, size_t count, int64_t instance, int sem);
  void barrier_passed(const Threads* threads, size_t count, int64_t instance);
  // A fence, or an access of that order.
  void fenced(const Threads* threads, size_t count, int sem, int level);
  void waited(const Threads* threads, size_t count, const Barrier& barrier, int sem, int level,
              int at);
  // Of a barrier of the CTA.
  void offers(const Threads* threads, size_t count);
  void takes(const Threads* threads, size_t count);

  // Using.
  void arrived(const Threads* threads, size_t count, const Barrier& barrier, int sem, int level,
               int at);
  // `bytes`: it counts those of an operation of the async proxy.
  void op_arrived(int64_t op, int warp, const Barrier& barrier, bool bytes);

private:
  void release(const Threads* threads, size_t count, int sem, int level);
  void acquire(const Threads* threads, size_t count, int sem, int level);
  void check_own(const Threads* threads, size_t count, const Barrier& barrier, int use, int at);
  void learn(const Threads* threads, size_t count, const Numbers& barriers,
             std::vector<Numbers>& into);
  int missing(int warp, int64_t number);
  Numbers& live_of(int warp);

  const int64_t* slot_of;  // by warp
  Report report;
  std::vector<const Barrier*> barriers;  // by number; null for those that ended
  std::vector<Numbers> live;             // by slot
  Numbers initialised;                   // by the thread that made it
  Numbers released;                      // by a thread of its CTA
  Numbers async;                         // known to the async proxy
  std::unordered_map<int64_t, Numbers> offered;  // by use of a barrier.cluster
  std::vector<Numbers> known;                    // by warp
  // The same of those whose thread came to the barrier.cluster with no fence.
  std::unordered_map<int64_t, Numbers> unfenced;
  std::vector<Numbers> behind;
  // Of the own CTA: by warp, what it initialised, or something that it is ordered behind; by slot, what
  // somebody has passed on.
  std::vector<Numbers> ordered;
  std::vector<Numbers> passed_on;
};

}  // namespace emu
