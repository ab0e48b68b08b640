#include "access_records.hpp"

#include <stdexcept>

namespace emu::races {

Records::Records() { all.push_back({-1, 0, 0, 0, 0, 0, -1, 0, 1, 0, 0, 0, nullptr}); }

int Records::add(Record record) {
  if (all.size() >= size_t(MOST_RECORDS)) throw std::length_error("the race detector is full");
  record.need = record.mask || record.asks ? NEVER : record.time;
  all.push_back(record);
  return int(all.size()) - 1;
}

Code Records::shared(Code code, Mask mask) {
  Record record = of(code);
  int& known = record.who->records.find(
      {mask, record.at, record.time, record.level, record.size, bool(record.write)});
  if (!known) {
    record.mask = mask;
    record.asks = false;
    known = add(record);
  }
  return Code(known) << LANE_BITS;
}

}  // namespace emu::races
