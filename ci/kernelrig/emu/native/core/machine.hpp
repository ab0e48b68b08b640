// The machine and its scheduler: what kernelrig.emu.machine.scheduler, divergence and
// schedule_policy are for the NumPy engine, choice by choice.
//
// How it works. `Core::run` picks a batch or an operation, as those modules say it, until nothing
// can go on. A segment is a list of instructions with a handler each; `python_step` is the handler
// of those that have none. What Python has to do in between it does in a callback: a callback that
// raised sets `halted`, and the run unwinds without touching anything more.
#pragma once

#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "core.hpp"

namespace emu {

// Python's random.Random: the Mersenne Twister and what is drawn from it, bit by bit alike.
class Random {
public:
  void set(const uint32_t* state);  // 624 words and the position
  void get(uint32_t* state) const;
  uint32_t word();
  double uniform();        // random()
  int64_t below(int64_t n);  // randrange(n), n > 0

private:
  uint32_t words[624];
  int position = 624;
};

enum Kind : int { FRIENDLY, LATE, RANDOM, UNFAIR };
constexpr int TURN = 4096, SHORTEN = 6;  // segments of a turn, and how often it is halved

// Which batch or operation goes next (schedule_policy.Policy).
struct Policy {
  Kind kind = FRIENDLY;
  std::unordered_map<int64_t, double> slow;
  std::vector<int64_t> used_up;  // turns, by warp
  std::vector<int64_t> yielded;  // likewise: those that ended as others were let go first
  int64_t in_a_row = 0;          // segments that ready batches ran and are ready again

  bool yields(Random& random) const {
    return kind == FRIENDLY || (kind > LATE && random.uniform() < 0.3);
  }
  bool splits(Random& random) const { return kind > LATE && random.uniform() < 0.2; }
};

enum End : int { FALL, STOP, BRANCH, TABLE, EXIT };
enum Collective : int { ALONE, WARP, MEMBERS };

// A predicate, with the check of its register in front.
struct Predicate {
  Operand operand = NO_GUARD;
  int32_t checked = -1;  // register to check, -1 for none
  bool negated = false;
  bool given() const { return operand != NO_GUARD; }
};

// program.Segment with its condition.
struct Segment {
  int first = 0, last = 0;
  End end = FALL;
  std::vector<int> targets;
  int reconvergence = -1;
  Predicate leaves;  // what a branch or an exit goes by
  bool condition = false;
  Predicate guard;  // of the condition
  Collective collective = ALONE;
  bool waits = false;  // whether it is asked who may go on
  // What makes the member masks of a collective, and where they are; Python says them for none.
  std::vector<Instruction> naming;
  Operand members = NO_RESULT;
  // What the core asks itself first, and the instructions that make its operands.
  Condition may_pass = nullptr;
  std::vector<Instruction> asking;
  Instruction question{};
  std::vector<Instruction> code;
  std::vector<int32_t> sets;  // registers that hold something when it ends
};

// What Python does, by the address of a batch. All return a negative number for an exception.
struct Callbacks {
  int (*step)(Batch*, int at);                    // run an instruction
  // Follow values through an instruction that is about to run: 1: its Python step has to do it, and
  // it is told when that is done, by the complement of `at`.
  int (*follow)(Batch*, int at);
  int (*unready)(Batch*, int reg, int at);        // a register is read that holds nothing
  int (*unwritten)(Batch*, int number, int at, const Mask* lanes);  // one that these have not written
  int (*early)(Batch*, int reg, int at);          // Python's result in flight is to stay as it is
  int (*overwritten)(Batch*, int reg, int at, const Mask* lanes, int late);  // 0: is it?
  int (*members)(Batch*, uint32_t* masks);        // the member masks of each row's 32 lanes
  int (*ready)(Batch*, const Mask*, uint8_t* going);  // 1: some wait, keys by core_blocked
  int (*table)(Batch*, uint32_t* index);          // the index of a brx, of each row's 32 lanes
  int (*taken)(Batch* from, Batch* made, const int32_t* rows, int count);
  int (*joined)(Batch** from, int count, Batch* made);
  int (*beyond)(Batch*, const Mask*);             // a brx beyond its table
  int (*event)(int64_t op);                       // the next event of a Python operation
  int (*unreachable)(const Point*);               // lanes that wait where the others do not come
  int (*meet)(int warp);                          // its lanes wait in several places: core_pass
  int (*limits)();                                // waits give up, as at their limits; 0: all did
  int (*look)();                                  // the step limit, or loops without an end
  int (*poll)();                                  // let Python handle its signals
};

// The lane that elect.sync takes.
enum Elected : int32_t { FIRST, LAST, HASH };

// What Python reads and writes at any time.
struct Shared {
  int64_t time = 0;
  int64_t steps = 0;
  int64_t next_look = 0;
  int32_t stopped = 0;
  int32_t halted = 0;
  int32_t elected = FIRST;
  int32_t following = 0;  // of what instructions Python is told before they run
};

// TOUCHING: those that have to do with a register that holds what Python follows, in some warp
// (observe/held_registers.py, which says what these are).
enum : int32_t { NOTHING, TOUCHING, EVERYTHING };
struct Followed {
  const uint64_t* holding;  // registers that hold one, as bits
  int64_t words;
  const int32_t *starts, *touched;  // by instruction, the registers that it touches
  const uint64_t* dead;             // by segment, those that nothing reads from its start on
};

struct Waiter {
  int segment, warp;
  Batch* batch;
};

struct Parked {
  int64_t order;  // of keys, by when they were first waited for
  std::vector<Batch*> batches;
};

// Keys of what batches wait for: Python numbers its own from 0.
constexpr int64_t USE_KEYS = int64_t(1) << 59;      // and the use of a barrier
constexpr int64_t TURN_KEY = USE_KEYS - 1;          // the next CTA of a cluster leaves its barrier
constexpr int64_t BARRIER_KEYS = int64_t(1) << 60;  // and the flat byte of an mbarrier
constexpr int64_t OP_KEYS = int64_t(1) << 61;       // and the number of an operation
constexpr int64_t PRODUCT_KEYS = int64_t(1) << 62;  // and that of a warpgroup's product (JointProduct)

struct Sync;

struct Core {
  Shared shared;
  Callbacks call;
  Random random;
  Policy policy;
  std::vector<Segment> segments;
  std::vector<Operand> operands;
  std::vector<int64_t> immediates;
  std::vector<int32_t> sets;
  std::vector<uint8_t> constants;
  int registers = 0;

