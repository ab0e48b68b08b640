#include "order.hpp"

#include "watched_pages.hpp"

namespace cudart {
namespace {

constexpr size_t MANY_PARTS = 1 << 16, MOST_PARTS = 1 << 22;

struct Order {
  Chains chains;
  Clock host;      // what the host knows to be complete
  Clock all;       // all that was ever asked for
  Clock blocking;  // and that of streams which the legacy default stream waits for
  Line legacy;
  Accesses accesses;
  size_t tolerated = MANY_PARTS;  // parts of `accesses`, before it is looked through again
  Operation* now = nullptr;
  std::set<std::string> told;
  uint64_t lines = 0;
  uint32_t graphs = 0;
};
Order& order() {
  static auto* one = new Order;
  return *one;
}

// What the next operation of a stream begins behind.
Clock behind(const Line& line) {
  Order& all = order();
  Clock at = all.host;
  at.join(line.after);
  if (&line == &all.legacy)
    at.join(all.blocking);
  else if (line.blocking)
    at.join(all.legacy.after);
  return at;
}

void ended(Line& line, const Clock& clock) {
  Order& all = order();
  line.after.join(clock);
  all.all.join(clock);
  if (line.blocking)
    all.blocking.join(clock);
  if (line.blocking && &line != &all.legacy)
    all.legacy.early = false;  // the next kernel there waits for this, and for what was before it
}

// The start of what was allocated there, 0 for the program's own memory.
uint64_t allocation_at(uint64_t address) {
  auto found = is_device_address(address) ? allocation_of(address) : process().allocations.end();
  return found == process().allocations.end() ? 0 : found->first;
}

// Tells a race, but one of a pair of calls and an allocation that was told before.
void tell(const Race& race) {
  if (process().forked)  // a child has memory of its own, and nobody to tell it to
    return;
  auto calls = [](const Described& one) { return packed(one.what, one.graph ? 0 : one.stream, one.callers); };
  std::string pair = calls(race.first) + calls(race.second) +
                     packed(race.usual, allocation_at(race.address));
  if (order().told.insert(pair).second)
    ask(Request::RACE, packed(race));
}

Race race_of(const Access& first, const Described& second, uint8_t use, uint64_t address) {
  return {first.by->what, second, first.use, use, address, 0, 1, 0};
}

// Adds what `use` of these bytes at `clock` races with.
void compare(uint64_t start, uint64_t end, uint8_t use, const Clock& clock, const Described& what,
             const Piece* own, Races& races) {
  constexpr uint8_t strong = STRONG_READ | STRONG_WRITE;
  order().accesses.of(start, end, [&](const Access& one, uint64_t from, uint64_t to) {
    Complete complete = clock.of(one.by->chain);
    if (one.by.get() == own || complete.ruled >= one.by->epoch)
      return;
    if (one.use & strong && use & strong && (one.use | use) & STRONG_WRITE)
      races.strong.insert(one.by.get());
    if (!(one.use & conflicting(use)))
      return;
    std::pair where{one.by.get(), allocation_at(from)};
    Race& race = races.found.emplace(where, race_of(one, what, use, from)).first->second;
    race.bytes += to - from;
    race.usual &= complete.usual >= one.by->epoch;
  });
}

void tell_all(Races& races, const Described& second) {
  for (auto& [where, race] : races.found) {
    race.second = second;
    race.strong = races.strong.count(where.first);
    tell(race);
  }
  races.found.clear();
}

// The host waits for something, or usually does.
void know(const Clock& clock, bool usually = false) {
  if (usually)
    order().host.join_usually(clock);
  else
    order().host.join(clock);
  watch_less();
}

void tidy() {
  Order& all = order();
  if (all.accesses.size() < all.tolerated)
    return;
  all.accesses.forget_complete(all.host);
  all.tolerated = std::max(MANY_PARTS, 2 * all.accesses.size());
  if (all.accesses.size() < MOST_PARTS)
    return;
  all.accesses.clear();
  ask(Request::NOTE, packed(Note{Noted::ORDER_NOT_JUDGED, 0, 0, 0, {0, {0}}}) +
                         "the order of streams is not judged between what was asked for until here"
                         " and what follows: it accessed too many separate parts of memory");
}

}  // namespace

Operation::Operation(Line& of, const Doing& doing) : line(&of) {
  Order& all = order();
  Clock full = behind(of);
  before = full;
  if (doing.beside && of.early && !doing.waits) {
    before = all.host;
    before.join(of.before_last);
    if (of.blocking && &of != &all.legacy)
      before.join(all.legacy.after);
  }
  if (!all.chains.goes_on(of.chain, before)) {
    all.chains.end(of.chain);
    of.chain = all.chains.take(before);
  }
  chain = of.chain;
  what.stream = of.number;
  what.stream_made = of.made;
  begin(doing);
  of.early = doing.what == What::KERNEL && doing.triggers;
  of.before_last = before;
}

Operation::Operation(const Operation& graph, const Clock& at, uint32_t on, const Doing& doing)
    : before(at), chain(on) {
  what = graph.what;
  begin(doing);
}

void Operation::begin(const Doing& how) {
  doing = how;
  what.what = how.what;
  what.callers = how.callers;
  clock = before;
  piece = std::make_shared<Piece>(Piece{what, chain, order().chains.next(chain)});
  clock.reach(chain, piece->epoch);
  outer = order().now;
  order().now = this;
}

Operation::~Operation() { order().now = outer; }

void Operation::is_launch(uint32_t number) {
  what.launch = number;
  piece->what = what;
}

void Operation::accessed(uint64_t start, uint64_t end, uint8_t use) {
  if (is_device_address(start))
    if (auto found = allocation_of(start); found != process().allocations.end() &&
                                           (found->second.kind == Kind::HOST ||
                                            found->second.kind == Kind::MANAGED)) {
      of_both_sides.insert(found->first);
      host_waits |= (use & OF_SYSTEM) || (doing.system && use & (WRITE | STRONG_WRITE));
    }
  compare(start, end, use, clock, what, piece.get(), races);
  order().accesses.keep(start, end, {piece, use}, clock);
}

// CUDA Runtime API, "API synchronization behavior". Nodes of graphs return to nobody.
void Operation::copied(MemorySide to, uint64_t to_start, MemorySide from, uint64_t from_start,
                       uint64_t bytes) {
  bool synchronous = doing.returns == Returns::AFTER_COPY;
  // Pageable memory is copied to a buffer of the driver's before the call returns.
  bool staged = !of_graph() && from == MemorySide::PAGEABLE && to == MemorySide::DEVICE;
  if (staged && synchronous)
    know(before);
  if (staged)
    host_accessed(from_start, from_start + bytes, READ, What::COPY, doing.callers);
  else
    accessed(from_start, from_start + bytes, READ);
  accessed(to_start, to_start + bytes, WRITE);
  if (of_graph() || (to == MemorySide::DEVICE && from == MemorySide::DEVICE))
    return;
  host_waits |= to != MemorySide::DEVICE && from != MemorySide::DEVICE;
  host_waits |= synchronous && !staged;
  host_usually_waits |= (synchronous && staged) || to == MemorySide::PAGEABLE;
}

void Operation::filled(MemorySide to) {
  host_waits |= doing.returns == Returns::AFTER_FILL && to != MemorySide::DEVICE;
}

void Operation::tell_races() { tell_all(races, what); }

void Operation::finish() {
  tell_races();
  if (line)
    ended(*line, clock);
  if (doing.what == What::HOST_FUNCTION || host_waits)  // a function may tell the host that it ran
    know(clock);
  else if (host_usually_waits)
    know(clock, true);
  for (uint64_t allocation : of_both_sides)
    watch_pages(allocation);
  tidy();
}

Operation* operation() { return order().now; }

void host_runs(const Operation& function) { know(function.before); }

void host_waits_for(const Clock& clock) { know(clock); }

void host_waits_for_all() {
  Order& all = order();
  all.host.join(all.all);
  all.accesses.clear();
  watch_less();
}

Clock moment_of(Line& line) {
  Clock at = behind(line);
  ended(line, at);
  line.early = false;
  return at;
}

// The host waits for no more than a stream's own work: on an H100 a blocking stream that had none
// waited neither for the default stream's work nor for what that waits for.
Clock complete_in(Line& line) {
  Clock at = &line == &order().legacy ? behind(line) : line.after;
  line.early = false;
  return at;
}

// CUDA's documents: the default stream first waits for all blocking streams, and then they for it. So
// an H100 did, for an event that had come long before too.
void waits_for(Line& line, const Clock& clock) {
  ended(line, clock);
  if (&line == &order().legacy)
    line.after.join(order().blocking);
  line.early = false;
}

Line& legacy_line() { return order().legacy; }
uint64_t next_line() { return ++order().lines; }
uint32_t take_chain(const Clock& at) { return order().chains.take(at); }
bool chain_goes_on(uint32_t chain, const Clock& at) { return order().chains.goes_on(chain, at); }
void end_chain(uint32_t chain) { order().chains.end(chain); }
uint32_t next_graph() { return ++order().graphs; }

void host_accessed(uint64_t start, uint64_t end, uint8_t use, What what, const Callers& callers) {
  Races races;
  Described host{what, 0, 0, HOST_THREAD, {}, callers};
  compare(start, end, use, order().host, host, nullptr, races);
  tell_all(races, host);
}

void freed(uint64_t start, uint64_t bytes, Frees how, const Callers& callers) {
  Order& all = order();
  if (how == Frees::UNJUDGED) {
  } else if (all.now) {
    all.now->accessed(start, start + bytes, WRITE);
    all.now->tell_races();  // while it is known what was there
  } else {
    if (how != Frees::AT_ONCE)
      know(all.all, true);
    if (how != Frees::WAITING)
      host_accessed(start, start + bytes, WRITE, What::FREE, callers);
  }
  all.accesses.forget(start, start + bytes);
  stop_watching(start);
}

void unfinished_for_host(uint64_t start, uint64_t end, const Unfinished& seen) {
  uint64_t from = 0, to = 0;
  uint8_t use = 0;
  order().accesses.of(start, end, [&](const Access& one, uint64_t low, uint64_t high) {
    if (order().host.of(one.by->chain).usual >= one.by->epoch)
      return;
    if (low != from || high != to) {
      if (use)
        seen(from, to, use);
      from = low, to = high, use = 0;
    }
    use |= one.use;
  });
  if (use)
    seen(from, to, use);
}

void made_new(uint64_t start, uint64_t bytes) { order().accesses.forget(start, start + bytes); }

}  // namespace cudart
