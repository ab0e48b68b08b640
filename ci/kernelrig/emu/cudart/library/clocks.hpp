// Vector clocks: how much of each chain of work is complete before something else begins.
//
// A chain is work each piece of which begins when the one before has ended, as in a stream; an epoch
// counts the pieces. Two orders are kept side by side: what CUDA's rules say, and what drivers
// usually do besides, as where a call "might be synchronous".
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cudart {

using Epoch = uint64_t;

// Up to which piece of a chain all is complete. `usual` is never less than `ruled`.
struct Complete {
  Epoch ruled = 0, usual = 0;
};

class Clock {
public:
  Complete of(uint32_t chain) const {
    return chain < known.size() ? known[chain] : Complete{};
  }
  void reach(uint32_t chain, Epoch epoch) { raise(chain, {epoch, epoch}); }
  // Everything that is complete before `other` is so before this.
  void join(const Clock& other) {
    for (uint32_t chain = 0; chain < other.known.size(); chain++)
      raise(chain, other.known[chain]);
  }
  // Usually, and by no rule.
  void join_usually(const Clock& other) {
    for (uint32_t chain = 0; chain < other.known.size(); chain++)
      raise(chain, {0, other.known[chain].usual});
  }

private:
  void raise(uint32_t chain, Complete to) {
    if (chain >= known.size())
      known.resize(chain + 1);
    Complete& now = known[chain];
    now = {std::max(now.ruled, to.ruled), std::max(now.usual, to.usual)};
  }

  std::vector<Complete> known;  // by chain
};

// All chains. One that has ended is taken again by what begins behind its last piece.
class Chains {
public:
  Epoch next(uint32_t chain) { return ++last[chain]; }
  bool goes_on(uint32_t chain, const Clock& at) const {
    return chain < last.size() && at.of(chain).ruled >= last[chain];
  }
  uint32_t take(const Clock& at) {
    for (size_t i = 0; i < ended.size(); i++)
      if (goes_on(ended[i], at)) {
        uint32_t chain = ended[i];
        ended[i] = ended.back();
        ended.pop_back();
        return chain;
      }
    last.push_back(0);
    return uint32_t(last.size() - 1);
  }
  void end(uint32_t chain) {
    if (chain < last.size())
      ended.push_back(chain);
  }

private:
  std::vector<Epoch> last;      // by chain
  std::vector<uint32_t> ended;  // chains that nothing goes on with
};

constexpr uint32_t NO_CHAIN = ~0u;

}  // namespace cudart
