// What asynchronous operations access (observe.access_check), and the columns that they have.
#include <algorithm>

#include "races.hpp"

namespace emu::races {
namespace {

Access access_of(Operation& operation, int space, int size, bool write, int level) {
  return {&operation,
          &operation,
          operation.asynchronous,
          &operation.clock,
          operation.known.get(),
          space,
          size,
          write,
          level,
          operation.at,
          operation.bits,
          0,
          NEVER};
}

}  // namespace

void Races::op_accessed(int64_t op, int space, const int64_t* starts, size_t count, int size,
                        bool write, int swizzle) {
  if (!count || space == SPACE_LOCAL) return;
  guarded([&] { look(*operations_[size_t(op)], space, starts, count, size, write, swizzle); });
}

void Races::look(Operation& operation, int space, const int64_t* starts, size_t count, int size,
                 bool write, int swizzle) {
  if (operation.by_lanes) return by_lanes(operation, space, starts, count, size, write);
  const Access access = access_of(operation, space, size, write, write ? operation.level : 0);
  const int record = record_of(access, operation.column, operation.time + write);
  if (write && space == SPACE_SHARED) operation.swizzle = swizzle;
  regions_.of(space, starts, count, size, shares_);
  for (const Share& share : shares_) {
    Region& region = *share.region;
    if (is_enough(region.wrong, wrong_in_run_)) continue;
    std::vector<int64_t> some;
    for (const uint32_t place : share.places) some.push_back(starts[place]);
    const int64_t* mine = share.all ? starts : some.data();
    const size_t each = share.all ? count : some.size();
    if (region.unwritten) {
      if (!write) {
        remember(*region.unwritten, record, size, false, 0, mine, each);
        continue;
      }
      recall(region);
    }
    const Runs runs = region.runs(mine, each, size, list_);
    if (swizzle && !write && space == SPACE_SHARED) check_swizzle(region, access, mine[0], swizzle);
    if (plainly(region, access, runs, record)) continue;
    const Where where = region.run(mine, each, size, taken_);
    check(region, access, where, {record << LANE_BITS, nullptr}, {operation.column, nullptr},
          nullptr);
  }
}

void Races::check_swizzle(const Region& region, const Access& access, int64_t flat, int swizzle) {
  const int32_t granule = int32_t((flat - region.start) >> region.shift());
  const Code code = region.written_at(size_t(granule));
  const Record& record = records_.of(code);
  if (!code || !record.who || !record.who->is_operation) return;
  const int written = static_cast<const Operation&>(*record.who).swizzle;
  if (!written || written == swizzle ||
      !swizzles_told_.insert({access.at, record.at, access.who->cta}).second)
    return;
  tell(SWIZZLE, region, access, {code}, {granule}, 0, swizzle, written);
}

// Enters the access of an operation, if it is nothing special.
bool Races::plainly(Region& region, const Access& access, Runs runs, int record,
                    const Piece* piece) {
  if (access.level) return false;
  std::set<Code> none;
  const OrderCheck order(records_, &access, piece, 0, several_,
                         watches(region, access) ? &none : nullptr);
  const Code code = record << LANE_BITS;
  return access.write ? region.write_plainly(runs, code, access.who->column, order)
                      : region.read_plainly(runs, code, access.who->column, order);
}

void Races::by_lanes(Operation& operation, int space, const int64_t* starts, size_t count, int size,
                     bool write) {
  Warp& warp = *warps_[size_t(operation.number)];
  // Lanes that write the same bytes race: look at one after the other.
  std::vector<int64_t> ordered(starts, starts + count);
  std::sort(ordered.begin(), ordered.end());
  bool apart = false;
  for (size_t i = 1; write && i < count; ++i) apart |= ordered[i] - ordered[i - 1] < size;
  auto look = [&](Mask part, const ViewRef& view) {
    int64_t places[LANES];
    int32_t lanes[LANES];
    size_t some = 0, next = 0;
    for (Mask left = operation.bits; left && next < count; left &= left - 1, ++next) {
      const int lane = __builtin_ctz(left);
      if (!(part >> lane & 1)) continue;
      places[some] = starts[next];
      lanes[some++] = lane;
    }
    if (!some) return;
    const Access access{&operation, &operation, false,        &warp.mine(view), view->known.get(),
                        space,      size,       write,        0,                operation.at,
                        part,       view->copied, operation.issuer_time};
    const int record = record_of(access, operation.column, operation.time + write);
    by_threads(access, warp, record, places, lanes, some, false);
  };
  for (const Group& group : operation.parts) {
    if (!apart) {
      look(group.lanes, group.view);
      continue;
    }
    for (Mask left = group.lanes; left; left &= left - 1) look(left & -left, group.view);
  }
}

void Races::op_tensor(int64_t op, const Piece& piece, bool write) {
  Operation& operation = *operations_[size_t(op)];
  Region& region = regions_.tensor_of(piece[0]);
  if (is_enough(region.wrong, wrong_in_run_)) return;
  const Access access = access_of(operation, SPACE_TENSOR, 0, write, 0);
  guarded([&] {
    const int record = record_of(access, operation.column, operation.time + write);
    if (plainly(region, access, region.runs(piece), record, &piece)) return;
    check(region, access, region.run(piece, taken_), {record << LANE_BITS, nullptr},
          {operation.column, nullptr}, &piece);
  });
  auto& pieces = operation.pieces;
  if (write && std::find(pieces.begin(), pieces.end(), piece) == pieces.end())
    pieces.push_back(piece);
}

// A column for an operation. What operations did to global memory keeps none: a grid writes all of
// its output. Who knows a later operation of the column seems to know the old one too, so that a
// race over its bytes may be missed; none is invented.
int Races::column_of(Cluster& cluster) {
  if (cluster.free.empty()) {
    std::vector<bool> in_use(size_t(cluster.columns));
    auto look = [&](const Zeros<Code>& codes) {
      Code last = 0;
      for (size_t i = 0; i < codes.size(); ++i) {
        const Code code = codes[i];
        if (!code || code == last) continue;
        last = code;
        const Record& record = records_.of(code);
        if (record.cluster == cluster.number) in_use[size_t(record.column)] = true;
      }
    };
    for (const Region* region : regions_.of_wave()) {
      look(region->writes());
      look(region->reads());
    }
    cluster.release([&](const Operation& operation) {
      return operation.done && !in_use[size_t(operation.column)];
    });
    // Half free at least, or this search would come again at once.
    if (cluster.free.size() < cluster.taken.size() / 2) {
      size_t done = 0;
      for (const Operation* operation : cluster.taken) done += operation->done;
      if (cluster.columns < MOST_OPERATIONS || !done) {
        cluster.grow();
      } else {  // what the oldest did may pass for known: a race may be missed, none invented
        size_t left = done / 2 + 1;
        cluster.release([&](const Operation& operation) {
          if (!operation.done || !left) return false;
          --left;
          return true;
        });
      }
    }
  }
  const int column = cluster.free.back();
  cluster.free.pop_back();
  return column;
}

// Whether operations of other CTAs are told that threads alone order before it.
bool Races::watches(const Region& region, const Access& access) const {
  return access.asynchronous && access.space != SPACE_TENSOR && pairs_ &&
         !is_enough(region.advised, advised_in_run_);
}

}  // namespace emu::races
