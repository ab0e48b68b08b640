// The order of a program's work: which of it may run at the same time, and what of that conflicts.
//
// How it works. The work of a stream, a node of a graph, is an Operation. It has a clock: what is
// complete before it begins, by the rules of streams, events, graphs and synchronising calls. While
// it runs, here, what it accesses is compared with accesses that are not complete before it. A pair
// of which one writes is a race, and told to the emulator at once.
//
// All threads of the host are one: how they order themselves is not seen, and what one has waited
// for counts for all. Calls of streams, events and memory say here what they do; `process().lock` is
// held by all of them.
#pragma once

#include <set>
#include <string>

#include "accesses.hpp"

namespace cudart {

// What a stream's next operation begins behind.
struct Line {
  uint64_t number = DEFAULT_STREAM;
  Callers made{};
  bool blocking = true;  // with the legacy default stream
  uint32_t chain = NO_CHAIN;
  Clock after;
  Clock before_last;   // what its last kernel began behind
  bool early = false;  // that one lets the next begin before it ends
};

enum class Returns { AT_ONCE, AFTER_COPY, AFTER_FILL };  // calls that may wait for what they do

// What an operation is, as it is enqueued.
struct Doing {
  What what = What::OTHER;
  Callers callers{};
  Returns returns = Returns::AT_ONCE;
  bool beside = false, waits = false, triggers = false;  // of a kernel: programmatic launches
  bool system = false;  // a kernel that fences for the whole system: the host may wait for its writes
};

// Where memory is, as rules of copies tell it apart.
enum class MemorySide { PAGEABLE, PINNED, DEVICE };

// What a piece of work races with, and what it shares strong accesses with.
struct Races {
  std::map<std::pair<const Piece*, uint64_t>, Race> found;  // by the allocation, too
  std::set<const Piece*> strong;
};

class Operation {
public:
  Operation(Line& line, const Doing& doing);                     // of a stream
  Operation(const Operation& graph, const Clock& at, uint32_t chain, const Doing& doing);  // a node
  ~Operation();
  Operation(const Operation&) = delete;

  void accessed(uint64_t start, uint64_t end, uint8_t use);
  void copied(MemorySide to, uint64_t to_start, MemorySide from, uint64_t from_start, uint64_t bytes);
  void filled(MemorySide to);
  void is_launch(uint32_t number);
  void is_graph(uint32_t number) { what.graph = number; }
  // Tells what it has raced with so far.
  void tell_races();
  // It is done: a call that waits for it returns.
  void finish();
  // Nodes have ended behind it: the stream goes on behind `end`.
  void goes_on_behind(const Clock& end) { clock.join(end); }
  bool of_graph() const { return what.graph != 0; }

  Clock clock;   // with itself
  Clock before;  // without
  uint32_t chain;

private:
  void begin(const Doing& doing);

  Line* line = nullptr;
  Doing doing;
  Described what{};
  std::shared_ptr<Piece> piece;
  Races races;
  Operation* outer;
  std::set<uint64_t> of_both_sides;  // allocations of pinned and managed memory that it accessed
  bool host_waits = false, host_usually_waits = false;
};

// The operation that runs now, or null.
Operation* operation();

// The host's function of a stream, which is about to run: what is before it is complete.
void host_runs(const Operation& function);
// What the host has waited for.
void host_waits_for(const Clock& clock);
void host_waits_for_all();
// What is complete where the host has waited for a stream, or a query returned success.
Clock complete_in(Line& line);
// What is complete when all that a stream was asked for is, and makes it so of what follows.
Clock moment_of(Line& line);
void waits_for(Line& line, const Clock& clock);

Line& legacy_line();
uint64_t next_line();
uint32_t take_chain(const Clock& at);
bool chain_goes_on(uint32_t chain, const Clock& at);
void end_chain(uint32_t chain);
uint32_t next_graph();

// The host reads or writes memory now.
void host_accessed(uint64_t start, uint64_t end, uint8_t use, What what, const Callers& callers);
// Shows what is accessed of these bytes, ascending, by work that is not complete for the host, and is
// not usually so either.
using Unfinished = std::function<void(uint64_t start, uint64_t end, uint8_t use)>;
void unfinished_for_host(uint64_t start, uint64_t end, const Unfinished& seen);
// Memory is freed, by the operation that runs or by the host; and it is new.
void freed(uint64_t start, uint64_t bytes, Frees how, const Callers& callers);
void made_new(uint64_t start, uint64_t bytes);

}  // namespace cudart
