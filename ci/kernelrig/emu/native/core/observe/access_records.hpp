// Accesses as numbers: a record says who did it, when, how and by which instruction; a code is a
// record and a lane, which is what the shadow memory holds. See kernelrig.emu.observe.access_records.
#pragma once

#include "clocks.hpp"

namespace emu::races {

using Code = int32_t;
constexpr int LANE_BITS = 5;
// `write` of an access that reads and writes at once; of other writes it is 1.
constexpr int ATOMIC = 2;
constexpr int MOST_RECORDS = 1 << (31 - LANE_BITS);

// What all accesses of a kind share; Python reads the same bytes (native/races.py). `need` is the
// time that a thread must know to be ordered; NEVER where that does not suffice: of several lanes at
// once (`mask`), and of a warp's tcgen05.ld (`asks`).
struct Record {
  int32_t cluster, column;
  Time time, need;
  int32_t asynchronous, at, cta, level, write, size;
  Mask mask;
  uint32_t asks;
  Actor* who;
};

struct Records {
  std::vector<Record> all;  // number 0 is what was there before the launch

  Records();
  const Record& of(Code code) const { return all[size_t(code) >> LANE_BITS]; }
  int add(Record record);  // its `need` is set here
  Mask lanes(Code code) const {
    const Mask mask = of(code).mask;
    return mask ? mask : 1u << (code & (LANES - 1));
  }
  // The code of an access like `code` by all lanes of `mask` together.
  Code shared(Code code, Mask mask);
  // The code of an access of record `number` by the lanes of `mask`.
  Code code_of(int number, Mask mask) {
    if (mask & (mask - 1)) return shared(number << LANE_BITS, mask);
    return number << LANE_BITS | (mask ? __builtin_ctz(mask) : -1);
  }
};

}  // namespace emu::races
