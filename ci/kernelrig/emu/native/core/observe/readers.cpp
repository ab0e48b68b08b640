#include "readers.hpp"

#include <algorithm>

namespace emu::races {

Readers::Readers(int first, std::vector<int> columns, size_t granules)
    : first(first), columns(std::move(columns)), rows_(this->columns.size()), met_(granules) {
  for (Row& row : rows_)
    row = Row{Zeros<Time>(granules), Zeros<Mask>(granules), Zeros<int32_t>(granules)};
}

bool Readers::note(int warp, Where where, const Mask* bits, Time time, int record,
                   const OrderCheck& check, bool apart) {
  const size_t number = size_t(warp - first);
  Row& row = rows_[number];
  for (size_t i = 0; i < where.count && !apart; ++i) met_[where[i]] |= bits[i];
  new_.resize(where.count);
  Time latest = 0;
  for (size_t i = 0; i < where.count; ++i) {
    const size_t at = where[i];
    const Mask mask = apart ? bits[i] : met_[at], known = row.lanes[at];
    const Time before = row.times[at];
    new_[i] = before == time ? known | mask : mask;
    if (before && before != time && known & ~mask) latest = std::max(latest, before);
  }
  for (size_t i = 0; i < where.count && !apart; ++i) met_[where[i]] = 0;
  if (latest && !check.knows(columns[number], latest)) return false;
  for (size_t i = 0; i < where.count; ++i) {
    const size_t at = where[i];
    row.lanes[at] = new_[i];
    row.times[at] = time;
    row.records[at] = record;
    row.low = std::min(row.low, at);
    row.high = std::max(row.high, at + 1);
  }
  row.used = used = true;
  return true;
}

namespace {
Time latest_of(const Zeros<Time>& times, Where where) {
  Time latest = 0;
  if (where.list) {
    for (size_t i = 0; i < where.count; ++i) latest = std::max(latest, times[size_t(where.list[i])]);
  } else {
    const Time* from = times.data() + where.start;
    for (size_t i = 0; i < where.count; ++i) latest = std::max(latest, from[i]);
  }
  return latest;
}
}  // namespace

bool Readers::take(Where where, const OrderCheck& check, uint8_t* read, std::vector<Left>& left) {
  bool any = false;
  for (size_t number = 0; number < rows_.size(); ++number) {
    Row& row = rows_[number];
    if (!row.used) continue;
    const Time latest = latest_of(row.times, where);
    if (!latest) continue;
    if (!any) std::memset(read, 0, where.count);
    any = true;
    const bool known = check.knows(columns[number], latest);
    if (!known) left.emplace_back();
    for (size_t i = 0; i < where.count; ++i) {
      const size_t at = where[i];
      if (!row.times[at]) continue;
      read[i] = 1;
      if (known) continue;
      left.back().granules.push_back(int32_t(at));
      left.back().by.emplace_back(row.records[at], row.lanes[at]);
    }
  }
  if (!any) return false;
  for (Row& row : rows_) {
    if (!row.used) continue;
    if (where.list) {
      for (size_t i = 0; i < where.count; ++i) row.times[size_t(where.list[i])] = 0;
    } else {
      std::fill_n(row.times.data() + where.start, where.count, 0);
    }
  }
  return true;
}

void Readers::refine(size_t parts) {
  for (Row& row : rows_) {
    if (!row.used) {
      const size_t granules = row.times.size() * parts;
      row = Row{Zeros<Time>(granules), Zeros<Mask>(granules), Zeros<int32_t>(granules)};
      continue;
    }
    row.low *= parts;
    row.high *= parts;
    row.times = row.times.repeated(parts);
    row.lanes = row.lanes.repeated(parts);
    row.records = row.records.repeated(parts);
  }
  met_ = Zeros<Mask>(met_.size() * parts);
}

}  // namespace emu::races
