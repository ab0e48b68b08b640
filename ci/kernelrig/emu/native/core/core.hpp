// The state of a run, as the native core holds it. One machine in two forms: what is here is what
// kernelrig.emu.machine holds in Python for the NumPy engine, and both must agree bit for bit.
//
// How it works. Python decodes a kernel into segments of instructions once (encode.py), the core
// runs them. State lives here; Python reaches it through facades (machine.py, batch.py). A handler
// takes the plain case of an instruction: where anything is unusual (an address out of bounds, a
// misused barrier, a type it does not know) it returns FALLBACK *before it changed anything*, and
// the core calls back to run the instruction's Python step on the same state. So findings are
// written in one place, and what is native is only what is hot.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace emu {

constexpr int LANES = 32;
using Mask = uint32_t;  // lanes of a warp, lane 0 lowest
constexpr Mask ALL = 0xFFFFFFFFu;

enum Result : int {
  CONTINUE = 0,  // the instruction is done
  FALLBACK = 1,  // nothing was changed: let Python run its step
  HALT = 2,      // the machine stopped: a trap, an exception in a callback
};

struct Core;
struct Batch;
struct Context;
struct Memory;
struct Instruction;
using Handler = Result (*)(Context&, const Instruction&);

// Which warps may run an instruction that waits: all; only some, of which `going` (by row of the
// batch, all 1 before) says which, and `Core::blocked_by` what the others wait for; or Python says.
enum Answer : int { ALL_READY, SOME_WAIT, ASK_PYTHON };
using Condition = Answer (*)(Context&, const Instruction&, uint8_t* going);

// An operand: >= 0 an offset in the register file of the warp, < 0 (~offset) in the constant pool,
// where a value stands 32 times. A register is 32 lanes side by side, each as wide as its type, in
// multiples of 32 bytes; a predicate is one uint32_t, a bit a lane.
using Operand = int32_t;

struct Instruction {
  Handler run;
  int32_t at;             // its number in the kernel: what findings are reported at
  Operand guard;          // offset of a predicate; NO_GUARD for none
  bool negated;           // of the guard
  uint8_t outs, ins;      // how many operands: first the results, then what is read
  const Operand* operands;
  const int64_t* immediates;  // what Step.native says besides its name
  bool effect = false;        // an effect under a guard that holds nowhere leaves its results unset
  const int32_t* sets = nullptr;  // registers that it sets, if it is an effect under a guard
  int setting = 0;                // how many
  int behind = 0;  // instructions that make registers of its results: not for Python's step
};
constexpr Operand NO_GUARD = INT32_MIN;
constexpr Operand NO_RESULT = INT32_MIN;  // `_`

// A warp of the batch that executes, with the lanes for which the instruction holds (the guard is
// in it already); rows without a lane are left out for effects, as for pure instructions.
struct Row {
  uint8_t* file;  // its registers
  Mask lanes;
  int warp;       // on the machine
  int row;        // in the batch
};

struct Context {
  Core& core;
  Batch& batch;
  const uint8_t* constants;
  Row* rows;  // those with a lane
  int count;
  Memory* memory = nullptr;

  template <class T> const T* in(const Row& row, Operand operand) const {
    return reinterpret_cast<const T*>(operand >= 0 ? row.file + operand : constants + ~operand);
  }
  template <class T> T* out(const Row& row, Operand operand) const {
    return reinterpret_cast<T*>(row.file + operand);
  }
};

// Where lanes that diverged reconverge (machine_state.ReconvergencePoint).
struct Point {
  int segment;
  std::vector<std::pair<int, Mask>> missing;  // by warp, in the order of insertion
  std::vector<Batch*> arrived;
};

// Of Batch::unset: what a register holds.
constexpr uint8_t SET = 0, UNSET = 1, IN_FLIGHT = 2, PYTHON_IN_FLIGHT = 3;
// Of View::pending: who holds what is in flight for a batch.
constexpr int32_t PYTHON_PENDING = 1, NATIVE_PENDING = 2;

// What Python reads of a batch, through ctypes (batch_facade.py has the same fields).
struct View {
  int64_t serial = 0;  // other for each use of a Batch
  int32_t segment = 0;
  int32_t size = 0;
  const int32_t* warps = nullptr;
  const Mask* lanes = nullptr;
  uint8_t* unset = nullptr;
  int32_t pending = 0;  // whether Python holds results in flight for it: it stays whole
  int32_t keys = 0;     // how many it is parked under
  const int64_t* waiting = nullptr;
};

// Warps at one place (machine_state.WarpBatch). `warps` ascend; they and their lanes never change.
struct Batch {
  View view;
  std::vector<int32_t> warps;
  std::vector<Mask> lanes;                     // of each warp, at least one
  std::vector<std::shared_ptr<Point>> points;  // innermost last
  std::vector<uint8_t> unset;  // by register: UNSET is nothing has written it (as the NumPy engine
                               // says it of a batch as a whole)
  std::vector<int64_t> waiting;  // keys it is parked under

  int32_t& segment() { return view.segment; }
  int size() const { return int(warps.size()); }
  bool whole() const {
    for (Mask mask : lanes)
      if (mask != ALL)
        return false;
    return true;
  }
};

// An asynchronous operation in flight (machine.operations.Op). `python`: its events are steps of a
// Python generator; else `step` does the next event: true while there is another one.
struct Op {
  int64_t id = 0;
  int warp = 0, lane = 0, at = 0;
  int64_t stream = -1;
  bool leaves_stream = false, done = false, read = false;
  bool python = false;
  bool (*step)(Core&, Op&) = nullptr;
  Mask lanes = 0;  // those that issued it each for itself
  int name = 0;   // Python's name of what is native (native/sync.py)
  int wait = -1;  // the wait that its thread passed last, by number
  int64_t clock = -1;  // its number in the race detector
  int stage = 0;
  // It has read what nothing wrote: Python has to say what follows from that.
  mutable bool follows = false;
  std::shared_ptr<void> own;  // of its kind
};

}  // namespace emu
