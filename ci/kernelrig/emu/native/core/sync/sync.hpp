// What warps wait for and what runs beside them: mbarriers, groups of copies, loads of tensor
// memory. kernelrig.emu.machine.mbarrier, async_groups, bulk_copy, isa.tcgen05_load for the core.
//
// How it works. Handlers take the plain case. An mbarrier is a `Barrier` in memory of Python, which
// makes and ends it; who waited for it last, and what a wait that gave up is called, is kept here,
// and Python's `native/sync.py` asks for it. An operation is a list of events (`Op::step`); where
// one of them is at fault it is reported by `fault`, a call of Python.
//
// Observers of the core are told of each event as it happens (observed.cpp). Where one that is
// Python's alone hears of any of this (`listens`), all handlers fall back: then every event is
// Python's, in its order.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "copies/lane_copies.hpp"
#include "copies/tensor_map.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "pool.hpp"
#include "observe/threads.hpp"
#include "sync/barrier.hpp"
#include "sync/cta_barrier.hpp"
#include "tensor/tensor_product.hpp"
#include "tensor/warpgroups.hpp"

namespace emu {

// A wait for an mbarrier that passed (machine.findings.Wait); one of each instruction and mbarrier.
struct PassedWait {
  const Barrier* barrier;
  int64_t at, early, phase;
};

// What lanes of a warp issued: not committed yet, and the groups, oldest first
// (async_groups._Queue).
struct Issued {
  int64_t op;
  int32_t lane, at, name;
  int64_t clock;  // its number in the race detector
  int64_t together = -1;  // of wgmma: the key of the product that it is a part of
};
struct Queue {
  Mask lanes = ALL;
  std::vector<Issued> uncommitted;
  std::deque<std::vector<Issued>> groups;
  size_t seen_read = 0;  // groups at the front that a wait for their reads has seen
};
enum GroupKind : int { BULK_GROUPS, COPY_GROUPS, MATRIX_GROUPS, GROUP_KINDS };

// Tensor memory of a CTA: 128 x 512 words of Python's, and which of its columns may be accessed, a
// bit for 32 of them. An address is a lane, and a column below it.
constexpr int TENSOR_LANES = 128, TENSOR_COLUMNS = 512, UNIT_COLUMNS = 32;
constexpr int LANE_SHIFT = 16;
constexpr int64_t COLUMN_MASK = 0xFFFF;
struct TensorMemory {
  uint32_t* words = nullptr;
  uint8_t* written = nullptr;  // marks of Init by word; null: it does not watch
  uint32_t usable = 0;

  bool may_access(int64_t column, int64_t columns) const {
    if (column < 0 || column + columns > TENSOR_COLUMNS)
      return false;
    const int64_t low = column / UNIT_COLUMNS, high = (column + columns - 1) / UNIT_COLUMNS;
    const uint32_t wanted = uint32_t((uint64_t(1) << (high - low + 1)) - 1) << low;
    return (usable & wanted) == wanted;
  }
};

// Where the registers of a load or store of tensor memory lie (tcgen05_load.Shape).
struct TensorShape {
  int registers, width;
  bool tall, halves;
  std::vector<int32_t> lanes, columns;  // by register and thread
};

// A load or store of tensor memory by a warp. A load brings `values`, registers of 32 lanes, once
// it has happened; where they go is said by `registers` and `operands`.
struct TensorAccess {
  const TensorShape* shape;
  int64_t slot, lane, column;
  int64_t op, clock;
  const int64_t* registers;  // their numbers
  const Operand* operands;
  bool brought;
  std::vector<uint32_t> values;
  std::vector<Mask> lost;  // by register: lanes that have written it since; empty for none

