#include "order_check.hpp"

#include <algorithm>

namespace emu::races {

namespace {
// Whether a tcgen05.ld or st of a warp is over for `now`: a lane waits for its own part, and the
// fence::before_thread_sync behind it publishes it to other threads (PTX ISA 9.7.16.6.4).
bool waited_for(const Operation& before, const Operation& now) {
  const auto& waits = *before.waits;
  const bool own = now.number == before.number;
  const int first = before.issuer_column;
  for (int lane = 0; lane < LANES; ++lane) {
    const bool over = waits[size_t(lane)] < NEVER;
    bool known = time_at(now.clock.rows[TENSOR], first + lane) > waits[size_t(lane)];
    if (own && (now.waits || now.issuer_column == first + lane)) known = over;
    if (!known) return false;
  }
  return true;
}

// Whether tcgen05 operations run in the order of their issue (PTX ISA 9.7.16.6.2): of two mma those
// onto the same accumulator in the same shape.
bool pipelined(const Operation& before, const Operation& now, const Piece* piece) {
  static const std::pair<Kind, Kind> in_order[] = {{Kind::MMA, Kind::MMA},
                                                   {Kind::CP, Kind::MMA},
                                                   {Kind::SHIFT, Kind::MMA},
                                                   {Kind::MMA, Kind::SHIFT},
                                                   {Kind::SHIFT, Kind::CP}};
  const std::pair<Kind, Kind> kinds{before.name->kind, now.name->kind};
  if (std::find(std::begin(in_order), std::end(in_order), kinds) == std::end(in_order) ||
      time_at(now.clock.rows[TENSOR], before.issuer_column) < before.issuer_time)
    return false;
  if (kinds != in_order[0]) return true;
  return piece &&
         std::find(before.pieces.begin(), before.pieces.end(), *piece) != before.pieces.end();
}
}  // namespace

OrderCheck::OrderCheck(const Records& records, const Access* access, const Piece* piece, int level,
                       bool several, std::set<Code>* watch)
    : records_(records), access_(access), piece_(piece), level_(level),
      several_(several && access->space == SPACE_GLOBAL), watch_(watch) {
  const int cross = access->space == SPACE_SHARED ? SHARED
                    : access->space == SPACE_GLOBAL ? GLOBAL
                                                    : TENSOR;
  const int same = access->space == SPACE_TENSOR ? TENSOR : SAME;
  rows_[0] = access->asynchronous ? cross : same;
  rows_[1] = access->asynchronous ? same : cross;
}

bool OrderCheck::settled(int number) const {
  if (!settles(number)) return false;
  if (advises(number)) watch_->insert(Code(number) << LANE_BITS);
  return true;
}

bool OrderCheck::advises(int number) const {
  if (!watch_ || !number) return false;
  const Record& record = records_.all[size_t(number)];
  return record.asynchronous && record.write && record.cta != access_->who->cta &&
         access_->who->cluster->counts_operations(record.column) &&
         time_at(access_->clock->rows[DIRECT], record.column) < record.time;
}

bool OrderCheck::settles(int number) const {
  if (!number) return true;
  if (!access_) return false;
  const Record& record = records_.all[size_t(number)];
  const Cluster& cluster = *access_->who->cluster;
  if (record.asks || record.cluster != cluster.number) return false;
  // Same proxy or the other one: that decides which row of the clock counts.
  const RowRef& row = access_->clock->rows[rows_[record.asynchronous]];
  if (!cluster.counts_operations(record.column)) return least_of_warp(row, record.column) >= record.time;
  // An operation: one column, one time.
  return time_at(row, record.column) >= record.time;
}

bool OrderCheck::knows(int column, Time time) const {
  return access_ && least_of_warp(access_->clock->rows[rows_[0]], column) >= time;
}

bool OrderCheck::unordered(const Code* codes, size_t count, Own own, uint8_t* bad) const {
  // Most accesses meet one record, or a few, all of them settled: each is looked at once in a run.
  int last = 0;
  size_t settled_by = 0;
  for (; settled_by < count; ++settled_by) {
    const int number = codes[settled_by] >> LANE_BITS;
    if (!number || number == last) continue;
    if (!settled(number)) break;
    last = number;
  }
  if (settled_by == count) return false;
  last = 0;
  bool fine = true, any = false;
  for (size_t i = 0; i < count; ++i) {
    const Code code = codes[i];
    const int number = code >> LANE_BITS;
    if (number != last) {
      last = number;
      fine = settled(number);
    }
    // An operation meets one code again and again, and is one thread to all of them.
    if (i && !own.each && code == codes[i - 1]) {
      bad[i] = bad[i - 1];
      continue;
    }
    bad[i] = !fine && number && (!access_ || wrong(code, own.of(i)));
    any |= bad[i];
  }
  if (!any || !access_) return any;
  // Few codes get here: what their times did not settle is looked at closer.
  static thread_local std::vector<Code> few;
  few.clear();
  for (size_t i = 0; i < count; ++i)
    if (bad[i] && (few.empty() || few.back() != codes[i])) few.push_back(codes[i]);
  std::sort(few.begin(), few.end());
  few.erase(std::unique(few.begin(), few.end()), few.end());
  for (const Code code : few) {
    if (!excused(code, codes, count, own, bad)) continue;
    for (size_t i = 0; i < count; ++i)
      if (codes[i] == code) bad[i] = 0;
  }
  return std::any_of(bad, bad + count, [](uint8_t each) { return each; });
}

// Whether a time is missing, for the one lane that the code names.
bool OrderCheck::wrong(Code code, int own) const {
  const Record& record = records_.of(code);
  const int column = record.column + (code & (LANES - 1));
  // Columns count within a cluster: another cluster's need a closer look.
  const bool foreign = several_ && record.cluster != access_->who->cluster->number;
  if (!foreign) {
    if (time_at(access_->clock->rows[rows_[record.asynchronous]], column) >= record.need)
      return false;
    // A thread is in order with itself, within a proxy (program order, PTX ISA 8.9.1).
    const bool program = column == own && bool(record.asynchronous) == access_->asynchronous &&
                         record.time <= access_->issued;
    const bool waited = own >= 0 && column == own + access_->who->cluster->copies &&
                        record.time <= access_->copied;
    if ((program || waited) && !record.mask) return false;
  }
  return !(level_ && morally_strong(record));
}

// Whether it races with no strong access of this level: strong, of the same proxy and bytes, and
// scopes that include each other (PTX ISA 8.7).
bool OrderCheck::morally_strong(const Record& record) const {
  // How far both scopes must reach to include each other.
  const Actor& who = *access_->who;
  const int relation = record.cta == who.cta                     ? LEVEL_CTA
                       : record.cluster == who.cluster->number ? LEVEL_CLUSTER
                                                                 : LEVEL_GPU;
  return record.level >= relation && level_ >= relation &&
         bool(record.asynchronous) == access_->asynchronous &&
         (record.size == access_->size || record.asynchronous);
}

// Looks closer at one access: of several lanes, of another cluster, of tensor memory.
bool OrderCheck::excused(Code code, const Code* codes, size_t count, Own own,
                         const uint8_t* bad) const {
  const Record& record = records_.of(code);
  // Tensor memory is ordered by rules of its own, not by times alone (PTX ISA 9.7.16.6).
  if (access_->space == SPACE_TENSOR) {
    const auto& before = static_cast<const Operation&>(*record.who);
    return before.waits ? waited_for(before, *access_->operation)
                        : pipelined(before, *access_->operation, piece_);
  }
  const bool foreign = record.cluster != access_->who->cluster->number;
  if (!foreign && !record.mask) return false;
  const Clock* clock = access_->clock;
  if (foreign) clock = access_->known ? access_->known->find(record.cluster) : nullptr;
  if (!clock) return false;
  const RowRef& row = clock->rows[rows_[record.asynchronous]];
  int missing = -1;  // the column of the one lane whose time is not known
  for (Mask left = records_.lanes(code); left; left &= left - 1) {
    const int column = record.column + __builtin_ctz(left);
    if (time_at(row, column) >= record.time) continue;
    if (missing >= 0) return false;
    missing = column;
  }
  if (missing < 0) return true;
  // An access of several lanes together: the one that accesses again is in order with itself.
  if (foreign || bool(record.asynchronous) != access_->asynchronous) return false;
  int itself = -1;
  bool first = true;
  for (size_t i = 0; i < count; ++i) {
    if (!bad[i] || codes[i] != code) continue;
    if (!first && itself != own.of(i)) return false;
    itself = own.of(i);
    first = false;
  }
  // Of what lanes copied each for itself, one is in order with what it has waited for.
  const bool copied = record.who->is_operation;
  if (record.time > (copied ? access_->copied : access_->issued)) return false;
  return missing == (copied ? itself + access_->who->cluster->copies : itself);
}

}  // namespace emu::races
