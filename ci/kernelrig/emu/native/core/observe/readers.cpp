#include "readers.hpp"

#include <algorithm>

namespace emu::races {

Readers::Readers(int first, std::vector<int> columns, size_t granules)
    : first(first), columns(std::move(columns)), rows_(this->columns.size()), met_(granules) {}

bool Readers::note(int warp, Where where, const Mask* bits, Time time, int record,
                   const OrderCheck& check, bool apart) {
  const size_t number = size_t(warp - first);
  Row& row = rows_[number];
  if (!row.used) row.reads.grow(met_.size());
  Read* reads = row.reads.data();
  for (size_t i = 0; i < where.count && !apart; ++i) met_[where[i]] |= bits[i];
  if (new_.size() < where.count) new_.resize(where.count);
  Time latest = 0;
  for (size_t i = 0; i < where.count; ++i) {
    const size_t at = where[i];
    const Mask mask = apart ? bits[i] : met_[at];
    const Read known = reads[at];
    new_[i] = known.time == time ? known.lanes | mask : mask;
    if (known.time != time && known.lanes & ~mask) latest = std::max(latest, known.time);
  }
  for (size_t i = 0; i < where.count && !apart; ++i) met_[where[i]] = 0;
  if (latest && !check.knows(columns[number], latest)) return false;
  for (size_t i = 0; i < where.count; ++i) {
    const size_t at = where[i];
    reads[at] = {time, new_[i], record};
    row.low = std::min(row.low, at);
    row.high = std::max(row.high, at + 1);
  }
  row.used = used = true;
  return true;
}

bool Readers::take(Where where, const OrderCheck& check, uint8_t* read, std::vector<Left>& left) {
  bool any = false;
  for (size_t number = 0; number < rows_.size(); ++number) {
    Row& row = rows_[number];
    if (!row.used) continue;
    const Read* reads = row.reads.data();
    Time latest = 0;
    for (size_t i = 0; i < where.count; ++i) latest = std::max(latest, reads[where[i]].time);
    if (!latest) continue;
    if (!any) std::memset(read, 0, where.count);
    any = true;
    const bool known = check.knows(columns[number], latest);
    if (!known) left.emplace_back();
    for (size_t i = 0; i < where.count; ++i) {
      const size_t at = where[i];
      if (!reads[at].time) continue;
      read[i] = 1;
      if (known) continue;
      left.back().granules.push_back(int32_t(at));
      left.back().by.emplace_back(reads[at].record, reads[at].lanes);
    }
  }
  if (!any) return false;
  for (Row& row : rows_)
    for (size_t i = 0; row.used && i < where.count; ++i) row.reads[where[i]].time = 0;
  return true;
}

void Readers::follow(const Partition& partition, size_t from) {
  met_.grow(partition.classes());
  for (Row& row : rows_) {
    if (!row.used) continue;
    row.reads.grow(partition.classes());
    for (size_t part = from; part < partition.classes(); ++part) {
      const size_t parent = partition.parent(part);
      if (!row.reads[parent].time) continue;
      row.reads[part] = row.reads[parent];
      row.high = std::max(row.high, part + 1);
    }
  }
}

}  // namespace emu::races
