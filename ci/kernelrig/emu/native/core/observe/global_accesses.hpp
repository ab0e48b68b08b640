// What a launch reads and writes of global memory, by byte (observe.global_accesses).
#pragma once

#include "../memory.hpp"

namespace emu {

constexpr uint8_t PLAIN_READ = 1, PLAIN_WRITE = 2, STRONG_READ = 4, STRONG_WRITE = 8,
                  OF_SYSTEM = 16;
constexpr int GPU_SCOPE = 3, SYSTEM_SCOPE = 4;  // of "" and machine.thread_memory.SCOPES

inline uint8_t use_of(const ThreadAccess& access) {
  const bool writes = access.write || access.atomic;
  const bool of_system = access.semantics == VOLATILE || access.scope == SYSTEM_SCOPE;
  if (access.semantics == WEAK || (access.scope < GPU_SCOPE && !of_system))
    return writes ? PLAIN_WRITE : PLAIN_READ;
  return !writes ? STRONG_READ : STRONG_WRITE | (of_system ? OF_SYSTEM : 0);
}

inline void note_use(uint8_t* marks, int64_t at, int64_t size, uint8_t use) {
  for (int64_t byte = at; byte < at + size; byte++)
    marks[byte] |= use;
}

inline void note_use(uint8_t* marks, const ThreadAccess& access) {
  const uint8_t use = use_of(access);
  for (int row = 0; row < access.count; row++) {
    const int64_t* flat = access.flat + row * LANES;
    bool together = access.rows[row].lanes == ALL;
    for (int lane = 1; together && lane < LANES; lane++)
      together = flat[lane] == flat[0] + lane * access.size;
    if (together)
      note_use(marks, flat[0], LANES * access.size, use);
    else
      each_lane(access.rows[row].lanes,
                [&](int lane) { note_use(marks, flat[lane], access.size, use); });
  }
}

// Of an operation that reads, writes or, `reduces`, adds to `size` bytes at each of `starts`.
inline void note_use(uint8_t* marks, const int64_t* starts, int64_t count, int size, bool write,
                     bool reduces) {
  const uint8_t use = !write ? PLAIN_READ : reduces ? STRONG_WRITE : PLAIN_WRITE;
  for (int64_t n = 0; n < count; n++)
    note_use(marks, starts[n], size, use);
}

}  // namespace emu
