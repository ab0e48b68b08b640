// Bulk copies of plain bytes and of boxes of tensor maps (isa.bulk, isa.tensor_copy,
// machine.bulk_copy), where nothing is at fault.
//
// A load reads; then, for each CTA that it lands in, it writes, and completes its bytes on the
// mbarrier. A store reads, then writes. Each of these is an event.
#include <algorithm>
#include <cstring>
#include <utility>

#include "registry.hpp"
#include "sync/sync.hpp"

namespace emu {
namespace {

constexpr int64_t SHARED_ALIGNMENT = 128, IMAGE_ALIGNMENT = 64;
constexpr int64_t EVERY_BYTE = 0xFFFF;

// Where a load's bytes go, and the mbarrier that counts them.
struct Landing {
  int64_t flat, slot, offset;
};

struct Copy {
  const TensorMap* map = nullptr;  // null: plain bytes
  Clip clip;
  Arena arena = GLOBAL;  // where a load of plain bytes reads
  int64_t from = 0, to = 0, size = 0;
  std::vector<Landing> landings;
  std::vector<uint8_t> data;
};

Copy& copy_of(Op& op) { return *static_cast<Copy*>(op.own.get()); }

bool is_whole(const Copy& copy) {
  bool whole = !copy.clip.empty;
  for (int d = 0; d < (copy.map->im2col ? 2 : copy.map->rank); d++)
    whole &= copy.clip.shape[d] == copy.map->counts[d];
  return whole;
}

// Tells observers of the bytes of a copy in an arena.
void tell(Sync& sync, const Op& op, const Copy& copy, Arena arena, int64_t flat, bool is_write) {
  if (!sync.memory.watches_operations())
    return;
  thread_local std::vector<int64_t> starts;
  int64_t size = copy.size;
  if (!copy.map)
    starts.assign(1, flat);
  else if (arena == SHARED)
    places(*copy.map, flat, starts, size);
  else if (copy.clip.empty)
    return;
  else
    rows(*copy.map, copy.clip, starts, size);
  // Of a store only what lies in the tensor goes anywhere.
  AccessDetail detail;
  if (copy.map && arena == SHARED)
    detail.swizzle = copy.map->swizzle_number();
  if (!copy.map || arena != SHARED || is_write || is_whole(copy)) {
    sync.accessed(op, arena, starts, size, is_write, &detail);
    return;
  }
  thread_local std::vector<uint8_t> needed;
  moved(*copy.map, copy.clip, flat, needed);
  // Rows that are narrower than their swizzle may all begin behind the first byte of the tile.
  const int64_t first = *std::min_element(starts.begin(), starts.end()) - flat;
  detail.needed = needed.data() + first;
  detail.needed_bytes = int64_t(needed.size()) - first;
  sync.accessed(op, arena, starts, size, is_write, &detail);
}

void read(Sync& sync, const Op& op, Copy& copy, bool store) {
  Memory& memory = sync.memory;
  tell(sync, op, copy, !copy.map ? copy.arena : store ? SHARED : GLOBAL, copy.from, false);
  copy.data = sync.bytes(copy.size);
  uint8_t* into = copy.data.data();
  if (!copy.map)
    std::memcpy(into, memory.bytes[copy.arena] + copy.from, size_t(copy.size));
  else if (store)
    take(*copy.map, copy.from, memory.bytes[SHARED], into);
  else
    load(*copy.map, copy.clip, memory.bytes[GLOBAL], into);
}

void write(Sync& sync, const Op& op, Copy& copy, Arena arena, int64_t flat) {
  Memory& memory = sync.memory;
  tell(sync, op, copy, arena, flat, true);
  uint8_t *bytes = memory.bytes[arena], *written = memory.written[arena];
  if (!copy.map) {
    std::memcpy(bytes + flat, copy.data.data(), size_t(copy.size));
    std::memset(written + flat, 1, size_t(copy.size));
  } else if (arena == SHARED) {
    put(*copy.map, flat, copy.data.data(), bytes, written);
  } else {
    store(*copy.map, copy.clip, copy.data.data(), bytes, written);
  }
}

bool load_step(Core& core, Op& op) {
  Sync& sync = *core.sync;
  Copy& copy = copy_of(op);
  std::vector<Landing>& landings = copy.landings;
  if (!op.stage) {
    read(sync, op, copy, false);
    op.read = true;
    for (size_t n = landings.size() - 1; n > 0; n--)  // random.shuffle
      std::swap(landings[n], landings[size_t(core.random.below(int64_t(n) + 1))]);
    op.stage = 1;
    return true;
  }
  const Landing& landing = landings[size_t(op.stage - 1) / 2];
  if (op.stage % 2) {
    if (landing.flat >= 0 && sync.is_running(landing.flat / SLOT_BYTES))
      write(sync, op, copy, SHARED, landing.flat);
  } else if (!sync.op_tx(op, landing.slot, landing.offset, copy.size)) {
    return true;
  } else if (size_t(op.stage) == 2 * landings.size()) {
    sync.keep(std::move(copy.data));
    return false;
  }
  op.stage++;
  return true;
}

bool store_step(Core& core, Op& op) {
  Sync& sync = *core.sync;
  Copy& copy = copy_of(op);
  if (op.stage) {
    write(sync, op, copy, GLOBAL, copy.to);
    sync.keep(std::move(copy.data));
    return false;
  }
  if (!sync.is_running(core.slot_of[op.warp]) && sync.failed(op, SOURCE_EXITED, 0, 0, 0))
    return true;
  read(sync, op, copy, true);
  op.read = true;
  core.wake(OP_KEYS | op.id);
  op.stage = 1;
  return true;
}

// A thread that starts a copy.
struct Issuer {
  const Row& row;
  int lane;

