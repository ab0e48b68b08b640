#include "publication.hpp"

#include "release_acquire.hpp"

namespace emu {
namespace {

template <class T> T& at(std::vector<T>& list, size_t number) {
  if (list.size() <= number)
    list.resize(number + 1);
  return list[number];
}

bool releases(int sem) {
  return sem == races::RELEASE || sem == races::ACQ_REL || sem == races::SC;
}
bool acquires(int sem) {
  return sem == races::ACQUIRE || sem == races::ACQ_REL || sem == races::SC;
}

}  // namespace

void Publication::begins(const Barrier& barrier) {
  at(barriers, size_t(barrier.number)) = &barrier;
  at(live, size_t(barrier.slot)).add(barrier.number);
  at(ordered, size_t(barrier.made_by_warp)).add(barrier.number);
}

void Publication::ends(const Barrier& barrier) {
  barriers[size_t(barrier.number)] = nullptr;
  live[size_t(barrier.slot)].remove(barrier.number);
}

Numbers& Publication::live_of(int warp) { return at(live, size_t(slot_of[warp])); }

void Publication::published(const Threads* threads, size_t count) {
  for (const Barrier* barrier : barriers)
    for (size_t n = 0; barrier && n < count; n++)
      if (threads[n].warp == barrier->made_by_warp &&
          threads[n].lanes >> barrier->made_by_lane & 1) {
        initialised.add(barrier->number);
        async.add(barrier->number);
      }
}

void Publication::proxy_fenced(const Threads* threads, size_t count) {
  for (size_t n = 0; n < count; n++)
    if (threads[n].lanes)
      async.add(live_of(threads[n].warp));
}

void Publication::barrier_arrived(const Threads* threads, size_t count, int64_t instance,
                                  int sem) {
  offers(threads, count);
  Numbers& into = offered[instance];
  for (size_t n = 0; n < count; n++) {
    if (!threads[n].lanes)
      continue;
    const Numbers& here = live_of(threads[n].warp);
    into.add_common(here, sem == races::RELEASE ? here : initialised);
    for (const Barrier* barrier : barriers)
      if (barrier && barrier->made_by_warp == threads[n].warp &&
          threads[n].lanes >> barrier->made_by_lane & 1)
        unfenced[instance].add(barrier->number);
  }
}

void Publication::barrier_passed(const Threads* threads, size_t count, int64_t instance) {
  takes(threads, count);
  const auto found = offered.find(instance);
  if (found != offered.end())
    learn(threads, count, found->second, known);
  const auto others = unfenced.find(instance);
  if (others != unfenced.end())
    learn(threads, count, others->second, behind);
}

void Publication::offers(const Threads* threads, size_t count) {
  for (size_t n = 0; n < count; n++)
    if (threads[n].lanes)
      at(passed_on, size_t(slot_of[threads[n].warp])).add(at(ordered, size_t(threads[n].warp)));
}

void Publication::takes(const Threads* threads, size_t count) {
  for (size_t n = 0; n < count; n++)
    if (threads[n].lanes)
      at(ordered, size_t(threads[n].warp)).add(at(passed_on, size_t(slot_of[threads[n].warp])));
}

// Who uses an mbarrier of its own CTA; a warp that does not know of it is told once.
void Publication::check_own(const Threads* threads, size_t count, const Barrier& barrier, int use,
                            int instruction) {
  for (size_t n = 0; n < count; n++) {
    const Threads& some = threads[n];
    if (!some.lanes || slot_of[some.warp] != barrier.slot ||
        at(ordered, size_t(some.warp)).has(barrier.number))
      continue;
    at(ordered, size_t(some.warp)).add(barrier.number);
    report(use | OWN, -1, some.warp, some.lanes, instruction, &barrier);
  }
}

void Publication::release(const Threads* threads, size_t count, int sem, int level) {
  if (releases(sem))
    offers(threads, count);
  for (size_t n = 0; n < count && releases(sem) && level >= LEVEL_CLUSTER; n++)
    if (threads[n].lanes)
      released.add(live_of(threads[n].warp));
}

void Publication::learn(const Threads* threads, size_t count, const Numbers& some,
                        std::vector<Numbers>& into) {
  for (size_t n = 0; n < count; n++)
    if (threads[n].lanes)
      at(into, size_t(threads[n].warp)).add(some);
}

int Publication::missing(int warp, int64_t number) {
  return at(behind, size_t(warp)).has(number) ? FENCE_ALONE : 0;
}

void Publication::fenced(const Threads* threads, size_t count, int sem, int level) {
  release(threads, count, sem, level);
  acquire(threads, count, sem, level);
}

void Publication::waited(const Threads* threads, size_t count, const Barrier& barrier, int sem,
                         int level, int instruction) {
  check_own(threads, count, barrier, WAIT, instruction);
  acquire(threads, count, sem, level);
}

void Publication::acquire(const Threads* threads, size_t count, int sem, int level) {
  if (acquires(sem))
    takes(threads, count);
  if (acquires(sem) && level >= LEVEL_CLUSTER)
    learn(threads, count, released, known);
}

void Publication::arrived(const Threads* threads, size_t count, const Barrier& barrier, int sem,
                          int level, int instruction) {
  check_own(threads, count, barrier, ARRIVAL, instruction);
  for (size_t n = 0; n < count; n++) {
    const Threads& some = threads[n];
    if (some.lanes && slot_of[some.warp] != barrier.slot &&
        !at(known, size_t(some.warp)).has(barrier.number))
      report(ARRIVAL | missing(some.warp, barrier.number), -1, some.warp, some.lanes, instruction,
             &barrier);
  }
  release(threads, count, sem, level);
}

void Publication::op_arrived(int64_t op, int warp, const Barrier& barrier, bool bytes) {
  if (bytes && !async.has(barrier.number))
    report(BYTES_COUNTED, op, -1, 0, -1, &barrier);
  if (slot_of[warp] != barrier.slot && !at(known, size_t(warp)).has(barrier.number))
    report(SIGNAL | missing(warp, barrier.number), op, -1, 0, -1, &barrier);
}

}  // namespace emu
