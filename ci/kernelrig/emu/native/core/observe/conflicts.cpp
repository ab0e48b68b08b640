// What is told of an access that is at fault (observe.conflicts.Reports).
#include <algorithm>

#include "races.hpp"

namespace emu::races {

// A number for all that a report says of a conflict, but for where it is and who does the later
// access (observe.conflicts.Reports).
int32_t Races::alike(const Access& access, Code code, int hint) {
  const Record& record = records_.of(code);
  const Actor &before = *record.who, &now = *access.who;
  const Clock* clock = known(record.cluster);
  const bool own = record.cluster == now.cluster->number;
  bool ordered = access.space != SPACE_TENSOR && record.asynchronous != int(access.asynchronous) &&
                 clock;
  if (ordered) {
    int wide = own ? now.cluster->columns : 0;
    for (const RowRef& row : clock->rows) wide = std::max(wide, row ? row->size : 0);
    for (Mask left = records_.lanes(code); left; left &= left - 1) {
      const int column = record.column + __builtin_ctz(left);
      ordered &= column < wide && time_at(clock->rows[SAME], column) >= record.time;
    }
  }
  const bool taken = access.space == SPACE_TENSOR &&
                     time_at(access.clock->rows[ORDERED], record.column) >= record.time;
  const bool one_place =
      before.place_cta == now.place_cta && before.place_warp == now.place_warp;
  const auto is_seen = [&](Order row) {  // of all lanes
    for (Mask left = records_.lanes(code); left; left &= left - 1)
      if (time_at(clock->rows[row], record.column + __builtin_ctz(left)) < record.time)
        return false;
    return true;
  };
  const bool shared = clock && access.space == SPACE_SHARED;
  const bool performed = clock && access.space == SPACE_GLOBAL && is_seen(PERFORMED);
  const bool committed =
      shared && !record.write && !before.is_operation && is_seen(COMMITTED);
  const bool waited = shared && !ordered && is_seen(UNACQUIRED);
  const int64_t bits = ordered | taken << 1 | one_place << 2 | (before.cta == now.cta) << 3 |
                       (before.cluster == now.cluster) << 4 | access.write << 5 |
                       (access.operation != nullptr) << 6 | (record.write != 0) << 7 | performed << 8 |
                       committed << 9 | waited << 10 | hint << 11;
  const void* name =
      before.is_operation ? static_cast<const Operation&>(before).name : nullptr;
  return alike_
      .try_emplace({access.space, access.at, record.at, int64_t(reinterpret_cast<intptr_t>(name)),
                    bits},
                   int32_t(alike_.size()))
      .first->second;
}

// What is known of a conflict, besides that nothing orders it (observe.unacquired).
int Races::hint_of(const Region& region, const Access& access, Code code, int32_t granule) const {
  if (access.space != SPACE_TENSOR) {
    if (!region.lines || access.write || access.level) return 0;
    return region.lines->is_stale(region.start + (int64_t(granule) << region.shift())) ? STALE : 0;
  }
  const Record& record = records_.of(code);
  if (!access.operation || !record.who->is_operation) return 0;
  const auto& before = static_cast<const Operation&>(*record.who);
  if (!before.waits) return 0;
  const Operation& now = *access.operation;
  bool fenced = true;
  for (int lane = 0; lane < LANES; ++lane) {
    const Time waited = (*before.waits)[size_t(lane)];
    const int column = before.issuer_column + lane;
    const bool own = now.number == before.number && now.issuer_column == column;
    if (waited == NEVER || !(own || time_at(now.clock.rows[SAME], column) > waited)) return 0;
    fenced &= own || time_at(now.clock.rows[ORDERED], column) > waited;
  }
  return WAITED | (fenced ? FENCED_BEFORE : 0);
}

Found Races::tell(int event, const Region& region, const Access& access,
                  const std::vector<Code>& codes, const std::vector<int32_t>& granules,
                  int hint, int swizzle, int written) {
  if (silent_) return {};
  current_ = &access;
  std::vector<int32_t> numbers, hints;
  if (event == CONFLICT) {
    for (size_t i = 0; i < codes.size(); ++i) {
      hints.push_back(hint ? hint : hint_of(region, access, codes[i], granules[i]));
      numbers.push_back(alike(access, codes[i], hints.back()));
    }
  }
  const auto& seen = hint == ANNOUNCED ? flags_ : relaxed_;
  const auto relaxed = seen.find(access.who->cta);
  Found found{event,
                    access.space,
                    region.name,
                    region.shift(),
                    access.write,
                    access.at,
                    access.bits,
                    int(codes.size()),
                    codes.data(),
                    granules.data(),
                    access.who,
                    access.asynchronous,
                    access.who->cluster->columns,
                    access.who->number,
                    numbers.data(),
                    hints.data(),
                    relaxed == seen.end() ? -1 : relaxed->second,
                    0,
                    0,
                    swizzle,
                    written};
  silent_ = report_(user_, &found) != 0;
  current_ = nullptr;
  return found;
}

const Clock* Races::known(int32_t cluster) const {
  if (!current_) return nullptr;
  if (cluster == current_->who->cluster->number) return current_->clock;
  return current_->known ? current_->known->find(cluster) : nullptr;
}

// `buffer`: whose granules have no numbers, -1 where records have none.
void Races::tell_full(int buffer, int shift) {
  Found found{};
  found.event = FULL;
  found.region = buffer;
  found.shift = shift;
  silent_ = true;
  report_(user_, &found);
}

}  // namespace emu::races
