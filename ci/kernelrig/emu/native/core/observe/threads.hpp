// Rows of a batch as observers name threads, and how far a scope reaches.
#pragma once

#include <vector>

#include "../core.hpp"

namespace emu {

// Lanes of a warp, by its number on the machine.
struct Threads {
  int warp;
  Mask lanes;
};

// How far a scope reaches; one GPU is all there is.
enum Level : int { LEVEL_NONE, LEVEL_CTA, LEVEL_CLUSTER, LEVEL_GPU };

inline const std::vector<Threads>& threads_of(const Row* rows, int count) {
  thread_local std::vector<Threads> threads;
  threads.clear();
  for (int row = 0; row < count; row++)
    threads.push_back({rows[row].warp, rows[row].lanes});
  return threads;
}

// The level of a scope, by its number of "" and machine.thread_memory.SCOPES.
inline int level_of(int scope) {
  constexpr int LEVELS[] = {LEVEL_CTA, LEVEL_CTA, LEVEL_CLUSTER, LEVEL_GPU, LEVEL_GPU};
  return LEVELS[scope];
}

}  // namespace emu
