// Every access of a run, checked against the shadow memory and then entered into it: with
// operation_accesses and conflicts the half of `Races` that kernelrig.emu.observe.access_check is.
#include <algorithm>

#include "races.hpp"

namespace emu::races {

// Threads. ---------------------------------------------------------------------------------------
void Races::accessed(const Threads* threads, size_t count, int at, int space, const int64_t* flat,
                     const AccessForm& how) {
  guarded([&] { look(threads, count, at, space, flat, how); });
}

void Races::look(const Threads* threads, size_t count, int at, int space, const int64_t* first,
                 const AccessForm& how) {
  if (space == SPACE_LOCAL) return;
  // The level is how far a strong access reaches; weak ones have none.
  const int level = how.sem == WEAK ? int(LEVEL_NONE)
                    : how.sem == VOLATILE ? int(LEVEL_GPU) : how.level;
  const int64_t* flat = first;
  strong_.clear();
  // What comes before a strong write is told apart from the write itself by its time.
  const bool writes = how.write && space == SPACE_GLOBAL && level >= LEVEL_GPU;
  stores_ |= writes && !how.atomic;
  Variables& variables = variables_[space];
  for (size_t row = 0; row < count; ++row, flat += LANES) {
    const Mask bits = threads[row].lanes;
    if (!bits) continue;
    Warp& warp = *warps_[size_t(threads[row].warp)];
    if (writes && stores_) warp.tick();
    // Lanes with different knowledge are different threads to the check.
    for_parts(warp, bits, [&](Mask part, const ViewRef& view) {
      int64_t places[LANES];
      int32_t lanes[LANES];
      size_t lane_count = 0;
      for (Mask left = part; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        places[lane_count] = flat[lane];
        lanes[lane_count++] = lane;
      }
      const Access access{&warp, nullptr, false, &warp.mine(view), view->known.get(),
                          space, how.size, how.write, level,        at,
                          part,  view->copied, NEVER, how.write && how.atomic};
      const int record = record_of(access, warp.column, warp.time);
      by_threads(access, warp, record, places, lanes, lane_count, how.non_coherent);
    });
    // A weak write ends the chain of a variable: what a release left there is not read any more (PTX
    // ISA 8.9.2).
    if (!level && how.write && !variables.empty())
      for (Mask left = bits; left; left &= left - 1) variables.erase(flat[__builtin_ctz(left)]);
    if (level && !how.turns) {
      const size_t from = strong_.size();
      for (Mask left = bits; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        auto known = std::find_if(strong_.begin() + ptrdiff_t(from), strong_.end(),
                                  [&](const Strong& each) { return each.flat == flat[lane]; });
        if (known == strong_.end()) known = strong_.insert(known, {&warp, flat[lane], 0});
        known->lanes |= 1u << lane;
      }
    }
  }
  if (how.turn_count) take_turns(threads, first, how);
  if (!strong_.empty()) synchronise(strong_, space, how, level, at);
}

// Who uses which place after whom. Where more than a few share a place, the lanes of a warp go
// together, when its last one does, and twice, so that each knows all of them: who is last would be
// one, and a warp whose lanes all know something else is slow to follow.
void Races::take_turns(const Threads* threads, const int64_t* flat, const AccessForm& how) {
  struct Lanes {
    size_t count = 0;
    Mask together = 0;  // who was before
  };
  std::unordered_map<int64_t, size_t> users;
  std::map<std::pair<int, int64_t>, Lanes> left;  // by row
  // Lanes that go one behind the other mostly share a place: it is looked up once.
  auto users_of = [&, place = int64_t(0), found = (size_t*)nullptr](int64_t of) mutable -> size_t& {
    if (!found || place != of) place = of, found = &users[of];
    return *found;
  };
  auto left_of = [&, row = 0, place = int64_t(0),
                        found = (Lanes*)nullptr](int in, int64_t of) mutable -> Lanes& {
    if (!found || row != in || place != of) row = in, place = of, found = &left[{in, of}];
    return *found;
  };
  for (size_t i = 0; i < how.turn_count; ++i) {
    ++users_of(flat[how.turns[i]]);
    ++left_of(how.turns[i] / LANES, flat[how.turns[i]]).count;
  }
  for (size_t i = 0; i < how.turn_count; ++i) {
    const int row = how.turns[i] / LANES, lane = how.turns[i] % LANES;
    const int64_t place = flat[how.turns[i]];
    Warp* warp = warps_[size_t(threads[row].warp)];
    Lanes& lanes = left_of(row, place);
    --lanes.count;
    if (users_of(place) <= MOST_APART) {
      strong_.push_back({warp, place, 1u << lane});
      continue;
    }
    lanes.together |= 1u << lane;
    if (!lanes.count) strong_.insert(strong_.end(), 2, {warp, place, lanes.together});
  }
}

int Races::record_of(const Access& access, int column, Time time) {
  int& known =
      access.who->records.find({0, access.at, time, access.level, access.size, access.write});
  if (!known) {
    const Actor& who = *access.who;
    const bool asks = access.operation && access.operation->waits;
    const int write = access.atomic ? ATOMIC : access.write;
    known = records_.add({who.cluster->number, column, time, 0, access.asynchronous, access.at,
                          who.cta, access.level, write, access.size, 0, asks, access.who});
  }
  return known;
}

void Races::by_threads(const Access& access, Warp& warp, int record, const int64_t* flat,
                       const int32_t* lanes, size_t count, bool non_coherent) {
  regions_.of(access.space, flat, count, access.size, shares_);
  for (const Share& share : shares_) {
    Region& region = *share.region;
    if (is_enough(region.wrong, wrong_in_run_)) continue;
    int64_t places[LANES];
    int32_t numbers[LANES];
    const int64_t* mine = flat;
    const int32_t* own = lanes;
    size_t some = count;
    if (!share.all) {
      some = share.places.size();
      for (size_t i = 0; i < some; ++i) {
        places[i] = flat[share.places[i]];
        numbers[i] = lanes[share.places[i]];
      }
      mine = places;
      own = numbers;
    }
    // Inputs are read by everybody and never written: remember the reads, check them if a write
    // comes after all.
    if (region.unwritten) {
      if (!access.write) {
        Mask bits = 0;
        for (size_t i = 0; i < some; ++i) bits |= 1u << own[i];
        remember(*region.unwritten, record, access.size, non_coherent, bits, mine, some);
        continue;
      }
      recall(region);
    }
    if (region.lines && access.write) {
      region.lines->written(mine, some, access.who->cta);
    } else if (region.lines && !access.level) {
      region.lines->read(mine, some, access.who->cta);
    }
    if (plainly_read(region, access, warp, record, mine, own, some)) continue;
    codes_of(region, access, record, mine, own, some);
    if (non_coherent) {
      check_non_coherent(region, access);
      continue;
    }
    for (int32_t& column : own_)
      if (column >= 0) column += warp.column;
    check(region, access, taken(), {0, codes_.data()}, {0, own_.data()}, nullptr,
          access.space == SPACE_GLOBAL && some == 1 ? mine[0] : -1);
  }
}

// Checks and remembers a read the cheap way, if it is nothing special.
bool Races::plainly_read(Region& region, const Access& access, Warp& warp, int record,
                         const int64_t* flat, const int32_t* lanes, size_t count) {
  if (!region.readers || access.write || access.level || region.strong() || access.operation)
    return false;
  Readers& readers = *region.readers;
  const int row = warp.number - readers.first;
  if (row < 0 || size_t(row) >= readers.columns.size()) return false;
  const bool one = count > 1 && std::all_of(flat, flat + count,
                                            [flat](int64_t each) { return each == flat[0]; });
  const size_t places = one ? 1 : count;
  region.granules(flat, places, access.size, taken_);
  const Where where = taken();
  own_.resize(where.count);
  bits_.resize(where.count);
  for (size_t i = 0; i < where.count; ++i) {
    const int lane = lanes[taken_.lane(i)];
    own_[i] = one ? -1 : lane + warp.column;
    bits_[i] = one ? access.bits : 1u << lane;
  }
  const OrderCheck order(records_, &access, nullptr, 0, false, nullptr);
  bad_.resize(where.count);
  const Code* written = Region::gather(region.writes(), where, codes_);
  if (order.unordered(written, where.count, {0, own_.data()}, bad_.data())) return false;
  bool apart = true;
  for (size_t i = 1; i < places; ++i) apart &= flat[i] - flat[i - 1] >= access.size;
  return readers.note(warp.number, where, bits_.data(), warp.time, record, order, apart);
}

// Somebody writes after all: puts the reads that were remembered into the shadow.
void Races::recall(Region& region) {
  const std::deque<Remembered> remembered = std::move(*region.unwritten);
  region.unwritten.reset();
  const OrderCheck unordered(records_);
  for (const Remembered& read : remembered) {
    const std::vector<int64_t> flat = places_of(read);
    Actor* who = records_.all[size_t(read.record)].who;
    if (!read.lanes) {
      const Where where = region.run(flat.data(), flat.size(), read.size, taken_);
      region.note_read(where, {read.record << LANE_BITS, nullptr}, {who->column, nullptr},
                       unordered);
      continue;
    }
    if (region.lines && !records_.all[size_t(read.record)].level)
      region.lines->read(flat.data(), flat.size(), who->cta);
    std::vector<int32_t> lanes;
    for (Mask left = read.lanes; left; left &= left - 1) lanes.push_back(__builtin_ctz(left));
    Access access{};
    access.who = who;
    access.size = read.size;
    access.bits = read.lanes;
    codes_of(region, access, read.record, flat.data(), lanes.data(), flat.size());
    if (read.non_coherent) {
      note_non_coherent(region);
      continue;
    }
    for (int32_t& column : own_)
      if (column >= 0) column += who->column;
    region.note_read(taken(), {0, codes_.data()}, {0, own_.data()}, unordered);
  }
}

void Races::check_non_coherent(Region& region, const Access& access) {
  std::set<Code> codes;
  for (size_t i = 0; i < taken_.count; ++i)
    if (const Code code = region.writes()[size_t(taken_.granule(i))]) codes.insert(code);
  for (const Code code : codes) {
    add_wrong(region, 1);
    tell(READ_NON_COHERENT, region, access, {code}, {taken_.place(0)});
  }
  note_non_coherent(region);
}

void Races::note_non_coherent(Region& region) {
  if (!region.non_coherent.size()) region.non_coherent = Zeros<Code>(region.writes().size());
  for (size_t i = 0; i < taken_.count; ++i)
    region.non_coherent[size_t(taken_.granule(i))] = codes_[i];
}

// Threads and operations. ------------------------------------------------------------------------
void Races::check(Region& region, const Access& access, Where where, Codes codes, Own own,
                  const Piece* piece, int64_t one) {
  std::set<Code> advice;
  const bool watched = watches(region, access);
  const OrderCheck order(records_, &access, piece, access.level, several_,
                         watched ? &advice : nullptr);
  // `strict` decides what stays in the shadow, `order` what is a race: of strong accesses, and of
  // operations that are ordered by threads only, both are different.
  const OrderCheck strict(records_, &access, piece, 0, several_, nullptr);
  const auto place = [&](int element) {
    return where.list ? taken_.place(size_t(element)) : where.start + element;
  };
  wrong_.clear();
  // What may have to stay beside the write, if that is of a thread.
  const bool kept = access.write && !access.level && !access.operation;
  if (!access.write) {
    region.read(where, codes, own, order, strict, wrong_);
  } else if (access.level) {
    region.write_strongly(where, codes, own, order, strict, wrong_);
  } else {
    region.write(where, codes, own, order, wrong_, kept ? &before_ : nullptr);
  }
  if (one >= 0 && !access.operation)
    wrong_.erase(std::remove_if(wrong_.begin(), wrong_.end(),
                                [&](const auto& each) {
                                  return chains_.is_observed(access, one, each.first);
                                }),
                 wrong_.end());
  if (!wrong_.empty()) {
    std::vector<Code> before;
    std::vector<int32_t> granules;
    for (const auto& [code, element] : wrong_) {
      before.push_back(code);
      granules.push_back(place(element));
    }
    const Found answered = tell(CONFLICT, region, access, before, granules);
    add_wrong(region, wrong_.size() - size_t(answered.warnings));
    // Who is ordered behind the later write alone races with the earlier one: where that is no error
    // by itself, it must not be forgotten.
    if (kept && answered.of_one_value) region.keep(where, before_, own, order);
  }
  if (!access.write && access.level && !access.operation) {
    check_lanes(region, access, where, own, strict);
    if (stores_ && access.level >= LEVEL_GPU) check_announced(region, access, where);
  }
  if (!advice.empty()) {
    region.advised += int64_t(advice.size());
    advised_in_run_ += int64_t(advice.size());
    tell(ADVICE, region, access, {advice.begin(), advice.end()}, {});
  }
  if (!access.write || !region.non_coherent.size()) return;
  std::map<Code, bool> read;  // and whether another thread than the one that writes has loaded it
  for (size_t i = 0; i < where.count; ++i) {
    const Code code = region.non_coherent[where[i]];
    if (!code) continue;
    const Record& record = records_.of(code);
    const bool itself = !record.mask && record.cluster == access.who->cluster->number &&
                        record.column + (code & (LANES - 1)) == own.of(i);
    read[code] |= !itself;
  }
  for (const auto& [code, others] : read) {
    const Found answered = tell(others ? WROTE_NON_COHERENT : WROTE_BEHIND_NON_COHERENT, region,
                                access, {code}, {place(0)});
    add_wrong(region, size_t(1 - answered.warnings));
  }
}

bool Races::is_announced(const Access& access, Code code) const {
  const Record& record = records_.of(code);
  // A store, no atomic and no operation, of another CTA.
  if (record.write != 1 || record.asynchronous || record.level < LEVEL_GPU ||
      record.cta == access.who->cta)
    return false;
  const bool own = record.cluster == access.who->cluster->number;
  const Clock* clock = own ? access.clock : access.known ? access.known->find(record.cluster) : nullptr;
  if (!clock) return false;
  bool followed = true, ordered = true;
  for (Mask left = records_.lanes(code); left; left &= left - 1) {
    const int column = record.column + __builtin_ctz(left);
    followed &= time_at(clock->rows[FOLLOWED], column) >= record.time;
    ordered &= time_at(clock->rows[SAME], column) >= record.time;
  }
  return followed && !ordered;
}

void Races::check_lanes(Region& region, const Access& access, Where where, Own own,
                        const OrderCheck& strict) {
  bad_.resize(where.count);
  const std::vector<Code> written = [&] {
    const Code* codes = Region::gather(region.writes(), where, codes_);
    return std::vector<Code>(codes, codes + where.count);
  }();
  if (!strict.unordered(written.data(), where.count, own, bad_.data())) return;
  std::map<Code, size_t> found;  // the first place of each
  for (size_t i = 0; i < where.count; ++i) {
    if (!bad_[i]) continue;
    const Record& record = records_.of(written[i]);
    if (record.who == access.who && record.write == 1 && record.level) found.try_emplace(written[i], i);
  }
  if (found.empty()) return;
  std::vector<Code> codes;
  std::vector<int32_t> granules;
  for (const auto& [code, i] : found) {
    codes.push_back(code);
    granules.push_back(where.list ? taken_.place(i) : where.start + int32_t(i));
  }
  const Found answered = tell(CONFLICT, region, access, codes, granules, OF_A_WARP);
  add_wrong(region, codes.size() - size_t(answered.warnings));
}

void Races::check_announced(Region& region, const Access& access, Where where) {
  if (access.space != SPACE_GLOBAL) return;
  std::map<Code, int32_t> found;  // the first granule of each
  for (size_t i = 0; i < where.count; ++i) {
    const Code code = region.writes()[size_t(where[i])];
    if (code && !found.count(code) && is_announced(access, code)) found[code] = int32_t(where[i]);
  }
  if (found.empty()) return;
  std::vector<Code> codes;
  std::vector<int32_t> granules;
  for (const auto& [code, granule] : found) {
    codes.push_back(code);
    granules.push_back(granule);
  }
  const Found answered = tell(CONFLICT, region, access, codes, granules, ANNOUNCED);
  add_wrong(region, codes.size() - size_t(answered.warnings));
}

}  // namespace emu::races