  // Two cells that outlive the process: the instructions that are being executed, first and last
  // (machine/progress.py).
  int64_t* progress = nullptr;
  void executing(int at) { progress[0] = progress[1] = at; }

  // Of the wave. The arrays are Python's.
  int warps = 0;
  Memory* memory = nullptr;
  const int64_t* slot_of = nullptr;
  Mask* alive = nullptr;
  Followed followed{};
  Mask* unwritten = nullptr;  // by number of a register and warp (unwritten_registers.py)
  uint8_t* files = nullptr;
  int64_t file_bytes = 0;
  int64_t* visits = nullptr;
  std::vector<Batch*> ready;
  std::vector<Op*> heads;
  std::unordered_map<int64_t, Op*> ops;
  std::unordered_map<int64_t, std::deque<Op*>> streams;
  std::vector<Waiter> waiters;  // divergence.ConvergenceWaiters, in the order of insertion
  std::vector<std::shared_ptr<Point>> points;
  std::unordered_set<int> apart;  // segments at which lanes do not reconverge
  std::unordered_map<int64_t, Parked> parked;
  int64_t parkings = 0;
  bool at_limits = false;  // nothing else went on: try_wait gives up
  int64_t next_op = 0;

  ~Core();

  // machine/scheduler.cpp
  void start(const int32_t* first, const Mask* lanes, int count);
  void run();
  bool execute(Batch& batch, const Segment& segment);

  // machine/choice.cpp
  void choose(Batch*& batch, Op*& op);
  int turn(const Batch* batch) const;
  bool must_change();
  Batch* merged(Batch* batch);

  // machine/divergence.cpp
  Batch* make(int segment);
  void free(Batch* batch);
  Batch* take(Batch& from, const std::vector<int>& rows, const std::vector<Mask>& lanes);
  Batch* reconverge(const std::vector<Batch*>& batches);
  Batch* gather(Batch* batch, const std::vector<Mask>& needed);
  bool waits_elsewhere(const Waiter& waiter) const;
  Batch* arrive(Batch* batch);
  Batch* complete(const std::shared_ptr<Point>& point);
  void release(Point& point);
  Batch* diverge(Batch* batch, const Segment& segment,
                 const std::vector<std::pair<std::vector<Mask>, int>>& ways);
  void share_points(const std::vector<Batch*>& batches);

  // machine/waiting.cpp
  void park(Batch* batch, const int64_t* keys, int count);
  void wake(int64_t key);
  // Let an operation that nothing is before do all of its events.
  void complete(int64_t id);
  void issue(Op* op);
  void leave_stream(Op& op);
  void finish(Op& op);

  bool halted() const { return shared.halted; }
  bool failed(int result) {
    if (result < 0)
      shared.halted = shared.stopped = 1;
    return result < 0;
  }

  std::vector<int64_t> blocked_by;  // the keys of the last `ready`
  std::shared_ptr<Sync> sync;

private:
  bool advance(Batch* batch);
  void change();
  int64_t least(const Batch* also) const;
  void step(Op& op);
  bool release_waiters();
  bool reach_limits();
  bool check(Batch& batch, int reg, int at);
  int follow(Batch& batch, int at);
  bool follows(const Segment& segment, int at) const;

  // machine/issue.cpp
  bool masks(Batch& batch, const Segment& segment, const Predicate& predicate, int at,
             std::vector<Mask>& into);
  Batch* may_issue(Batch* batch, const Segment& segment);
  int ask(Batch& batch, const Segment& segment, const Mask* mask, uint8_t* going);
  bool named(Batch& batch, const Segment& segment, const std::vector<Mask>& here,
             std::vector<Mask>& into);
  bool needed(Batch& batch, const Segment& segment, const std::vector<Mask>& here,
              std::vector<Mask>& into);

  // machine/control.cpp
  Batch* branch(Batch* batch, const Segment& segment);
  Batch* jump(Batch* batch, const Segment& segment);
  Batch* leave(Batch* batch, const Segment& segment);

  std::vector<std::unique_ptr<Batch>> pool;
  std::vector<Batch*> unused;
  std::vector<Row> rows, guarded;
  std::vector<std::unique_ptr<Op>> op_pool;
  std::vector<Op*> unused_ops;
  int64_t serial = 0;

public:
  Op* make_op();
};

// Tells observers of the end of a native operation, which the race detector knows by `clock`.
void op_done(Core& core, int64_t clock);

// The handler of an instruction that has none: its Python step.
Result python_step(Context& context, const Instruction& instruction);

// Checks the register `immediates[0]` before it is read.
Result check_register(Context& context, const Instruction& instruction);
Result check_lanes(Context& context, const Instruction& instruction);  // unwritten.cpp

}  // namespace emu
