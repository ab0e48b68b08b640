// What warps wait for and what runs beside them: mbarriers, groups of copies, loads of tensor
// memory. kernelrig.emu.machine.mbarrier, async_groups, bulk_copy, isa.tcgen05_load for the core.
//
// How it works. Handlers take the plain case. An mbarrier is a `Barrier` in memory of Python, which
// makes and ends it; who waited for it last, and what a wait that gave up is called, is kept here,
// and Python's `native/sync.py` asks for it. An operation is a list of events (`Op::step`); where
// one of them is at fault it is reported by `fault`, a call of Python.
//
// Where an observer of Python's hears of any of this (`listens`), all handlers fall back: then
// every event is Python's, in its order.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "copies/tensor_map.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "sync/barrier.hpp"
#include "sync/cta_barrier.hpp"
#include "tensor/tensor_product.hpp"

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
};
struct Queue {
  Mask lanes = ALL;
  std::vector<Issued> uncommitted;
  std::deque<std::vector<Issued>> groups;
  size_t seen_read = 0;
};
enum GroupKind : int { BULK_GROUPS, COPY_GROUPS, MATRIX_GROUPS, GROUP_KINDS };

// Tensor memory of a CTA: 128 x 512 words of Python's, and which of its columns may be accessed, a
// bit for 32 of them.
constexpr int TENSOR_LANES = 128, COLUMNS = 512, UNIT_COLUMNS = 32;
struct TensorMemory {
  uint32_t* words = nullptr;
  uint32_t usable = 0;

  bool may_access(int64_t column, int64_t columns) const {
    if (column < 0 || column + columns > COLUMNS)
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

// A load of tensor memory, and what it brought: registers of 32 lanes.
struct TensorLoad {
  int64_t op;
  const int64_t* registers;  // their numbers
  const Operand* operands;
  std::vector<uint32_t> values;
};

// Streams of tcgen05 by thread and CTA group: Python numbers others from 0.
constexpr int64_t TENSOR_STREAMS = int64_t(1) << 40;

// What native operations are called, in the order of native/sync.py; of an mma also by its kind and
// CTA group.
enum OpName : int { BULK_COPY, TENSOR_COPY, TENSOR_LOAD, TENSOR_STORE, COMMIT_1, COMMIT_2, MMA };

// What an operation is at fault with, for Python to say.
enum Fault : int {
  SIGNALS_BYTES,   // slot, offset, bytes: complete_tx that is not plain
  SIGNALS_COMMIT,  // slot, offset: an arrival that is not plain
  SOURCE_EXITED,   // a store reads shared memory of a CTA that has exited
  TENSOR_ACCESS,   // slot, column, columns: not to be accessed
  PRODUCT_D,       // the same, of an mma's D
  PRODUCT_A,       // and of its A
};

struct Sync {
  Core& core;
  Memory& memory;
  int (*fault)(int64_t op, int fault, int64_t a, int64_t b, int64_t c) = nullptr;
  bool listens = false;
  bool in_turn = false;  // whether the CTAs of a cluster leave its barrier one after the other
  double spurious = 0;

  Sync(Core& core, Memory& memory) : core(core), memory(memory) {}

  // Of the wave.
  std::unordered_map<int64_t, Barrier*> barriers;  // the live ones, by flat byte
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
  std::vector<std::deque<std::shared_ptr<TensorLoad>>> loads;  // by warp: not waited for
  std::vector<std::vector<int64_t>> stores;
  std::vector<int32_t> python_tensor;  // by warp: what Python holds of them
  Maps maps;
  TensorProducts tensor_products;
  std::vector<std::vector<uint8_t>> boxes;  // not in use

  void start(int warps);

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
  void add(GroupKind kind, int warp, Mask lanes, const Op& op);
  void commit(GroupKind kind, int warp, Mask lanes);
  void waited(GroupKind kind, int warp, Mask lanes, int64_t newest, bool read);
  bool is_over(int64_t op, bool read) const;

  // Operations.
  Op* issue(int warp, int lane, int at, int name);
  bool failed(const Op& op, Fault wrong, int64_t a, int64_t b, int64_t c) {
    return core.failed(fault(op.id, wrong, a, b, c));
  }
  // Tells what an operation read or wrote to those observers that do not make the core leave it to
  // Python: they never have anything to report.
  void accessed(const Op& op, Arena arena, const std::vector<int64_t>& starts, int64_t size,
                bool write) {
    memory.observe_operation(op.at, arena, starts.data(), int64_t(starts.size()), int(size), write);
  }
  // The same of tensor memory: none of those observers hears of it.
  void tensor_accessed(const Op&, int64_t /*slot*/, int64_t /*lane*/, int64_t /*lanes*/,
                       int64_t /*column*/, int64_t /*columns*/, bool /*write*/) {}
  // complete_tx and an arrival by an operation; false where the run is over.
  bool op_tx(Op& op, int64_t slot, int64_t offset, int64_t bytes);
  bool op_arrive(Op& op, int64_t slot, int64_t offset);
  std::vector<uint8_t> bytes(int64_t size);
  void keep(std::vector<uint8_t>&& data) { boxes.push_back(std::move(data)); }
};

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