  template <class T> T value(Context& context, Operand operand) const {
    return context.in<T>(row, operand)[lane];
  }
};

// How a copy asks for a box: how many coordinates, whether by im2col, and where the operands of its
// offsets are; null for none.
struct Mode {
  int rank;
  bool im2col;
  const Operand* offsets;
};

// Decode the map at an address, and what of its box at the coordinates is there; false where
// something is at fault.
bool box_of(Sync& sync, Context& context, const Issuer& issuer, const Operand* operands,
            const Mode& mode, bool write, Copy& copy) {
  const int64_t at = sync.in_global(issuer.value<int64_t>(context, operands[0]), MAP_BYTES,
                                    IMAGE_ALIGNMENT, false);
  if (at < 0)
    return false;
  if (sync.edited_maps.count(at))
    return false;
  copy.map = sync.maps.find(sync.memory.bytes[GLOBAL] + at);
  if (!copy.map || copy.map->rank != mode.rank || copy.map->im2col != mode.im2col ||
      copy.map->interleaved)
    return false;
  int32_t corner[RANKS], offsets[CORNERS] = {};
  for (int d = 0; d < mode.rank; d++)
    corner[d] = issuer.value<int32_t>(context, operands[1 + d]);
  for (int d = 0; mode.offsets && d < mode.rank - 2; d++)
    offsets[d] = issuer.value<uint16_t>(context, mode.offsets[d]);
  if (!is_taken(*copy.map, corner, offsets, write) ||
      !clip(*copy.map, corner, offsets, copy.map->address - GLOBAL_BASE, copy.clip))
    return false;
  copy.size = copy.map->box_bytes;
  return copy.clip.empty || sync.in_global(copy.clip.start + GLOBAL_BASE,
                                           extent(*copy.map, copy.clip), 1, write) >= 0;
}

// Whether a box starts where the pattern of its swizzle does, or Python was told of the first that
// does not (isa.tensor_copy).
bool is_on_pattern(Sync& sync, const TensorMap& map, int64_t at, int instruction) {
  const int64_t pattern = map.swizzle * LINE / map.atom;
  if (!pattern || at < 0 || at % pattern == 0 || map.shared_bytes < pattern)
    return true;
  if (sync.off_pattern.size() <= size_t(instruction))
    sync.off_pattern.resize(size_t(instruction) + 1);
  return std::exchange(sync.off_pattern[size_t(instruction)], uint8_t(1));
}

// Where a load to `target` lands (bulk_copy.landings); false for what is reported. `ctas` are the
// ranks of a multicast, -1 for none.
bool land(Sync& sync, const Issuer& issuer, int64_t target, int64_t barrier, int64_t ctas,
          bool pair, Copy& copy) {
  if (target < 0 || barrier < 0)
    return false;
  const int64_t slot = barrier / SLOT_BYTES, offset = barrier % SLOT_BYTES;
  const int64_t own = sync.core.slot_of[issuer.row.warp], first = own - sync.rank(own);
  if (ctas < 0) {
    const int64_t at = target / SLOT_BYTES - first, signalled = slot - first;
    if (signalled != at && !(pair && signalled == (at ^ 1)))
      return false;
    copy.landings.push_back({target, slot, offset});
    return true;
  }
  if (!ctas || ctas >> sync.memory.cluster_ctas)
    return false;
  for (int64_t rank = 0; rank < sync.memory.cluster_ctas; rank++)
    if (ctas >> rank & 1) {
      const int64_t signalled = pair ? (rank & ~int64_t(1)) | ((slot - first) & 1) : rank;
      copy.landings.push_back(
          {(first + rank) * SLOT_BYTES + target % SLOT_BYTES, first + signalled, offset});
    }
  return true;
}

// Make a copy for each thread by `plan`; all are sound, or none is started.
template <class Plan, class Issue>
Result start_all(Context& context, Plan plan, Issue issue) {
  std::vector<std::pair<Issuer, std::shared_ptr<Copy>>> made;
  for (int n = 0; n < context.count; n++)
    for (Mask left = context.rows[n].lanes; left; left &= left - 1) {
      made.push_back({{context.rows[n], __builtin_ctz(left)}, std::make_shared<Copy>()});
      if (!plan(made.back().first, *made.back().second))
        return FALLBACK;
    }
  for (auto& [issuer, copy] : made)
    issue(issuer, copy);
  return CONTINUE;
}

void issue(Sync& sync, const Instruction& instruction, const Issuer& issuer,
           const std::shared_ptr<Copy>& copy, bool is_store) {
  Op* op = sync.issue(issuer.row.warp, issuer.lane, instruction.at,
                      copy->map ? TENSOR_COPY : BULK_COPY);
  op->own = copy;
  op->step = is_store ? store_step : load_step;
  sync.core.issue(op);
  if (is_store)
    sync.add(BULK_GROUPS, issuer.row.warp, Mask(1) << issuer.lane, *op);
}

// Operands: destination, mbarrier, map, coordinates, offsets of im2col, CTAs of a multicast.
// Immediates: the rank, .cta_group::2, a multicast, shared::cluster, .im2col.
Result tensor_load(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  const int rank = int(instruction.immediates[0]);
  const bool pair = instruction.immediates[1], multicast = instruction.immediates[2];
  const bool cluster = instruction.immediates[3], im2col = instruction.immediates[4];
  const Operand* operands = instruction.operands;
  const Operand* behind = operands + 3 + rank;
  const Mode mode{rank, im2col, im2col ? behind : nullptr};
  return start_all(
      context,
      [&](const Issuer& issuer, Copy& copy) {
        const int warp = issuer.row.warp;
        if (!box_of(*sync, context, issuer, operands + 2, mode, false, copy))
          return false;
        const int64_t target =
            sync->in_shared(warp, issuer.value<int64_t>(context, operands[0]),
                            copy.map->shared_bytes, SHARED_ALIGNMENT, cluster);
        const int64_t barrier =
            sync->in_shared(warp, issuer.value<int64_t>(context, operands[1]), 8, 8, cluster);
        const int64_t ctas =
            multicast ? issuer.value<uint16_t>(context, behind[im2col ? rank - 2 : 0]) : -1;
        return is_on_pattern(*sync, *copy.map, target, instruction.at) &&
               land(*sync, issuer, target, barrier, ctas, pair, copy);
      },
      [&](const Issuer& issuer, auto& copy) { issue(*sync, instruction, issuer, copy, false); });
}

// Whether two lanes of a warp issue the same store: Python makes them one (bulk_copy.storers).
template <class Same> bool is_issued_again(const Context& context, Same same) {
  for (int n = 0; n < context.count; n++)
    for (Mask left = context.rows[n].lanes; left; left &= left - 1)
      for (Mask others = left & (left - 1); others; others &= others - 1)
        if (same(Issuer{context.rows[n], __builtin_ctz(left)},
                 Issuer{context.rows[n], __builtin_ctz(others)}))
          return true;
  return false;
}

// Operands: source, map, coordinates. Immediates: the rank, .im2col_no_offs.
Result tensor_store(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  const int rank = int(instruction.immediates[0]);
  const Mode mode{rank, bool(instruction.immediates[1]), nullptr};
  const Operand* operands = instruction.operands;
  const auto same = [&](const Issuer& one, const Issuer& other) {
    const auto equal = [&](auto zero, Operand operand) {
      using T = decltype(zero);
      return one.value<T>(context, operand) == other.value<T>(context, operand);
    };
    bool alike = equal(int64_t(), operands[0]) && equal(int64_t(), operands[1]);
    for (int d = 0; d < rank && alike; d++)
      alike = equal(int32_t(), operands[2 + d]);
    return alike;
  };
  if (is_issued_again(context, same))
    return FALLBACK;
  return start_all(
      context,
      [&](const Issuer& issuer, Copy& copy) {
        if (!box_of(*sync, context, issuer, operands + 1, mode, true, copy))
          return false;
        copy.from = sync->in_shared(issuer.row.warp, issuer.value<int64_t>(context, operands[0]),
                                    copy.map->shared_bytes, SHARED_ALIGNMENT, false);
        return copy.from >= 0 && is_on_pattern(*sync, *copy.map, copy.from, instruction.at);
      },
      [&](const Issuer& issuer, auto& copy) { issue(*sync, instruction, issuer, copy, true); });
}

// Operands: map, coordinates, offsets of im2col. Immediates: the rank, .im2col. It brings nothing
// that a program can see.
Result tensor_prefetch(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  const int rank = int(instruction.immediates[0]);
  const bool im2col = instruction.immediates[1];
  const Mode mode{rank, im2col, im2col ? instruction.operands + 1 + rank : nullptr};
  Copy copy;
  for (int n = 0; n < context.count; n++)
    for (Mask left = context.rows[n].lanes; left; left &= left - 1)
      if (!box_of(*sync, context, {context.rows[n], __builtin_ctz(left)}, instruction.operands,
                  mode, false, copy))
        return FALLBACK;
  return CONTINUE;
}

// Operands: destination, source, size, mbarrier, CTAs of a multicast. Immediates: whether it reads
// shared memory, a multicast, shared::cluster.
Result bulk_load(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  const bool shared = instruction.immediates[0], multicast = instruction.immediates[1];
  const bool cluster = instruction.immediates[2];
  const Operand* operands = instruction.operands;
  return start_all(
      context,
      [&](const Issuer& issuer, Copy& copy) {
        const int warp = issuer.row.warp;
        copy.size = issuer.value<uint32_t>(context, operands[2]);
        if (!copy.size || copy.size % CHUNK)
          return false;
        copy.arena = shared ? SHARED : GLOBAL;
        const int64_t source = issuer.value<int64_t>(context, operands[1]);
        copy.from = shared ? sync->in_shared(warp, source, copy.size, CHUNK, false)
                           : sync->in_global(source, copy.size, CHUNK, false);
        const int64_t target = sync->in_shared(
            warp, issuer.value<int64_t>(context, operands[0]), copy.size, CHUNK, cluster);
        const int64_t barrier =
            sync->in_shared(warp, issuer.value<int64_t>(context, operands[3]), 8, 8, cluster);
        const int64_t ctas = multicast ? issuer.value<uint16_t>(context, operands[4]) : -1;
        return copy.from >= 0 && land(*sync, issuer, target, barrier, ctas, false, copy);
      },
      [&](const Issuer& issuer, auto& copy) { issue(*sync, instruction, issuer, copy, false); });
}

// Operands: destination, source, size, and with the one immediate a mask of bytes.
Result bulk_store(Context& context, const Instruction& instruction) {
  Sync* sync = sync_of(context);
  if (!sync)
    return FALLBACK;
  const bool masked = instruction.immediates[0];
  const Operand* operands = instruction.operands;
  return start_all(
      context,
      [&](const Issuer& issuer, Copy& copy) {
        copy.size = issuer.value<uint32_t>(context, operands[2]);
        if (!copy.size || copy.size % CHUNK ||
            (masked && issuer.value<uint16_t>(context, operands[3]) != EVERY_BYTE))
          return false;
        copy.arena = SHARED;
        copy.from = sync->in_shared(issuer.row.warp, issuer.value<int64_t>(context, operands[1]),
                                    copy.size, CHUNK, false);
        copy.to = sync->in_global(issuer.value<int64_t>(context, operands[0]), copy.size, CHUNK,
                                  true);
        return copy.from >= 0 && copy.to >= 0;
      },
      [&](const Issuer& issuer, auto& copy) { issue(*sync, instruction, issuer, copy, true); });
}

const Handlers bulk_handlers{{"bulk.tensor.load", tensor_load},
                        {"bulk.tensor.store", tensor_store},
                        {"bulk.tensor.prefetch", tensor_prefetch},
                        {"bulk.load", bulk_load},
                        {"bulk.store", bulk_store}};

} // namespace
} // namespace emu
