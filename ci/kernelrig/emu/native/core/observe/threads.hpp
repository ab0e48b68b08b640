// Rows of a batch as the race detector names threads. What hears nothing of it needs none of its
// headers.
#pragma once

#include "../memory.hpp"
#include "races.hpp"

namespace emu {

inline const std::vector<races::Threads>& threads_of(const Row* rows, int count) {
  thread_local std::vector<races::Threads> threads;
  threads.clear();
  for (int row = 0; row < count; row++)
    threads.push_back({rows[row].warp, rows[row].lanes});
  return threads;
}

// How far a scope reaches, of "" and machine.thread_memory.SCOPES.
inline int level_of(int scope) {
  constexpr int LEVELS[] = {races::LEVEL_CTA, races::LEVEL_CTA, races::LEVEL_CLUSTER,
                            races::LEVEL_GPU, races::LEVEL_GPU};
  return LEVELS[scope];
}

}  // namespace emu
