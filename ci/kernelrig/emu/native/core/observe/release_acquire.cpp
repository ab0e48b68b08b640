#include "release_acquire.hpp"

#include <algorithm>

namespace emu::races {

namespace {
template <class T> T* find(std::vector<std::pair<int32_t, T>>& in, int32_t number) {
  for (auto& [key, value] : in)
    if (key == number) return &value;
  return nullptr;
}

template <class T> T& at(std::vector<std::pair<int32_t, T>>& in, int32_t number) {
  if (T* found = find(in, number)) return *found;
  return in.emplace_back(number, T()).second;
}
}  // namespace

void Sync::publish(const Warp& warp, const KnownRef& known, int level) {
  KnownRef& near = at(near_, warp.cta);
  near = join(near, known);
  if (level < LEVEL_CLUSTER) return;
  const int32_t number = warp.cluster->number;
  // DIRECT is of the CTA that waited itself: PTX ISA 8.9.5 orders the async proxy within a CTA.
  Clock clock = *known->find(number);
  clock.rows[DIRECT] = RowRef();
  const KnownRef all = with(known, number, clock);
  KnownRef& wide = at(wide_, number);
  wide = join(wide, all);
  if (level >= LEVEL_GPU) far_ = join(far_, all);
}

void Sync::pass_order(const Cluster& cluster, const RowRef& row) {
  RowRef& known = at(order_, cluster.number);
  known = later(known, row);
}

void Sync::end(const Operation& operation, const RowRef& times, bool asynchronous) {
  Clock clock;
  clock.rows[SAME] = clock.rows[DIRECT] = times;
  // Completion implies the fence to the generic proxy, PTX ISA 8.9.1.1.
  if (asynchronous) clock.rows[SHARED] = clock.rows[GLOBAL] = times;
  ended_ = join(ended_, with(KnownRef(), operation.cluster->number, clock));
}

// Passes on what was complete, and what was done, before a commit that arrives was issued.
void Sync::pass_completions(const Cluster& cluster, const RowRef& times, const RowRef& done) {
  Clock clock;
  clock.rows[SAME] = times;
  clock.rows[COMMITTED] = done;
  ended_ = join(ended_, with(KnownRef(), cluster.number, clock));
}

// Says of one operation that its reads (time) and writes (time + 1) are over.
void Sync::end_one(const Operation& operation) {
  RowRef row;
  writable(row, operation.cluster->columns)[operation.column] = operation.time + 1;
  end(operation, row, operation.asynchronous);
}

void Sync::end_copies(const Operation& copies, Mask lanes) {
  RowRef row;
  Time* times = writable(row, copies.cluster->columns) + copies.column;
  for (int lane = 0; lane < LANES; ++lane)
    if (lanes >> lane & 1) times[lane] = copies.time + 1;
  end(copies, row, false);
}

KnownRef Sync::reach(const Warp& warp, int level) const {
  auto& self = const_cast<Sync&>(*this);
  const KnownRef* near = find(self.near_, warp.cta);
  KnownRef known = join(near ? *near : KnownRef(), ended_);
  if (level >= LEVEL_CLUSTER)
    if (const KnownRef* wide = find(self.wide_, warp.cluster->number)) known = join(known, *wide);
  if (level >= LEVEL_GPU) known = join(known, far_);
  return known;
}

const RowRef* Sync::order(const Cluster& cluster) const {
  return find(const_cast<Sync&>(*this).order_, cluster.number);
}

void release(const Warp& warp, Mask bits, Sync& sync, int sem, int level) {
  for_parts(warp, bits, [&](Mask lanes, const ViewRef& view) {
    // tcgen05 order passes with relaxed arrivals too: the fences around it do the ordering.
    sync.pass_order(*warp.cluster, warp.ordered(lanes, view));
    if (sem != RELAXED) sync.publish(warp, warp.published(lanes, *view, warp.time), level);
    // fence; st.relaxed is a release pattern (PTX ISA 8.8): what the fence closed is published with
    // the narrower of both scopes.
    for (const auto& fenced : view->fenced)
      sync.publish(warp, warp.published(lanes, *fenced->view, fenced->time),
                   std::min(level, fenced->level));
  });
}

void perform(const Warp& warp, Mask bits, Sync& sync, bool releases) {
  for_parts(warp, bits, [&](Mask lanes, const ViewRef& view) {
    const auto [seen, fenced] = warp.performed(lanes, *view, releases);
    sync.performed = join(sync.performed, seen);
    sync.sequential = join(sync.sequential, fenced);
  });
}

void follow(const Warp& warp, Mask bits, Sync& sync) {
  for_parts(warp, bits, [&](Mask lanes, const ViewRef& view) {
    sync.followed = join(sync.followed, warp.followed(lanes, *view));
  });
}

namespace {
KnownRef unacquired(const KnownRef& known) {
  if (!known) return known;
  KnownRef found(new Known());
  for (const auto& [cluster, clock] : known->clusters)
    found->at(cluster).rows[UNACQUIRED] = clock.rows[SAME];
  return found;
}
}  // namespace

void acquire(Warp& warp, Mask bits, const Sync& sync, int sem, int level, bool cap) {
  const RowRef* order = sync.order(*warp.cluster);
  // A relaxed read takes nothing yet, but an acquire fence behind it does (PTX ISA 8.8): remember
  // what it would take, for each scope that the fence may have.
  const KnownRef known = sem != RELAXED ? sync.reach(warp, level) : KnownRef();
  std::vector<std::pair<int, KnownRef>> seen;
  if (sem == RELAXED && !sync.empty())
    for (const int fence : {LEVEL_CTA, LEVEL_CLUSTER, LEVEL_GPU})
      seen.emplace_back(fence, sync.reach(warp, cap ? std::min(fence, level) : fence));
  KnownRef waited;  // by a relaxed wait for an mbarrier: no order by PTX's text
  if (sem == RELAXED && !cap) waited = unacquired(sync.reach(warp, level));
  const int32_t number = warp.cluster->number;
  const bool wide = cap && level >= LEVEL_GPU;
  const KnownRef performed = wide && sem == RELAXED ? sync.performed : KnownRef();
  const KnownRef sequential = wide ? sync.sequential : KnownRef();
  const KnownRef followed = wide ? sync.followed : KnownRef();
  warp.change(bits, [&](const ViewRef& view, bool whole) {
    const bool ordered = order && exceeds(*order, warp.mine(view).rows[ORDERED]);
    if (!known && !ordered && !performed && !sequential && !followed && !waited && seen.empty())
      return view;
    KnownRef all = known ? join(view->known, known) : view->known;
    // The join may have brought it already.
    const RowRef& mine = all->find(number)->rows[ORDERED];
    if (order && exceeds(*order, mine)) {
      Clock clock = *all->find(number);
      clock.rows[ORDERED] = later(mine, *order);
      all = with(all, number, clock);
    }
    if (performed) all = join(all, performed);
    if (sequential) all = join(all, sequential);
    if (followed) all = join(all, followed);
    if (waited) all = join(all, waited);
    std::vector<std::pair<int, KnownRef>> saw;
    for (const auto& [fence, each] : seen) {
      KnownRef before;
      for (const auto& [level_before, old] : view->seen)
        if (level_before == fence) before = old;
      saw.emplace_back(fence, join(before, each));
    }
    // Nothing new, as of a thread that waits in a loop. Lanes of a view, some of which do not learn,
    // are parted all the same: the Python form tells them apart by that.
    if (whole && all == view->known && (seen.empty() || saw == view->seen)) return view;
    ViewRef made(new View(*view));
    made->known = std::move(all);
    if (!seen.empty()) made->seen = std::move(saw);
    return made;
  });
}

namespace {
bool same_seen(const View& a, const View& b) {
  if (a.seen.size() != b.seen.size()) return false;
  for (size_t i = 0; i < a.seen.size(); ++i)
    if (a.seen[i].first != b.seen[i].first || !equal(a.seen[i].second, b.seen[i].second))
      return false;
  return true;
}
}  // namespace

void sync_warp(Warp& warp, Mask bits) {
  KnownRef known;
  for_parts(warp, bits, [&](Mask lanes, const ViewRef& view) {
    known = join(known, warp.published(lanes, *view, warp.time));
  });
  const int32_t number = warp.cluster->number;
  std::vector<ViewRef> made;
  warp.change(bits, [&](const ViewRef& view) {
    const RowRef& tensor = warp.mine(view).rows[TENSOR];  // the only row a thread has for itself
    for (const ViewRef& done : made)
      if (done->fenced == view->fenced && same_seen(*done, *view) &&
          equal(warp.mine(done).rows[TENSOR], tensor))
        return done;
    Clock clock = *known->find(number);
    clock.rows[TENSOR] = tensor;
    ViewRef next(new View());
    next->known = with(known, number, std::move(clock));
    next->fenced = view->fenced;
    next->seen = view->seen;
    made.push_back(next);
    return next;
  });
  warp.tick();
}

}  // namespace emu::races
