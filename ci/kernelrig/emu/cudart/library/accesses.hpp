// Who accessed which bytes, as far as later work may conflict with it.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "clocks.hpp"
#include "runtime.hpp"

namespace cudart {

// Bits of an access, those of observe/global_accesses.py: strong ones, as atomics are, do not race
// with one another.
constexpr uint8_t READ = 1, WRITE = 2, STRONG_READ = 4, STRONG_WRITE = 8, OF_SYSTEM = 16;

// What an access of `use` conflicts with.
constexpr uint8_t conflicting(uint8_t use) {
  return (use & READ ? WRITE | STRONG_WRITE : 0) |
         (use & WRITE ? READ | WRITE | STRONG_READ | STRONG_WRITE : 0) |
         (use & STRONG_READ ? WRITE : 0) | (use & STRONG_WRITE ? READ | WRITE : 0);
}

// A piece of work that has accessed memory.
struct Piece {
  Described what;
  uint32_t chain;
  Epoch epoch;
};

struct Access {
  std::shared_ptr<const Piece> by;
  uint8_t use;
};

class Accesses {
public:
  using Seen = std::function<void(const Access&, uint64_t start, uint64_t end)>;

  // Shows all accesses of these bytes.
  void of(uint64_t start, uint64_t end, const Seen& seen) const;
  // Keeps an access by a piece that begins at `clock`, in place of those that it stands for.
  void keep(uint64_t start, uint64_t end, const Access& access, const Clock& clock);
  void forget(uint64_t start, uint64_t end);
  // Forgets what is complete for the host: whatever begins from now on is behind it.
  void forget_complete(const Clock& host);
  void clear() { parts.clear(); }
  size_t size() const { return parts.size(); }

private:
  struct Part {
    uint64_t end;
    std::vector<Access> accesses;
  };
  using Parts = std::map<uint64_t, Part>;  // by start; none overlaps another

  void split(uint64_t at);

  Parts parts;
};

}  // namespace cudart