  Mask waiting(size_t reg) const { return lost.empty() ? ALL : ~lost[reg]; }
};

// A tcgen05.commit: the mbarriers that it arrives at, slot and offset.
struct TensorCommit {
  std::vector<std::pair<int64_t, int64_t>> places;
};

// Streams of tcgen05 by thread and CTA group: Python numbers others from 0.
constexpr int64_t TENSOR_STREAMS = int64_t(1) << 40;

// What native operations are called, in the order of native/operation_names.py; of an mma also by
// its kind and CTA group, of one of .ws by its kind.
enum OpName : int {
  BULK_COPY,
  TENSOR_COPY,
  TENSOR_LOAD,
  TENSOR_STORE,
  COMMIT_1,
  COMMIT_2,
  LANE_COPY,
  COPY_ARRIVAL,
  MMA,
  MMA_WS = MMA + 8,
};

// What an operation is at fault with, for Python to say.
enum Fault : int {
  SIGNALS_BYTES,   // slot, offset, bytes: complete_tx that is not plain
  SIGNALS_COMMIT,  // slot, offset, count: an arrival that is not plain
  SOURCE_EXITED,   // a store reads shared memory of a CTA that has exited
  TENSOR_ACCESS,   // slot, column, columns: not to be accessed
  PRODUCT_D,       // the same, of an mma's D
  PRODUCT_A,       // and of its A
  ACCESSED,        // what it accessed (`accessed`): an observer has something to say
  TENSOR_ACCESSED,  // the same of tensor memory (`tensor_accessed`)
};

// What else there is to say of an access, for the observer of what nothing wrote
// (machine.operations.AccessDetail has the same fields).
struct AccessDetail {
  enum What : int64_t { NOTHING, A, B, A_WORDS, D };
  int64_t what = NOTHING;
  int64_t number = 0;            // of the CTA in its pair
  int64_t row = 0, column = 0;   // of the product, that the access begins with
  int64_t element_bytes = 0, mn_major = 0;
  const int32_t* warps = nullptr;  // that have 16 rows of A each
  int64_t warp_count = 0;
  const uint8_t* needed = nullptr;  // of bytes from the first start: those that go anywhere
  int64_t needed_bytes = 0;
  int64_t swizzle = 0;  // the number of that of the bytes (tensor.swizzle.Swizzle.number)
};

struct Sync {
  Core& core;
  Memory& memory;
  int (*fault)(int64_t op, int fault, int64_t a, int64_t b, int64_t c) = nullptr;
  bool listens = false;
  std::vector<const races::Name*> names;  // of native operations, for the race detector
  bool in_turn = false;  // whether the CTAs of a cluster leave its barrier one after the other
  double spurious = 0;

  Sync(Core& core, Memory& memory) : core(core), memory(memory) {}

  // Of the wave.
  std::unordered_map<int64_t, Barrier*> barriers;  // the live ones, by flat byte
  std::vector<int64_t> places;                     // the same bytes, ascending
  int64_t barriers_made = 0;
  std::map<std::pair<int, int64_t>, std::pair<int64_t, int64_t>> passes;  // warp, barrier
  std::vector<PassedWait> waits;
  std::map<std::tuple<const Barrier*, int64_t, int64_t>, int> wait_numbers;
  std::vector<int32_t> last_wait;  // by warp, -1 for none
  std::set<std::tuple<int, int, int64_t, int64_t>> returned;  // waits that gave up once
  struct Wanted {
    const Barrier* barrier = nullptr;
    int64_t phase = 0;
  };
  std::vector<Wanted> wanted;  // by warp
  std::vector<std::vector<Queue>> queues[GROUP_KINDS];  // by warp
  std::vector<int> touched[GROUP_KINDS];  // warps, in the order of their first use
  std::vector<BarrierUses*> used;  // those of the next two that were used, the first one first
  BarrierUses of_ctas{core, false, used}, of_clusters{core, true, used};
  std::vector<TensorMemory> tensor;  // by slot
  std::vector<std::vector<TensorAccess*>> loads;  // by warp: not waited for
  struct TensorStore {
    int64_t op, clock;
  };
  std::vector<std::vector<TensorStore>> stores;
  std::vector<int32_t> python_tensor;  // by warp: whether Python has held some of them
  std::vector<std::vector<int64_t>> settled_tensor;  // by warp: clocks, for Python to tell of
  Warpgroups warpgroups;
  Maps maps;
  std::set<int64_t> edited_maps;  // flat bytes of those that kernels edit: Python looks at their uses
  std::vector<uint8_t> off_pattern;  // by instruction: Python was told of a box off its pattern
  TensorProducts tensor_products;
  Pool<TensorAccess> tensor_accesses;
  Pool<TensorCommit> tensor_commits;
  LaneCopies lane_copies{*this};
  std::vector<std::vector<uint8_t>> boxes;  // not in use
  std::shared_ptr<Publication> publication;
  const Op* acting = nullptr;               // whose access observers are being told of

  void start(int warps);

  // An mbarrier is live from here on; what was at its place is not. `ends`: none is there any more.
  void begins(Barrier& barrier);
  void ends(int64_t flat);

  Barrier* find(int64_t flat) const {
    const auto found = barriers.find(flat);
    return found == barriers.end() ? nullptr : found->second;
  }
  bool is_running(int64_t slot) const;
  int64_t rank(int64_t slot) const { return slot % memory.cluster_ctas; }

