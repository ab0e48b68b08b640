// MT19937 as CPython has it: choices must be the same draws for the same seed.
#include "machine.hpp"

#include <cstring>

namespace emu {

void Random::set(const uint32_t* state) {
  std::memcpy(words, state, sizeof words);
  position = int(state[624]);
}

void Random::get(uint32_t* state) const {
  std::memcpy(state, words, sizeof words);
  state[624] = uint32_t(position);
}

uint32_t Random::word() {
  constexpr int N = 624, M = 397;
  if (position >= N) {
    const auto mixed = [](uint32_t high, uint32_t low) {
      const uint32_t y = (high & 0x80000000u) | (low & 0x7FFFFFFFu);
      return (y >> 1) ^ (y & 1 ? 0x9908B0DFu : 0u);
    };
    for (int k = 0; k < N - M; k++)
      words[k] = words[k + M] ^ mixed(words[k], words[k + 1]);
    for (int k = N - M; k < N - 1; k++)
      words[k] = words[k + M - N] ^ mixed(words[k], words[k + 1]);
    words[N - 1] = words[M - 1] ^ mixed(words[N - 1], words[0]);
    position = 0;
  }
  uint32_t y = words[position++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680u;
  y ^= (y << 15) & 0xEFC60000u;
  return y ^ (y >> 18);
}

double Random::uniform() {
  const uint32_t high = word() >> 5, low = word() >> 6;
  return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0);
}

int64_t Random::below(int64_t n) {
  // Python rejects draws of as many bits as n has. Lists here are far below 2^32 long.
  const int bits = 64 - __builtin_clzll(uint64_t(n));
  int64_t drawn;
  do
    drawn = word() >> (32 - bits);
  while (drawn >= n);
  return drawn;
}

}  // namespace emu
