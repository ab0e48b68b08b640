// Vector clocks: what each thread knows of what other threads and operations have done. The rules
// are those of kernelrig.emu.observe.clocks, whose first lines explain them; here is how they are
// held.
//
// What is known of a cluster is rows of times, one a column (`Clock`). Events change one or two
// rows of them, so each row is shared by itself: copied where it is written while others hold it,
// null where all of it is 0. A row may be narrower than its cluster has columns by now: what it
// lacks is 0. Lanes of a warp that know the same share one `View`, and whether two of them do is
// told by identity, as in the Python form: both split and join a warp's lanes alike.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core.hpp"

namespace emu::races {

using Time = int32_t;
constexpr Time NEVER = INT32_MAX;

enum Order : int {
  SAME, SHARED, GLOBAL, TENSOR, ORDERED, DIRECT, PERFORMED, SEQUENTIAL, FENCED, FOLLOWED, COMMITTED,
  UNACQUIRED, ROWS
};
constexpr int FIRST_OPERATIONS = 256;
constexpr int MOST_OPERATIONS = 8192;
constexpr int NO_COLUMN = 1 << 30;

// A pointer to something that counts who holds it (`refs`); one thread runs the machine.
template <class T> class Ref {
 public:
  Ref() = default;
  Ref(const Ref& other) : held_(other.held_) { keep(); }
  Ref(Ref&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  explicit Ref(T* held) : held_(held) { keep(); }
  ~Ref() { drop(); }
  Ref& operator=(Ref other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  T* get() const { return held_; }
  T* operator->() const { return held_; }
  T& operator*() const { return *held_; }
  explicit operator bool() const { return held_ != nullptr; }
  bool operator==(const Ref& other) const { return held_ == other.held_; }
  bool operator!=(const Ref& other) const { return held_ != other.held_; }

 private:
  void keep() const {
    if (held_) ++held_->refs;
  }
  void drop() {
    if (held_ && --held_->refs == 0) T::destroy(held_);
  }
  T* held_ = nullptr;
};

// Times of columns 0 to size - 1, behind the object itself.
struct Row {
  uint32_t refs = 0;
  int32_t size;

  explicit Row(int32_t columns) : size(columns) {}
  Time* times() { return reinterpret_cast<Time*>(this + 1); }
  const Time* times() const { return reinterpret_cast<const Time*>(this + 1); }
  static Ref<Row> make(int32_t size);  // times are not set
  static void destroy(Row* row);
};
using RowRef = Ref<Row>;

inline Time time_at(const RowRef& row, int column) {
  return row && column < row->size ? row->times()[column] : 0;
}
Time least_of_warp(const RowRef& row, int column);  // of 32 columns
RowRef later(const RowRef& a, const RowRef& b);
RowRef earlier(const RowRef& a, const RowRef& b);
bool exceeds(const RowRef& a, const RowRef& b);  // in any column
bool equal(const RowRef& a, const RowRef& b);
Time* writable(RowRef& row, int columns);  // of that many columns at least, held by `row` alone

struct Clock {
  RowRef rows[ROWS];
};

// Cluster -> clock, in the order of their numbers; null knows nothing. Never written once shared.
struct Known {
  uint32_t refs = 0;
  std::vector<std::pair<int32_t, Clock>> clusters;

  const Clock* find(int32_t cluster) const;
  Clock& at(int32_t cluster);  // made where there is none
  static void destroy(Known* known) { delete known; }
};
using KnownRef = Ref<Known>;

KnownRef join(const KnownRef& a, const KnownRef& b);
KnownRef with(const KnownRef& known, int32_t cluster, Clock clock);
bool equal(const KnownRef& a, const KnownRef& b);

struct View;
// What a release fence closed: a strong write behind it publishes this.
struct Fenced {
  uint32_t refs = 0;
  int level;
  Ref<View> view;
  Time time;

  Fenced(int level, Ref<View> view, Time time) : level(level), view(std::move(view)), time(time) {}
  static void destroy(Fenced* fenced) { delete fenced; }
};

// What some lanes know. `shared`, `global`, `ordered`, `performed` and `sequential` are the times at
// which each of them fenced its own accesses last, `fenced_global` is `global` as it was then; `copied`
// is up to when it has waited for its own copies, and as it was at its last proxy fence. `seen` is what relaxed reads saw, by level of scope.
struct View {
  uint32_t refs = 0;
  KnownRef known;
  Time shared = 0, global = 0, ordered = 0, performed = 0, sequential = 0;
  Time fenced_global = 0;
  Time copied = 0, copied_shared = 0, copied_global = 0;
  std::vector<Ref<Fenced>> fenced;
  std::vector<std::pair<int, KnownRef>> seen;

  View() = default;
  View(const View& other)
      : known(other.known), shared(other.shared), global(other.global), ordered(other.ordered),
        performed(other.performed), sequential(other.sequential),
        fenced_global(other.fenced_global), copied(other.copied),
        copied_shared(other.copied_shared), copied_global(other.copied_global),
        fenced(other.fenced), seen(other.seen) {}
  static void destroy(View* view) { delete view; }
};
using ViewRef = Ref<View>;

struct Operation;
struct Cluster {
  int32_t number;
  int lanes, columns;
  int copies = NO_COLUMN;   // the first column of copies by lanes
  std::vector<Time> times;  // of the next operation in a column
  std::vector<int> free;
  std::vector<Operation*> taken;  // in the order of their issue

  Cluster(int32_t number, int lanes);
  void grow();
  void add_copies();  // makes columns for what lanes copy, if there are none
  // Whether a column is of one operation after the other, and not of a lane.
  bool counts_operations(int column) const {
    return column >= lanes && !(copies <= column && column < copies + lanes);
  }
  // Lets others have the columns of operations that `over` says are done with.
  template <class Over> void release(Over over);
};

// The records that an actor has made, by what they say. Forgotten when its time moves on.
class RecordCache {
 public:
  struct Key {
    Mask mask;
    int32_t at;
    Time time;
    int32_t level, size;
    bool write;
    bool operator==(const Key& o) const {
      return at == o.at && time == o.time && size == o.size && mask == o.mask &&
             level == o.level && write == o.write;
    }
  };
  int& find(const Key& key);  // 0 where it was not known; to be set then
  void clear();

 private:
  struct Slot {
    Key key;
    int number;
    uint32_t generation;
  };
  void grow();
  std::vector<Slot> slots_;  // a power of two
  uint32_t generation_ = 1, used_ = 0;
};

// Who accesses: a warp or an operation. `cta` is unique in the run, `number` on the machine.
struct Actor {
  const bool is_operation;
  Cluster* cluster;
  int column;
  int cta;
  int number;
  int place_cta, place_warp;  // CTA in the grid, warp in the CTA
  RecordCache records;

  Actor(bool is_operation, Cluster* cluster, int column, int cta, int number)
      : is_operation(is_operation), cluster(cluster), column(column), cta(cta), number(number) {}
};

struct Group {
  Mask lanes;
  ViewRef view;
};

struct Warp : Actor {
  Time time = 1;
  std::vector<Group> groups;
  Time copies = 1;               // the time of its next copies by lanes
  std::vector<RowRef> products;  // lane + 1 -> times by column of what its next commit tracks

  Warp(Cluster* cluster, int column, int cta, int number);
  // Gives the lanes of `bits` new views, each view once: `change(view)`, or `change(view, whole)`,
  // which is told whether all lanes of the view are among `bits`.
  template <class Change> void change(Mask bits, Change change);
  void tick() {
    ++time;
    records.clear();
  }
  const Clock& mine(const ViewRef& view) const { return *view->known->find(cluster->number); }
  Clock published_clock(Mask lanes, const View& view, Time at) const;
  KnownRef published(Mask lanes, const View& view, Time at) const;
  RowRef ordered(Mask lanes, const ViewRef& view) const;
  // What others may see once they see a strong write of `lanes`, in PERFORMED; and what a fence.sc of
  // theirs orders then, in SEQUENTIAL and FENCED.
  std::pair<KnownRef, KnownRef> performed(Mask lanes, const View& view, bool releases) const;
  // What came before the strong write that `lanes` are at, in FOLLOWED.
  KnownRef followed(Mask lanes, const View& view) const;
  // Whether some of these lanes, or threads before them, have fenced for all.
  bool has_fenced(Mask bits) const;
  // Its wave is over: it publishes nothing more.
  void leave();

 private:
  // What was published last: a thread that waits in a loop by atomics publishes the same again and
  // again. Views are never written, so that what follows from one does not change while it is held.
  struct Published {
    ViewRef view;
    Mask lanes = 0;
    Time at = 0;
    KnownRef known;
  };
  struct Performed {
    KnownRef of;
    bool releases = false;
    std::pair<KnownRef, KnownRef> found;
  };
  struct Followed {
    KnownRef of, found;
  };
  mutable std::array<Published, 4> published_;  // by a fence, now, and before now
  mutable size_t next_published_ = 0;
  mutable Performed performed_;
  mutable Followed followed_;
};

enum class Kind : uint8_t { OTHER, MMA, CP, SHIFT, LD, ST, COMMIT };
struct Name {
  std::string text;
  Kind kind;
  bool strong;  // reductions are relaxed at gpu scope: they do not race with one another
};
Name name_of(const char* text);
// The same, which lives as long as the process: there are a few dozen.
const Name* interned(const char* text);

using Piece = std::array<int, 5>;  // slot, lanes from and to, columns from and to

struct Operation : Actor {
  const Name* name;
  Time time;
  Clock clock;     // what was ordered before its issue
  KnownRef known;  // of other clusters
  int id, at;
  Mask bits;
  bool asynchronous;
  bool done = false;
  bool commits = false;
  int swizzle = 0;  // of what it wrote to shared memory
  int level;  // of its writes, if they are strong; else 0
  int issuer_column;
  Time issuer_time;
  RowRef tracked;                               // by a commit
  RowRef taken;                                 // of a commit: tcgen05 order of the thread
  RowRef waited;                                // of a commit: what its thread had waited for,
  RowRef committed;                             // and what others did before it
  std::unique_ptr<std::array<Time, LANES>> waits;  // of a tcgen05.ld or st: when each lane waited
  std::vector<Piece> pieces;                    // of tensor memory that it writes
  // Of one that lanes issued each for itself, which has a column for each from `column` on: what
  // they knew, those with one view together.
  bool by_lanes = false;
  std::vector<Group> parts;

  using Actor::Actor;
  void end() {
    done = true;
    clock = Clock();
    known = KnownRef();
    tracked = taken = waited = committed = RowRef();
    parts.clear();
  }
};

template <class Over> void Cluster::release(Over over) {
  size_t kept = 0;
  for (Operation* operation : taken) {
    if (!over(*operation)) {
      taken[kept++] = operation;
      continue;
    }
    // One further than its writes: to know those is not to know the next operation.
    times[operation->column] = operation->time + 2;
    free.push_back(operation->column);
  }
  taken.resize(kept);
}

template <class Change> void Warp::change(Mask bits, Change change) {
  const auto changed = [&change](const ViewRef& view, bool whole) -> ViewRef {
    if constexpr (std::is_invocable_v<Change, const ViewRef&, bool>)
      return change(view, whole);
    else
      return change(view);
  };
  if (groups.size() == 1 && !(groups[0].lanes & ~bits)) {  // as it mostly is
    groups[0].view = changed(groups[0].view, true);
    return;
  }
  std::vector<Group> before = std::move(groups);
  groups.clear();
  auto add = [this](Mask lanes, const ViewRef& view) {
    for (Group& group : groups) {
      if (group.view == view) {
        group.lanes |= lanes;
        return;
      }
    }
    groups.push_back({lanes, view});
  };
  for (const Group& group : before) {  // groups have views of their own: each is changed once
    if (group.lanes & ~bits) add(group.lanes & ~bits, group.view);
    if (group.lanes & bits)
      add(group.lanes & bits, changed(group.view, !(group.lanes & ~bits)));
  }
}

// Calls use(lanes, view) for the lanes of `bits`, those with one view together.
template <class Use> void for_parts(const Warp& warp, Mask bits, Use use) {
  for (const Group& group : warp.groups) {
    if (group.lanes & bits) use(group.lanes & bits, group.view);
  }
}

}  // namespace emu::races