  // The flat byte of shared memory that an address, generic or its own, names for a warp; -1 for
  // none (lane_groups.named_places).
  int64_t named(int warp, int64_t address) const;
  // As Issuer._quick: the flat byte of a valid address, -1 for one at fault or of another kind.
  int64_t in_global(int64_t address, int64_t size, int64_t align, bool write) const;
  int64_t in_shared(int warp, int64_t address, int64_t size, int64_t align, bool cluster) const;

  void remember(int warp, const Barrier& barrier, int at);
  void wake(const Barrier& barrier) { core.wake(BARRIER_KEYS | barrier.flat); }

  // Barriers do not wait for lanes that have exited.
  void exited(const Batch& gone) {
    for (BarrierUses* uses : used)
      uses->exited(gone);
  }

  // Groups.
  std::vector<Queue*> queues_of(GroupKind kind, int warp, Mask lanes);
  void add(GroupKind kind, int warp, Mask lanes, const Op& op, int64_t together = -1);
  void commit(GroupKind kind, int warp, Mask lanes);
  // The keys of what a wait that leaves `newest` groups waits for, of -1 also what is not committed;
  // and what there is to do where it returns.
  std::vector<int64_t> unfinished(GroupKind kind, int warp, Mask lanes, int64_t newest, bool read);
  void waited(GroupKind kind, int warp, Mask lanes, int64_t newest, bool read);
  bool is_over(int64_t op, bool read) const;
  bool is_over(const Issued& one) const;
  // A warp waits for it no more: what is complete with it.
  void left(const Issued& one, std::vector<int64_t>& clocks);

  // Operations. `issue` makes one of `warps` together, by one lane or (-1) all; with `by_lanes`, of
  // these lanes each for itself. It has to be started (Core::issue).
  Op* issue(const int* warps, size_t count, int lane, int at, int name, Mask by_lanes = 0);
  Op* issue(int warp, int lane, int at, int name) { return issue(&warp, 1, lane, at, name); }
  bool failed(const Op& op, Fault wrong, int64_t a, int64_t b, int64_t c) {
    return core.failed(fault(op.id, wrong, a, b, c));
  }
  // complete_tx and arrivals by an operation; false where the run is over.
  bool op_tx(Op& op, int64_t slot, int64_t offset, int64_t bytes);
  bool op_arrive(Op& op, int64_t slot, int64_t offset, int64_t count = 1);
  std::vector<uint8_t> bytes(int64_t size);
  void keep(std::vector<uint8_t>&& data) { boxes.push_back(std::move(data)); }

  // What observers of the core hear; semantics are numbers of races::Sem, levels those of `Level`.
  void arrived(const std::vector<Threads>& threads, const Barrier& barrier, int sem, int level,
               int at);
  void waited(const std::vector<Threads>& threads, const Barrier& barrier, int sem, int level,
              int at);
  void op_arrived(const Op& op, const Barrier& barrier, bool bytes);
  void tensor_waited(const std::vector<Threads>& threads, const std::vector<int64_t>& clocks);
  // Lanes of a warp have written a register whose value is in flight; and what is known of such a
  // value so far, put into the lanes that wait for it: 1 of a load, 2 of a product, 0 for none.
  void brings_no_more(int warp, int64_t reg, Mask lanes);
  int bring_early(int warp, int64_t reg, uint32_t* into) const;
  void group_waited(int warp, Mask lanes, const std::vector<int64_t>& clocks, bool read);
  // Before an operation reads or writes memory, or a piece of the tensor memory of a CTA.
  void accessed(const Op& op, Arena arena, const std::vector<int64_t>& starts, int64_t size,
                bool write, const AccessDetail* detail = nullptr);
  void tensor_accessed(const Op& op, int64_t slot, int64_t lane, int64_t lanes, int64_t column,
                       int64_t columns, bool write, const AccessDetail* detail = nullptr);
};

// The handlers of groups, and their condition (groups.cpp), for instructions that do more.
Result commit_groups(Context& context, const Instruction& instruction);
Result wait_for_groups(Context& context, const Instruction& instruction);
Answer groups_may_pass(Context& context, const Instruction& instruction, uint8_t* going);

inline Sync* sync_of(Context& context) {
  Sync* sync = context.core.sync.get();
  return sync && !sync->listens ? sync : nullptr;
}

// The value that all lanes of a row hold; false where they differ.
template <class T> bool uniform(const T* values, Mask lanes, T& value) {
  value = values[__builtin_ctz(lanes)];
  bool same = true;
  for (int lane = 0; lane < LANES; lane++)
    same &= !(lanes >> lane & 1) | (values[lane] == value);
  return same;
}

}  // namespace emu
