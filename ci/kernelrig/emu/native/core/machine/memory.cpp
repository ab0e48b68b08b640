#include "memory.hpp"

#include <algorithm>
#include <cstring>

#include "observe/global_accesses.hpp"
#include "observe/publication.hpp"
#include "observe/races.hpp"

namespace emu {
namespace {

// Positions relative to where a lane's memory begins: whether all lie inside `limit`, aligned.
struct Fit {
  uint64_t highest = 0, bits = 0;

  bool right(int64_t limit, int size, int align) const {
    return limit >= size && highest <= uint64_t(limit - size) && !(bits & uint64_t(align - 1));
  }
};

// flat[lane] = address[lane] - base, 0 for lanes that do not execute.
Fit fit(const int64_t* address, int64_t base, Mask lanes, int64_t* flat) {
  Fit made;
  for (int lane = 0; lane < LANES; lane++) {
    // Addresses wrap.
    const uint64_t inside = lanes >> lane & 1 ? uint64_t(address[lane]) - uint64_t(base) : 0;
    flat[lane] = int64_t(inside);
    made.highest = std::max(made.highest, inside);
    made.bits |= inside;
  }
  return made;
}

void shift(int64_t* flat, int64_t by) {
  for (int lane = 0; lane < LANES; lane++)
    flat[lane] += by;
}

bool marked(const uint8_t* marks, int64_t at, int size, uint8_t bit) {
  for (int byte = 0; byte < size; byte++)
    if (marks[at + byte] & bit)
      return true;
  return false;
}

void mark(uint8_t* marks, int64_t at, int size, uint8_t bit) {
  for (int byte = 0; byte < size; byte++)
    marks[at + byte] |= bit;
}

constexpr uint64_t ONES = 0x0101010101010101u;  // a byte that is written has bit 0

// Whether all of these bytes are written: any place, any size.
bool written_through(const uint8_t* marks, int64_t at, int64_t size) {
  uint64_t found = ONES;
  int64_t byte = 0;
  for (; byte + 8 <= size; byte += 8) {
    uint64_t word;
    std::memcpy(&word, marks + at + byte, sizeof word);
    found &= word;
  }
  for (; byte < size; byte++)
    found &= marks[at + byte] & 1 ? ONES : 0;
  return (found & ONES) == ONES;
}

// Whether all of these pieces are: those of a swizzled tile are of 16 bytes.
bool written_through(const uint8_t* marks, const int64_t* starts, int64_t count, int64_t size) {
  if (size != 16)
    return std::all_of(starts, starts + count,
                       [&](int64_t start) { return written_through(marks, start, size); });
  uint64_t found = ONES;
  for (int64_t n = 0; n < count; n++) {
    uint64_t words[2];
    std::memcpy(words, marks + starts[n], sizeof words);
    found &= words[0] & words[1];
  }
  return (found & ONES) == ONES;
}

template <class Word> bool all_ones(const uint8_t* marks, const ThreadAccess& access) {
  constexpr Word ONES = Word(0x0101010101010101u);
  const int words = access.size / int(sizeof(Word));
  Word found = ONES;
  for (int row = 0; row < access.count; row++) {
    const int64_t* flat = access.flat + row * LANES;
    each_lane(access.rows[row].lanes, [&](int lane) {
      for (int number = 0; number < words; number++) {
        Word word;
        std::memcpy(&word, marks + flat[lane] + number * int(sizeof(Word)), sizeof word);
        found &= word;
      }
    });
  }
  return (found & ONES) == ONES;
}

bool all_written(const uint8_t* marks, const ThreadAccess& access) {
  switch (access.size) {
  case 1:
    return all_ones<uint8_t>(marks, access);
  case 2:
    return all_ones<uint16_t>(marks, access);
  case 4:
    return all_ones<uint32_t>(marks, access);
  default:
    return all_ones<uint64_t>(marks, access);
  }
}

constexpr uint8_t NON_COHERENT = 1, WROTE = 2;
constexpr int BANKS = 32, BANK_BYTES = 4, BARRIER_BYTES = 8, WRITER_BYTES = 16;

} // namespace

int64_t* positions(int rows) {
  thread_local std::vector<int64_t> room;
  if (room.size() < size_t(rows) * LANES)
    room.resize(size_t(rows) * LANES);
  return room.data();
}

// Addresses.
bool Memory::locate(ThreadAccess& access, const Context& context, Operand address, Space space,
                    int align) {
  access.flat = positions(access.count);
  int64_t window = 0;
  if (space == GENERIC) {
    // All lanes in one window: else it is several accesses, or an address that is none.
    bool first = true;
    for (int n = 0; n < access.count; n++) {
      const int64_t* from = context.in<int64_t>(access.rows[n], address);
      bool same = true;
      each_lane(access.rows[n].lanes, [&](int lane) {
        const int64_t its = from[lane] & -(int64_t(1) << WINDOW_SHIFT);
        window = first ? its : window;
        same &= its == window;
        first = false;
      });
      if (!same)
        return false;
    }
    if (window == GLOBAL_BASE)
      space = IN_GLOBAL;
    else if (window == SHARED_WINDOW)
      space = IN_CLUSTER;
    else if (window == LOCAL_WINDOW)
      space = IN_LOCAL;
    else
      return false;
  }
  access.arena = space == IN_GLOBAL ? GLOBAL : space == IN_LOCAL ? LOCAL : SHARED;
  for (int n = 0; n < access.count; n++) {
    const Row& row = access.rows[n];
    const int64_t* from = context.in<int64_t>(row, address);
    int64_t* flat = access.flat + n * LANES;
    const bool right = access.arena == GLOBAL ? in_global(access, row, from, flat, align)
                       : access.arena == LOCAL
                           ? in_local(access, row, from, window, flat, align)
                           : in_shared(access, row, from, window, flat, align, space == IN_CLUSTER);
    if (!right)
      return false;
  }
  return true;
}

bool Memory::locate_global(ThreadAccess& access, const int64_t* addresses, int align) {
  access.arena = GLOBAL;
  for (int n = 0; n < access.count; n++)
    if (!in_global(access, access.rows[n], addresses + n * LANES, access.flat + n * LANES, align))
      return false;
  return true;
}

bool Memory::in_global(ThreadAccess& access, const Row& row, const int64_t* address, int64_t* flat,
                       int align) {
  int32_t& last = recent[access.at & (RECENT - 1)];
  if (last < allocations && !(access.write && read_only[last])) {
    const int64_t start = starts[last];
    if (fit(address, GLOBAL_BASE + start, row.lanes, flat)
            .right(ends[last] - start, access.size, align)) {
      shift(flat, start);
      return true;
    }
  }
  // Allocations may differ by lane.
  bool right = true;
  each_lane(row.lanes, [&](int lane) {
    const int64_t at = int64_t(uint64_t(address[lane]) - uint64_t(GLOBAL_BASE));
    const int64_t found = std::upper_bound(starts, starts + allocations, at) - starts - 1;
    if (found < 0 || at >= ends[found] || ends[found] - at < access.size || (at & (align - 1)) ||
        (access.write && read_only[found])) {
      right = false;
      return;
    }
    last = int32_t(found);
    flat[lane] = at;
  });
  for (int lane = 0; lane < LANES; lane++)
    flat[lane] = row.lanes >> lane & 1 ? flat[lane] : 0;
  return right;
}

bool Memory::in_shared(ThreadAccess& access, const Row& row, const int64_t* address, int64_t window,
                       int64_t* flat, int align, bool cluster) {
  const int64_t slot = slot_of[row.warp], rank = rank_of[row.warp];
  const int64_t start = (rank << RANK_SHIFT) + RESERVED_BYTES;
  const int64_t own = slot * SLOT_BYTES + RESERVED_BYTES;
  if (fit(address, window + start, row.lanes, flat).right(shared_bytes, access.size, align)) {
    shift(flat, own);
    return true;
  }
  if (!cluster)
    return false;
  // Other CTAs of the cluster, while they run.
  bool right = true;
  each_lane(row.lanes, [&](int lane) {
    const int64_t at = int64_t(uint64_t(address[lane]) - uint64_t(window));
    const int64_t named = at >> RANK_SHIFT, offset = at & OFFSET_MASK;
    right &= named >= 0 && named < cluster_ctas && offset >= RESERVED_BYTES &&
             offset + access.size <= shared_bytes + RESERVED_BYTES && !(offset & (align - 1)) &&
             (named == rank || running(slot - rank + named));
    flat[lane] = (slot - rank + named) * SLOT_BYTES + offset;
  });
  for (int lane = 0; lane < LANES; lane++)
    flat[lane] = row.lanes >> lane & 1 ? flat[lane] : own;
  return right;
}

bool Memory::in_local(ThreadAccess& access, const Row& row, const int64_t* address, int64_t window,
                      int64_t* flat, int align) {
  if (!fit(address, window, row.lanes, flat).right(local_bytes, access.size, align))
    return false;
  for (int lane = 0; lane < LANES; lane++)
    flat[lane] += (int64_t(row.warp) * LANES + lane) * local_stride;
  return true;
}

bool Memory::running(int64_t slot) const {
  const Mask* first = alive + slot * warps;
  return std::any_of(first, first + warps, [](Mask lanes) { return lanes != 0; });
}

// Observers.
bool Memory::observe(const ThreadAccess& access) {
  if (!may_observe(access))
    return false;
  if (races)
    race(access);
  if (publication && access.orders())
    publication->fenced(threads_of(access.rows, access.count).data(), size_t(access.count),
                        access.semantics, level_of(access.scope));
  if (counts)
    count(access);
  if (accesses && access.arena == GLOBAL)
    note_use(accesses, access);
  const bool marks = non_coherent && access.arena == GLOBAL && (access.write || access.non_coherent);
  const bool writes = last_writer && access.arena == GLOBAL && access.write;
  if (!marks && !writes)
    return true;
  for (int row = 0; row < access.count; row++) {
    const int64_t* flat = access.flat + row * LANES;
    each_lane(access.rows[row].lanes, [&](int lane) {
      if (marks)
        mark(non_coherent, flat[lane], access.size, access.write ? WROTE : NON_COHERENT);
      if (writes) {
        last_writer[flat[lane] / WRITER_BYTES] = access.at;
        last_writer[(flat[lane] + access.size - 1) / WRITER_BYTES] = access.at;
      }
    });
  }
  return true;
}

void Memory::race(const ThreadAccess& access) {
  const std::vector<Threads>& threads = threads_of(access.rows, access.count);
  const int semantics = access.semantics == VOLATILE ? races::VOLATILE : access.semantics;
  races->accessed(threads.data(), threads.size(), access.at, access.arena, access.flat,
                  {access.size, access.write, access.atomic, semantics, level_of(access.scope),
                   access.non_coherent, access.turns, access.turn_count, access.observed});
}

bool Memory::touches_barrier(const ThreadAccess& access) const {
  for (int row = 0; row < access.count; row++) {
    const int64_t* flat = access.flat + row * LANES;
    int64_t low = INT64_MAX, high = INT64_MIN;
    each_lane(access.rows[row].lanes, [&](int lane) {
      low = std::min(low, flat[lane]);
      high = std::max(high, flat[lane]);
    });
    // Most accesses are nowhere near.
    const int64_t* end = barriers + barrier_count;
    const int64_t* first = std::upper_bound(barriers, end, low - BARRIER_BYTES);
    bool hit = false;
    for (; first != end && *first < high + access.size; first++)
      each_lane(access.rows[row].lanes, [&](int lane) {
        hit |= flat[lane] < *first + BARRIER_BYTES && flat[lane] + access.size > *first;
      });
    if (hit)
      return true;
  }
  return false;
}

bool Memory::leaves_array(const ThreadAccess& access) const {
  const int64_t from = arrays[2 * access.at], to = arrays[2 * access.at + 1];
  bool left = false;
  for (int row = 0; row < access.count && to; row++)
    each_lane(access.rows[row].lanes, [&](int lane) {
      const int64_t offset = access.flat[row * LANES + lane] % SLOT_BYTES;
      left |= offset < from || offset + access.size > to;
    });
  return left;
}

// Whether no observer other than that has anything to report.
bool Memory::plain(const ThreadAccess& access) const {
  if (init && (!access.write || access.atomic) && !all_written(written[access.arena], access))
    return false;
  if (!counts)
    return true;
  if (access.arena == SHARED && arrays && leaves_array(access))
    return false;
  bool right = true;
  if (access.arena == SHARED && barrier_count) {
    right = !touches_barrier(access);
  } else if (access.arena == GLOBAL && non_coherent && (access.write || access.non_coherent)) {
    for (int row = 0; row < access.count; row++)
      each_lane(access.rows[row].lanes, [&](int lane) {
        right &= !marked(non_coherent, access.flat[row * LANES + lane], access.size,
                         access.write ? NON_COHERENT : WROTE);
      });
  }
  return right;
}

bool Memory::observe_operation(int at, int64_t clock, Arena arena, const int64_t* starts,
                               int64_t count, int size, bool write, int swizzle) {
  if (!count || !size)
    return !counts && !last_writer;  // nothing moves; Python has names for that
  if (init && !write && !written_through(written[arena], starts, count, size))
    return false;
  const bool marks = counts && non_coherent && arena == GLOBAL && write;
  if (marks)
    for (int64_t n = 0; n < count; n++)
      if (marked(non_coherent, starts[n], size, NON_COHERENT))
        return false;
  if (races)
    races->op_accessed(clock, arena, starts, size_t(count), size, write, swizzle);
  if (last_writer && arena == GLOBAL && !write && copied[at] < 0)
    copied[at] = starts[0];
  if (accesses && arena == GLOBAL)
    note_use(accesses, starts, count, size, write, reductions[at]);
  if (counts)
    counts[ASYNC + arena * 2 + write] += count * size;
  if (marks)
    for (int64_t n = 0; n < count; n++)
      mark(non_coherent, starts[n], size, WROTE);
  if (last_writer && arena == GLOBAL && write)
    for (int64_t n = 0; n < count; n++) {
      for (int offset = 0; offset < size; offset += WRITER_BYTES)
        last_writer[(starts[n] + offset) / WRITER_BYTES] = at;
      last_writer[(starts[n] + size - 1) / WRITER_BYTES] = at;
    }
  return true;
}

void Memory::count(const ThreadAccess& access) {
  int64_t lanes = 0;
  for (int row = 0; row < access.count; row++)
    lanes += __builtin_popcount(access.rows[row].lanes);
  const int kind = access.atomic ? ATOMIC : access.write ? WRITE : READ;
  counts[access.arena * 3 + kind] += lanes * access.size;
  if (access.arena == SHARED)
    for (int row = 0; row < access.count; row++)
      counts[BANK_CONFLICTS] +=
          bank_conflicts(access.flat + row * LANES, access.rows[row].lanes, access.size);
}

int64_t bank_conflicts(const int64_t* flat, Mask lanes, int size) {
  if (!(lanes & (lanes - 1)))
    return 0;
  // One place for all lanes, or one behind the other: most accesses are.
  if (lanes == ALL) {
    bool apart = true, one = true;
    for (int lane = 1; lane < LANES; lane++) {
      apart &= flat[lane] - flat[lane - 1] == size;
      one &= flat[lane] == flat[0];
    }
    if (apart || one)
      return 0;
  }
  const int unit = std::max(size, BANK_BYTES), banks = BANKS * BANK_BYTES / unit;
  const int shift = __builtin_ctz(unsigned(unit));
  int64_t beyond = 0;
  for (int first = 0; first < LANES; first += banks) {
    // The words of a group, each counted once; a group has at most 32 lanes.
    int64_t words[BANKS];
    uint8_t hits[BANKS] = {};
    int known = 0, most = 0;
    for (int lane = first; lane < first + banks; lane++) {
      if (!(lanes >> lane & 1))
        continue;
      const int64_t word = flat[lane] >> shift;
      if (std::find(words, words + known, word) != words + known)
        continue;
      words[known++] = word;
      most = std::max<int>(most, ++hits[word & (banks - 1)]);
    }
    beyond += std::max(most - 1, 0);
  }
  return beyond;
}

} // namespace emu

extern "C" {

// `observe_operation`, for tests.
int core_observe_operation(emu::Memory* memory, int at, int arena, const int64_t* starts,
                           int64_t count, int size, int write) {
  return memory->observe_operation(at, -1, emu::Arena(arena), starts, count, size, write);
}
}
