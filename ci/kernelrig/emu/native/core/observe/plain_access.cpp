// Accesses by operations where one look shows that all before them is ordered: nearly all are. They
// come to the same as those of entries.cpp, at a few instructions for many granules.
//
// How it works. Granules lie in runs, and what is noted of a run is mostly one code: a run is
// compared with one code as a whole, and each code that turns up is looked at once. Nothing is
// changed before all is known to be plain.
#include <algorithm>

#include "shadow.hpp"

namespace emu::races {
namespace {

constexpr size_t STEP = 16;  // elements that the compiler compares at once

bool all_are(const Code* from, size_t count, Code code) {
  size_t i = 0;
  for (; i + STEP <= count; i += STEP) {
    Code other = 0;
    for (size_t j = 0; j < STEP; ++j) other |= from[i + j] ^ code;
    if (other) return false;
  }
  Code other = 0;
  for (; i < count; ++i) other |= from[i] ^ code;
  return !other;
}

// What is known of codes for one access: a few come again and again, or the lanes of a few records.
class Plain {
 public:
  Plain(const OrderCheck& check, int own) : check_(check), own_(own) {}
  // Whether it is ordered before, and there is nothing to advise of.
  bool is(Code code) { return !code || look(code).plain; }
  bool orders(Code code) { return !code || look(code).ordered; }

 private:
  static constexpr size_t KNOWN = 16;
  struct Known {
    Code code = 0;
    bool settled = false;  // and so are all codes of the record
    bool ordered = true, plain = true;
  };
  const Known& look(Code code) {
    const int number = code >> LANE_BITS;
    Known& known = known_[size_t(number) % KNOWN];
    if (known.code == code || (known.settled && known.code >> LANE_BITS == number)) return known;
    const bool settled = check_.settles(number);
    const bool ordered = settled || check_.orders(code, own_);
    return known = {code, settled, ordered, ordered && !(settled && check_.advises(number))};
  }
  const OrderCheck& check_;
  int own_;
  Known known_[KNOWN];
};

}  // namespace

bool OrderCheck::orders(Code code, int own) const {
  const uint8_t bad = 1;
  return !wrong(code, own) || excused(code, &code, 1, {own, nullptr}, &bad);
}

Runs Region::runs(const int64_t* starts, size_t count, int bytes, std::vector<int32_t>& list) {
  const auto granules = [&]() -> Runs {
    const size_t each = size_t(fit(starts, count, bytes, false));
    list.resize(count);
    bool dense = true;
    for (size_t i = 0; i < count; ++i) {
      list[i] = int32_t((starts[i] - start) >> shift());
      dense &= list[i] == list[0] + int32_t(i * each);
    }
    if (dense) return {list.data(), 1, count * each};
    return {list.data(), count, each};
  };
  if (!partition_) return granules();
  const Runs runs = partition_->known(starts, count, start, bytes, granules);
  follow();
  return runs;
}

bool Region::write_plainly(Runs runs, Code code, int own, const OrderCheck& check) {
  if (non_coherent.size()) return false;
  if (readers && readers->used && !readers->known(runs, check)) return false;
  Plain plain(check, own);
  bool noted = false;
  for (size_t n = 0; n < runs.count; ++n) {
    const size_t first = size_t(runs.first[n]), each = runs.length(n);
    const Code *written = writes_.data() + first, *read = reads_.data() + first * slots_;
    // Reads: all must be ordered. One code is in the first slots of a run, or one a granule.
    bool unread = all_are(read, each * slots_, 0);
    for (size_t i = 0; !unread && i < each * slots_; ++i)
      if (!plain.is(read[i])) return false;
    noted |= !unread;
    // Earlier writes: too, where no weak read stands between.
    if (plain.is(written[0]) && all_are(written, each, written[0])) continue;
    for (size_t i = 0; i < each; ++i) {
      if (plain.is(written[i])) continue;
      if (readers && readers->used && readers->has(first + i)) continue;
      if (is_unread(read + i * slots_, written[i])) return false;
    }
  }
  if (readers && readers->used) readers->forget(runs);
  for (size_t n = 0; n < runs.count; ++n) {
    const size_t first = size_t(runs.first[n]), each = runs.length(n);
    std::fill_n(writes_.data() + first, each, code);
    if (noted) std::fill_n(reads_.data() + first * slots_, each * slots_, 0);
  }
  return true;
}

// Reads that go on side by side, as those of two warpgroups of one tile, are noted alike for granule
// after granule: a row like the one before it takes the same slot. To note a granule twice changes
// nothing, so that what is done when a row turns out full may be done again.
bool Region::read_plainly(Runs runs, Code code, int own, const OrderCheck& check) {
  if (strong_) return false;
  Plain plain(check, own);
  for (size_t n = 0; n < runs.count; ++n) {
    const Code* written = writes_.data() + size_t(runs.first[n]);
    const size_t each = runs.length(n);
    if (plain.is(written[0]) && all_are(written, each, written[0])) continue;
    for (size_t i = 0; i < each; ++i)
      if (!plain.is(written[i])) return false;
  }
  Code last[MOST_READERS] = {};  // the row before, as it was
  size_t slot = 0;               // the one that it had free
  for (size_t n = 0; n < runs.count; ++n) {
    Code* row = reads_.data() + size_t(runs.first[n]) * slots_;
    const size_t each = runs.length(n);
    for (size_t i = 0; i < each; ++i, row += slots_) {
      Code other = 0;
      for (size_t j = 0; j < slots_; ++j) other |= row[j] ^ last[j];
      if (other) {
        slot = 0;
        while (slot < slots_ && row[slot] && !replaced(row[slot], code, plain.orders(row[slot])))
          ++slot;
        if (slot == slots_) return false;
        std::copy_n(row, slots_, last);
      }
      row[slot] = code;
    }
  }
  return true;
}

bool Readers::known(Runs runs, const OrderCheck& check) const {
  for (size_t number = 0; number < rows_.size(); ++number) {
    const Row& row = rows_[number];
    Time latest = 0;
    for (size_t n = 0; row.used && n < runs.count; ++n) {
      const size_t first = size_t(runs.first[n]), each = runs.length(n);
      if (first >= row.high || first + each <= row.low) continue;
      const Read* from = row.reads.data() + first;
      for (size_t i = 0; i < each; ++i) latest = std::max(latest, from[i].time);
    }
    if (latest && !check.knows(columns[number], latest)) return false;
  }
  return true;
}

bool Readers::has(size_t granule) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [granule](const Row& row) { return row.used && row.reads[granule].time; });
}

void Readers::forget(Runs runs) {
  for (Row& row : rows_)
    for (size_t n = 0; row.used && n < runs.count; ++n) {
      const size_t first = size_t(runs.first[n]), each = runs.length(n);
      if (first < row.high && first + each > row.low)
        for (size_t i = first; i < first + each; ++i) row.reads[i].time = 0;
    }
}

}  // namespace emu::races
