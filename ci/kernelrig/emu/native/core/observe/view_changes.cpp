#include "view_changes.hpp"

#include <algorithm>

namespace emu::races {

namespace {
const Clock& mine(const Warp& warp, const ViewRef& view) { return warp.mine(view); }

KnownRef with_own(const Warp& warp, const ViewRef& view, Clock clock) {
  return with(view->known, warp.cluster->number, std::move(clock));
}
}  // namespace

// Takes what relaxed reads saw, as far as the fence's scope reaches (PTX ISA 8.8).
void acquire_fence(Warp& warp, Mask bits, int level) {
  warp.change(bits, [&](const ViewRef& view) {
    // What a fence of this scope takes, one before it may have taken.
    const std::pair<int, KnownRef>* found = nullptr;
    for (const auto& each : view->seen)
      if (each.first == level) found = &each;
    if (!found) return view;
    ViewRef made(new View(*view));
    made->known = join(view->known, found->second);
    made->seen.clear();
    for (const auto& each : view->seen)
      if (each.first > level) made->seen.push_back(each);
    return made;
  });
}

// fence.sc of gpu scope: takes what was before those that come before it in any execution in which
// strong accesses between them saw what they saw (PTX ISA 8.9.3).
void sequential_fence(Warp& warp, Mask bits) {
  warp.change(bits, [&](const ViewRef& view) {
    bool more = false;
    for (const auto& each : view->known->clusters)
      more = more || exceeds(each.second.rows[SEQUENTIAL], each.second.rows[SAME]) ||
             exceeds(each.second.rows[FENCED], each.second.rows[GLOBAL]);
    if (!more) return view;
    ViewRef made(new View(*view));
    made->known = KnownRef(new Known());
    made->known->clusters = view->known->clusters;
    for (auto& [cluster, clock] : made->known->clusters) {
      clock.rows[SAME] = later(clock.rows[SAME], clock.rows[SEQUENTIAL]);
      clock.rows[GLOBAL] = later(clock.rows[GLOBAL], clock.rows[FENCED]);
    }
    return made;
  });
}

void release_fence(Warp& warp, Mask bits, int level, bool sequential) {
  warp.change(bits, [&](const ViewRef& view) {
    ViewRef closed(new View(*view)), made(new View(*view));
    closed->fenced.clear();
    closed->seen.clear();
    // A wider fence before it still counts for wider scopes; a narrower one is replaced.
    made->fenced.clear();
    for (const auto& each : view->fenced)
      if (each->level > level) made->fenced.push_back(each);
    made->fenced.push_back(Ref<Fenced>(new Fenced(level, closed, warp.time)));
    if (level < LEVEL_GPU) return made;
    made->performed = warp.time;
    if (sequential) made->sequential = warp.time, made->fenced_global = view->global;
    made->known = KnownRef(new Known());
    made->known->clusters = view->known->clusters;
    for (auto& [cluster, clock] : made->known->clusters) {
      clock.rows[PERFORMED] = later(clock.rows[PERFORMED], clock.rows[SAME]);
      if (!sequential) continue;
      clock.rows[SEQUENTIAL] = later(clock.rows[SEQUENTIAL], clock.rows[SAME]);
      clock.rows[FENCED] = later(clock.rows[FENCED], clock.rows[GLOBAL]);
    }
    return made;
  });
}

// What this thread knows in one proxy it knows in the other (PTX ISA 9.7.13.4). It works both ways,
// has no scope, and must lie on the way from one access to the other.
void proxy_fence(Warp& warp, Mask bits, int space) {
  const bool shared = space != PROXY_GLOBAL, global = space != PROXY_SHARED;
  warp.change(bits, [&](const ViewRef& view) {
    // What is known in SAME becomes known across proxies, of all clusters. Own accesses before the
    // fence are noted by time, as lanes share the view.
    ViewRef made(new View(*view));
    made->known = KnownRef(new Known());
    made->known->clusters = view->known->clusters;
    for (auto& [cluster, clock] : made->known->clusters) {
      if (shared) clock.rows[SHARED] = later(clock.rows[SHARED], clock.rows[SAME]);
      if (global) clock.rows[GLOBAL] = later(clock.rows[GLOBAL], clock.rows[SAME]);
    }
    if (shared) made->shared = warp.time, made->copied_shared = view->copied;
    if (global) made->global = warp.time, made->copied_global = view->copied;
    return made;
  });
}

// tcgen05.fence::before_thread_sync: publish what is complete, and what was issued.
void before_thread_sync(Warp& warp, Mask bits) {
  warp.change(bits, [&](const ViewRef& view) {
    ViewRef made(new View(*view));
    made->ordered = warp.time;
    const Clock& old = mine(warp, view);
    if (!exceeds(old.rows[TENSOR], old.rows[ORDERED])) return made;
    Clock clock = old;
    clock.rows[ORDERED] = later(clock.rows[ORDERED], clock.rows[TENSOR]);
    made->known = with_own(warp, view, std::move(clock));
    return made;
  });
}

// tcgen05.fence::after_thread_sync: take what others published.
void after_thread_sync(Warp& warp, Mask bits) {
  warp.change(bits, [&](const ViewRef& view) {
    const Clock& old = mine(warp, view);
    if (!exceeds(old.rows[ORDERED], old.rows[TENSOR])) return view;
    Clock clock = old;
    clock.rows[TENSOR] = later(clock.rows[TENSOR], clock.rows[ORDERED]);
    ViewRef made(new View(*view));
    made->known = with_own(warp, view, std::move(clock));
    return made;
  });
}

namespace {
using Times = std::vector<std::pair<int, Time>>;  // by column, each once

ViewRef learn(const Warp& warp, const ViewRef& view, std::initializer_list<int> rows,
              const Times& times) {
  const Clock& old = mine(warp, view);
  bool known = true;
  for (const auto& [column, time] : times)
    known &= time_at(old.rows[*rows.begin()], column) >= time;
  if (known) return view;
  Clock clock = old;
  for (const int row : rows) {
    Time* held = writable(clock.rows[row], warp.cluster->columns);
    for (const auto& [column, time] : times)
      if (held[column] < time) held[column] = time;
  }
  ViewRef made(new View(*view));
  made->known = with_own(warp, view, std::move(clock));
  return made;
}
}  // namespace

// Completion in the async proxy shows in the generic one too; cp.async is generic itself, and what
// follows in the async proxy needs a fence.
void complete(Warp& warp, Mask bits, const std::vector<Operation*>& operations, bool read) {
  Times times[2];
  Time copied = 0;
  for (const Operation* operation : operations) {
    if (operation->by_lanes) {
      copied = std::max(copied, operation->time + 1);
      continue;
    }
    Times& to = times[operation->asynchronous];
    const Time time = operation->time + !read;
    bool known = false;
    for (auto& [column, each] : to) {
      if (column != operation->column) continue;
      each = time;
      known = true;
    }
    if (!known) to.emplace_back(operation->column, time);
  }
  warp.change(bits, [&](const ViewRef& view) {
    const ViewRef both = learn(warp, view, {SAME, SHARED, GLOBAL, DIRECT}, times[true]);
    const ViewRef all = learn(warp, both, {SAME, DIRECT}, times[false]);
    if (copied <= all->copied) return all;
    ViewRef made(new View(*all));
    made->copied = copied;
    return made;
  });
}

namespace {
// A commit is of all products that the thread issued before.
void track(Operation& operation, Warp& warp, int lane) {
  warp.products.resize(LANES + 1);
  RowRef& products = warp.products[size_t(lane + 1)];
  const int columns = warp.cluster->columns;
  switch (operation.name->kind) {
  case Kind::LD:
  case Kind::ST:
    operation.waits = std::make_unique<std::array<Time, LANES>>();
    operation.waits->fill(NEVER);
    break;
  case Kind::MMA:
  case Kind::CP:
  case Kind::SHIFT:
    writable(products, columns)[operation.column] = operation.time + 1;
    break;
  case Kind::COMMIT:  // it implies fence::before_thread_sync, PTX ISA 9.7.16.12
    operation.commits = true;
    operation.tracked = products;
    operation.taken =
        later(later(operation.clock.rows[ORDERED], operation.clock.rows[TENSOR]), products);
    // What its thread had waited for is complete when it arrives: a copy into the part of a stage
    // that no product read is behind the one before. It releases nothing of threads.
    operation.waited = operation.clock.rows[SAME];
    std::fill_n(writable(operation.waited, columns), warp.cluster->lanes, 0);
    operation.committed = later(operation.clock.rows[SAME], operation.clock.rows[COMMITTED]);
    {
      Time* times = writable(operation.committed, columns);
      std::fill(times + warp.cluster->lanes, times + operation.committed->size, 0);
      times[operation.issuer_column] = 0;
    }
    break;
  case Kind::OTHER:
    break;
  }
}
}  // namespace

void issue(Operation& operation, const std::vector<Warp*>& warps, int lane, bool generic) {
  Warp& warp = *warps[0];
  Cluster& cluster = *warp.cluster;
  const Mask bits = lane < 0 ? ALL : 1u << lane;
  const Time issued = warp.time;
  // What an operation is ordered behind: for one thread's, all that the thread knows and did. What
  // a whole warp issues as one (wgmma, tcgen05.ld) needs what each lane knows: the earliest.
  if (lane >= 0 || generic) {
    KnownRef known;
    RowRef tensor;
    for (const Warp* each : warps) {
      for_parts(*each, bits, [&](Mask lanes, const ViewRef& view) {
        known = join(known, each->published(lanes, *view, each->time));
        tensor = mine(*each, view).rows[TENSOR];
      });
    }
    // tcgen05 operations of one thread are ordered by their issue: it knows its own.
    Time* own = writable(tensor, cluster.columns) + warp.column;
    for (int i = 0; i < LANES; ++i)
      if (bits >> i & 1) own[i] = issued;
    operation.clock = *known->find(cluster.number);
    operation.clock.rows[TENSOR] = tensor;
    operation.known = known;
  } else {
    bool first = true;
    for (const Warp* each : warps) {
      for_parts(*each, bits, [&](Mask, const ViewRef& view) {
        const Clock& clock = mine(*each, view);
        if (first) {
          operation.known = view->known;
          operation.clock = clock;
        } else {
          for (int row = 0; row < ROWS; ++row)
            operation.clock.rows[row] = earlier(operation.clock.rows[row], clock.rows[row]);
        }
        first = false;
      });
    }
  }
  operation.time = cluster.times[size_t(operation.column)];
  operation.bits = bits;
  operation.asynchronous = !generic;
  operation.level = operation.name->strong ? LEVEL_GPU : 0;
  operation.issuer_column = warp.column + (lane < 0 ? 0 : lane);
  operation.issuer_time = issued;
  track(operation, warp, lane);
  for (Warp* each : warps) each->tick();
}

void issue_by_lanes(Operation& operation, Warp& warp, Mask lanes) {
  operation.by_lanes = true;
  operation.asynchronous = false;
  operation.level = 0;
  operation.time = warp.copies;
  operation.bits = lanes;
  operation.issuer_column = warp.column;
  operation.issuer_time = warp.time;
  for_parts(warp, lanes, [&operation](Mask part, const ViewRef& view) {
    operation.parts.push_back({part, view});
  });
  warp.copies += 2;
  warp.tick();
}

}  // namespace emu::races
