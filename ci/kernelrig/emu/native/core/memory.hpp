// The state spaces of a machine (machine.state_spaces), what an address means (machine.addressing),
// and the observers that nearly every access goes by: observe.memory, .initialisation, .last_writer.
//
// How it works. The bytes, the marks of what is written and the tables of observers are NumPy
// arrays of Python; `Memory` holds where they are, so that a native access and a Python step leave
// the same traces. `native/memory.py` fills it and has the same fields.
//
// A handler asks `locate` for the flat positions of its lanes and `observe` to look at the access.
// Either says no where there is something to report, or where only Python knows; nothing has
// changed then, and the handler falls back. An access may also be of several allocations, or of the
// shared memory of other CTAs of the cluster: all that needs no sentence is native.
#pragma once

#include "core.hpp"

namespace emu {

// The arenas, as observers name them.
enum Arena : int { GLOBAL, SHARED, LOCAL, ARENAS };

// What an instruction says of its address (machine.addressing.locate).
enum Space : int { IN_GLOBAL, IN_SHARED, IN_CLUSTER, IN_LOCAL, GENERIC };

constexpr int WINDOW_SHIFT = 40;
constexpr int64_t GLOBAL_BASE = 0x7F0000000000;
constexpr int64_t SHARED_WINDOW = 0x7E0000000000;
constexpr int64_t LOCAL_WINDOW = 0x7D0000000000;
constexpr int64_t RESERVED_BYTES = 0x400;
constexpr int64_t SLOT_BYTES = 0x40000;
constexpr int RANK_SHIFT = 24;
constexpr int64_t OFFSET_MASK = (1 << RANK_SHIFT) - 1;

class Publication;
namespace races {
class Races;
struct Name;
}

enum Semantics : int { WEAK, RELAXED, ACQUIRE, RELEASE, ACQUIRE_RELEASE, VOLATILE };

// Lanes that access memory, `size` bytes each.
struct ThreadAccess {
  const Row* rows;  // their lanes are those that access
  int count;
  int at;  // the instruction
  int64_t* flat = nullptr;  // 32 positions a row; those of other lanes are safe, and mean nothing
  Arena arena = GLOBAL;
  int size = 0;
  bool write = false, atomic = false, non_coherent = false;
  // Of an atomic: its lanes (32 a row) in the order in which they go, null where no two share a
  // place; whether its threads get to know what it read.
  const int32_t* turns = nullptr;
  size_t turn_count = 0;
  bool observed = true;
  int semantics = 0, scope = 0;  // numbers of machine.thread_memory.SEMANTICS, and of "" and SCOPES

  bool orders() const { return semantics >= ACQUIRE && semantics <= ACQUIRE_RELEASE; }
};

// What `machine.counts` is called: bytes of threads by arena and kind, wavefronts beyond the fewest,
// bytes of operations by arena and kind.
enum Count : int { READ, WRITE, ATOMIC, BANK_CONFLICTS = 9, ASYNC = 10, COUNTS = 16 };

constexpr int RECENT = 64;

struct Memory {
  uint8_t* bytes[ARENAS];
  uint8_t* written[ARENAS];
  // Allocations of global memory, ascending.
  const int64_t* starts;
  const int64_t* ends;
  const uint8_t* read_only;
  int64_t allocations;
  int64_t shared_bytes, local_bytes, local_stride;
  // Of the wave, by warp.
  const int64_t* slot_of;
  const int64_t* rank_of;
  const Mask* alive;
  int64_t warps, cluster_ctas;  // of a CTA, of a cluster

  // Observers. Null: nobody asks.
  int64_t* counts;        // MemoryUse: by `Count`
  uint8_t* non_coherent;  // MemoryUse: marks of ld.global.nc and of writes
  const int64_t* barriers;  // MemoryUse: where live mbarriers are, ascending
  int64_t barrier_count;
  int64_t init;          // whether Init watches reads
  int32_t* last_writer;  // LastWriter: by units of 16 bytes
  int64_t* copied;         // LastWriter: by instruction, the first byte its copies read, or -1
  // MemoryUse: by instruction, from where to where in the CTA's shared memory its array lies; null,
  // or 0 to 0, is none.
  const int32_t* arrays;
  races::Races* races;   // the race detector of the core
  Publication* publication;
  // GlobalAccesses: by byte of global memory, and by instruction whether its operations reduce.
  uint8_t* accesses;
  const uint8_t* reductions;
  // An observer that is Python's alone hears of threads' accesses, or of fences and bar.warp.sync.
  int64_t python_listens;
  int64_t python_listens_to_fences;
  int64_t python_listens_to_barriers;  // of CTAs and clusters

  // Whether an observer hears of what operations read and write.
  bool watches_operations() const { return counts || init || last_writer || races || accesses; }

  // What Python's randrange(n) draws. Null: it does not draw here.
  int64_t (*draw)(Context&, int64_t n);

  int32_t recent[RECENT];  // by instruction: the allocation that it hit last

  // Finds the bytes that lanes name by `address`, int64 a lane; `write` and `size` of `access` say
  // what for, `align` what the address must be a multiple of. False: nothing that is plain.
  bool locate(ThreadAccess& access, const Context& context, Operand address, Space space,
              int align);
  // The same of addresses of global memory, 32 a row, with room for the positions in `access`.
  bool locate_global(ThreadAccess& access, const int64_t* addresses, int align);
  // Whether `observe` will tell observers: for instructions that access memory several times.
  bool may_observe(const ThreadAccess& access) const { return !python_listens && plain(access); }
  // Tells observers of an access that is about to be done, or returns false.
  bool observe(const ThreadAccess& access);
  // Tells them of what an operation reads or writes, which the race detector knows by the number
  // `clock`; false: Python has to (hooks.op_accessed).
  bool observe_operation(int at, int64_t clock, Arena arena, const int64_t* starts, int64_t count,
                         int size, bool write, int swizzle = 0);

private:
  bool in_global(ThreadAccess& access, const Row& row, const int64_t* address, int64_t* flat,
                 int align);
  bool in_shared(ThreadAccess& access, const Row& row, const int64_t* address, int64_t window,
                 int64_t* flat, int align, bool cluster);
  bool in_local(ThreadAccess& access, const Row& row, const int64_t* address, int64_t window,
                int64_t* flat, int align);
  bool running(int64_t slot) const;
  bool plain(const ThreadAccess& access) const;
  bool leaves_array(const ThreadAccess& access) const;
  bool touches_barrier(const ThreadAccess& access) const;
  void race(const ThreadAccess& access);
  void count(const ThreadAccess& access);
};

// Calls `body(lane)` for each lane of a mask, ascending.
template <class Body> inline void each_lane(Mask lanes, Body body) {
  if (lanes == ALL) {
    for (int lane = 0; lane < LANES; lane++)
      body(lane);
    return;
  }
  for (; lanes; lanes &= lanes - 1)
    body(__builtin_ctz(lanes));
}

// Wavefronts that a warp takes beyond the fewest its bytes need (observe.memory.bank_conflicts).
int64_t bank_conflicts(const int64_t* flat, Mask lanes, int size);

// Room for the positions of `rows` rows; one access at a time.
int64_t* positions(int rows);

}  // namespace emu
