#include "clocks.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

namespace emu::races {

// Rows. ------------------------------------------------------------------------------------------
// They come and go with every event, nearly all of one size: what was let go of is kept for the
// next one.
namespace {
struct Pool {
  std::vector<void*> free;
  int32_t size = 0;
  ~Pool() { empty(); }
  void empty() {
    for (void* each : free) std::free(each);
    free.clear();
  }
};
constexpr size_t MOST_KEPT = 4096;
thread_local Pool pool;
}  // namespace

RowRef Row::make(int32_t size) {
  void* place = nullptr;
  if (size == pool.size && !pool.free.empty()) {
    place = pool.free.back();
    pool.free.pop_back();
  } else {
    place = std::malloc(sizeof(Row) + size_t(size) * sizeof(Time));
    if (!place) throw std::bad_alloc();
  }
  return RowRef(new (place) Row(size));
}

void Row::destroy(Row* row) {
  const int32_t size = row->size;
  row->~Row();
  if (size > pool.size) {
    pool.empty();
    pool.size = size;
  }
  if (size == pool.size && pool.free.size() < MOST_KEPT) {
    pool.free.push_back(row);
  } else {
    std::free(row);
  }
}

Time least_of_warp(const RowRef& row, int column) {
  if (!row || column + LANES > row->size) return 0;
  const Time* times = row->times() + column;
  Time least = times[0];
  for (int i = 1; i < LANES; ++i) least = std::min(least, times[i]);
  return least;
}

bool exceeds(const RowRef& a, const RowRef& b) {
  if (!a || a == b) return false;
  const Time *mine = a->times(), *other = b ? b->times() : nullptr;
  const int both = b ? std::min(a->size, b->size) : 0;
  constexpr int STEP = 64;
  int i = 0;
  for (; i + STEP <= both; i += STEP) {
    int over = 0;
    for (int j = 0; j < STEP; ++j) over |= mine[i + j] > other[i + j];
    if (over) return true;
  }
  for (; i < both; ++i)
    if (mine[i] > other[i]) return true;
  for (; i + STEP <= a->size; i += STEP) {
    int over = 0;
    for (int j = 0; j < STEP; ++j) over |= mine[i + j] > 0;
    if (over) return true;
  }
  for (; i < a->size; ++i)
    if (mine[i] > 0) return true;
  return false;
}

bool equal(const RowRef& a, const RowRef& b) { return a == b || (!exceeds(a, b) && !exceeds(b, a)); }

RowRef later(const RowRef& a, const RowRef& b) {
  if (!exceeds(b, a)) return a;
  if (!exceeds(a, b)) return b;
  const Row &wide = a->size >= b->size ? *a : *b, &narrow = a->size >= b->size ? *b : *a;
  RowRef made = Row::make(wide.size);
  Time* out = made->times();
  const Time *x = wide.times(), *y = narrow.times();
  for (int i = 0; i < narrow.size; ++i) out[i] = std::max(x[i], y[i]);
  std::copy(x + narrow.size, x + wide.size, out + narrow.size);
  return made;
}

RowRef earlier(const RowRef& a, const RowRef& b) {
  if (!exceeds(a, b)) return a;
  if (!exceeds(b, a)) return b;
  const int size = std::min(a->size, b->size);
  RowRef made = Row::make(size);
  const Time *x = a->times(), *y = b->times();
  for (int i = 0; i < size; ++i) made->times()[i] = std::min(x[i], y[i]);
  return made;
}

Time* writable(RowRef& row, int columns) {
  if (row && row->refs == 1 && row->size >= columns) return row->times();
  const int had = row ? row->size : 0;
  RowRef made = Row::make(std::max(had, columns));
  if (had) std::memcpy(made->times(), row->times(), size_t(had) * sizeof(Time));
  std::fill(made->times() + had, made->times() + made->size, 0);
  row = std::move(made);
  return row->times();
}

// What is known. ---------------------------------------------------------------------------------
const Clock* Known::find(int32_t cluster) const {
  for (const auto& [number, clock] : clusters)
    if (number == cluster) return &clock;
  return nullptr;
}

Clock& Known::at(int32_t cluster) {
  size_t i = 0;
  while (i < clusters.size() && clusters[i].first < cluster) ++i;
  if (i == clusters.size() || clusters[i].first != cluster)
    clusters.insert(clusters.begin() + ptrdiff_t(i), {cluster, Clock()});
  return clusters[i].second;
}

namespace {
Clock later(const Clock& a, const Clock& b) {
  Clock made;
  for (int row = 0; row < ROWS; ++row) {
    int as = 0;  // the rows of a completion are one: they stay so
    while (a.rows[as] != a.rows[row] || b.rows[as] != b.rows[row]) ++as;
    made.rows[row] = as < row ? made.rows[as] : later(a.rows[row], b.rows[row]);
  }
  return made;
}
}  // namespace

// Whether `b` knows nothing that `a` does not.
namespace {
bool covers(const Known& a, const Known& b) {
  if (b.clusters.size() > a.clusters.size()) return false;
  auto x = a.clusters.begin();
  for (const auto& [number, clock] : b.clusters) {
    while (x != a.clusters.end() && x->first < number) ++x;
    if (x == a.clusters.end() || x->first != number) return false;
    for (int row = 0; row < ROWS; ++row)
      if (exceeds(clock.rows[row], x->second.rows[row])) return false;
  }
  return true;
}
}  // namespace

// What one of them knows already is that one itself: a thread that waits in a loop learns the same
// again and again.
KnownRef join(const KnownRef& a, const KnownRef& b) {
  if (a == b || !b) return a;
  if (!a) return b;
  if (covers(*a, *b)) return a;
  if (covers(*b, *a)) return b;
  KnownRef made(new Known());
  auto& out = made->clusters;
  out.reserve(std::max(a->clusters.size(), b->clusters.size()));
  auto x = a->clusters.begin(), y = b->clusters.begin();
  while (x != a->clusters.end() || y != b->clusters.end()) {
    if (y == b->clusters.end() || (x != a->clusters.end() && x->first < y->first)) {
      out.push_back(*x++);
    } else if (x == a->clusters.end() || y->first < x->first) {
      out.push_back(*y++);
    } else {
      out.emplace_back(x->first, later(x->second, y->second));
      ++x, ++y;
    }
  }
  return made;
}

KnownRef with(const KnownRef& known, int32_t cluster, Clock clock) {
  KnownRef made(new Known());
  if (known) {
    made->clusters.reserve(known->clusters.size() + 1);
    made->clusters.assign(known->clusters.begin(), known->clusters.end());
  }
  made->at(cluster) = std::move(clock);
  return made;
}

bool equal(const KnownRef& a, const KnownRef& b) {
  if (a == b) return true;
  if (!a || !b || a->clusters.size() != b->clusters.size()) return false;
  for (size_t i = 0; i < a->clusters.size(); ++i) {
    const auto &x = a->clusters[i], &y = b->clusters[i];
    if (x.first != y.first) return false;
    for (int row = 0; row < ROWS; ++row)
      if (!equal(x.second.rows[row], y.second.rows[row])) return false;
  }
  return true;
}

// Clusters. --------------------------------------------------------------------------------------
Cluster::Cluster(int32_t number, int lanes)
    : number(number), lanes(lanes), columns(lanes + FIRST_OPERATIONS), times(size_t(columns), 1) {
  for (int column = columns - 1; column >= lanes; --column) free.push_back(column);
}

void Cluster::grow() {
  const int more = columns - lanes;
  for (int column = columns + more - 1; column >= columns; --column) free.push_back(column);
  columns += more;
  times.resize(size_t(columns), 1);
}

void Cluster::add_copies() {
  if (copies != NO_COLUMN) return;
  copies = columns;
  columns += lanes;
  times.resize(size_t(columns), 1);
}

// Warps. -----------------------------------------------------------------------------------------
Warp::Warp(Cluster* cluster, int column, int cta, int number)
    : Actor(false, cluster, column, cta, number) {
  ViewRef view(new View());
  view->known = with(KnownRef(), cluster->number, Clock());
  groups.push_back({ALL, view});
}

namespace {
void at_least(RowRef& row, const Warp& warp, Mask lanes, Time time, int base = 0) {
  if (!time) return;
  Time* times = writable(row, warp.cluster->columns) + base + warp.column;
  for (int lane = 0; lane < LANES; ++lane)
    if (lanes >> lane & 1) times[lane] = std::max(times[lane], time);
}
}  // namespace

// What `lanes` publish: what they know and what they have done.
Clock Warp::published_clock(Mask lanes, const View& view, Time at) const {
  Clock clock = *view.known->find(cluster->number);
  // tcgen05 order does not pass with an ordinary release: it takes fence::before_thread_sync, which
  // has moved it to ORDERED (PTX ISA 9.7.16.6.4).
  clock.rows[TENSOR] = RowRef();
  // Own accesses count as known from here on. Across proxies only those before the last proxy fence
  // do, and as ORDERED only those before fence::before.
  Time* times = writable(clock.rows[SAME], cluster->columns) + column;
  for (int lane = 0; lane < LANES; ++lane)
    if (lanes >> lane & 1) times[lane] = at;
  at_least(clock.rows[SHARED], *this, lanes, view.shared);
  at_least(clock.rows[GLOBAL], *this, lanes, view.global);
  at_least(clock.rows[ORDERED], *this, lanes, view.ordered);
  at_least(clock.rows[PERFORMED], *this, lanes, view.performed);
  at_least(clock.rows[SEQUENTIAL], *this, lanes, view.sequential);
  at_least(clock.rows[FENCED], *this, lanes, view.fenced_global);
  at_least(clock.rows[SAME], *this, lanes, view.copied, cluster->copies);
  at_least(clock.rows[SHARED], *this, lanes, view.copied_shared, cluster->copies);
  at_least(clock.rows[GLOBAL], *this, lanes, view.copied_global, cluster->copies);
  return clock;
}

KnownRef Warp::published(Mask lanes, const View& view, Time at) const {
  for (const Published& each : published_)
    if (each.view.get() == &view && each.lanes == lanes && each.at == at) return each.known;
  Published& oldest = published_[next_published_];
  next_published_ = (next_published_ + 1) % published_.size();
  oldest.view = ViewRef(const_cast<View*>(&view));
  oldest.lanes = lanes;
  oldest.at = at;
  oldest.known = with(view.known, cluster->number, published_clock(lanes, view, at));
  return oldest.known;
}

// The tcgen05 order that `lanes` pass on, also where they release nothing.
RowRef Warp::ordered(Mask lanes, const ViewRef& view) const {
  RowRef row = mine(view).rows[ORDERED];
  at_least(row, *this, lanes, view->ordered);
  return row;
}

std::pair<KnownRef, KnownRef> Warp::performed(Mask lanes, const View& view, bool releases) const {
  const KnownRef all = published(lanes, view, time);
  if (performed_.of == all && performed_.releases == releases) return performed_.found;
  std::pair<KnownRef, KnownRef> found;
  const auto add = [&all](KnownRef& to, int32_t number, Clock&& clock) {
    if (!to) {
      to = KnownRef(new Known());
      to->clusters.reserve(all->clusters.size());
    }
    to->clusters.emplace_back(number, std::move(clock));
  };
  for (const auto& each : all->clusters) {
    const RowRef* rows = each.second.rows;
    Clock seen, fenced;
    seen.rows[PERFORMED] = releases ? later(rows[PERFORMED], rows[SAME]) : rows[PERFORMED];
    fenced.rows[SEQUENTIAL] = rows[SEQUENTIAL];
    fenced.rows[FENCED] = rows[FENCED];
    if (exceeds(seen.rows[PERFORMED], RowRef()))
      add(found.first, each.first, std::move(seen));
    if (exceeds(fenced.rows[SEQUENTIAL], RowRef()))  // FENCED knows no more
      add(found.second, each.first, std::move(fenced));
  }
  performed_ = {all, releases, found};
  return found;
}

KnownRef Warp::followed(Mask lanes, const View& view) const {
  const KnownRef all = published(lanes, view, time - 1);
  if (followed_.of == all) return followed_.found;
  KnownRef found(new Known());
  found->clusters.reserve(all->clusters.size());
  for (const auto& each : all->clusters) {
    Clock clock;
    clock.rows[FOLLOWED] = later(each.second.rows[FOLLOWED], each.second.rows[SAME]);
    found->clusters.emplace_back(each.first, std::move(clock));
  }
  followed_ = {all, found};
  return found;
}

void Warp::leave() {
  published_ = {};
  performed_ = {};
  followed_ = {};
}

bool Warp::has_fenced(Mask bits) const {
  bool found = false;
  for_parts(*this, bits, [&](Mask, const ViewRef& view) {
    found |= !view->fenced.empty();
    for (const auto& each : view->known->clusters)
      found = found || exceeds(each.second.rows[PERFORMED], RowRef());
  });
  return found;
}

// Names of operations. ---------------------------------------------------------------------------
Name name_of(const char* text) {
  Name name{text, Kind::OTHER, false};
  const std::string& all = name.text;
  name.strong = all.find("reduce") != all.npos || all.rfind("red.async", 0) == 0;
  if (all.rfind("tcgen05.", 0) != 0) return name;
  std::string word = all.substr(8, all.find('.', 8) - 8);
  word = word.substr(0, word.find("::"));
  static const std::pair<const char*, Kind> kinds[] = {
      {"mma", Kind::MMA}, {"cp", Kind::CP}, {"shift", Kind::SHIFT},
      {"ld", Kind::LD},   {"st", Kind::ST}, {"commit", Kind::COMMIT}};
  for (const auto& [called, kind] : kinds)
    if (word == called) name.kind = kind;
  return name;
}

const Name* interned(const char* text) {
  static std::map<std::string, Name> names;
  auto known = names.find(text);
  if (known == names.end()) known = names.emplace(text, name_of(text)).first;
  return &known->second;
}

// Records of an actor. ---------------------------------------------------------------------------
void RecordCache::clear() {
  if (!used_) return;
  used_ = 0;
  ++generation_;
}

void RecordCache::grow() {
  std::vector<Slot> before = std::move(slots_);
  slots_.assign(std::max<size_t>(before.size() * 2, 4), Slot{});
  const uint32_t generation = generation_;
  used_ = 0;
  for (const Slot& slot : before)
    if (slot.generation == generation) find(slot.key) = slot.number;
}

int& RecordCache::find(const Key& key) {
  if ((used_ + 1) * 4 > slots_.size() * 3) grow();
  uint64_t hash = uint64_t(uint32_t(key.at)) * 0x9E3779B97F4A7C15u;
  hash ^= (uint64_t(key.mask) << 32 | uint32_t(key.time)) * 0xC2B2AE3D27D4EB4Fu;
  hash ^= uint64_t(key.size * 8 + key.level * 2 + key.write) * 0x165667B19E3779F9u;
  hash ^= hash >> 29;
  for (size_t i = hash;; ++i) {
    Slot& slot = slots_[i & (slots_.size() - 1)];
    if (slot.generation != generation_) {
      slot = {key, 0, generation_};
      ++used_;
      return slot.number;
    }
    if (slot.key == key) return slot.number;
  }
}

}  // namespace emu::races
