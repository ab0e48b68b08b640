// Writes and reads: each is checked against what stands in the shadow of its granules, and entered.
#include <algorithm>
#include <map>

#include "shadow.hpp"

namespace emu::races {

namespace {
// Appends each code that is marked, with the place where it is first; `each` codes are of a place.
void collect(const Code* codes, size_t count, const uint8_t* bad, size_t each, Wrong& wrong) {
  std::map<Code, int> first;
  for (size_t i = 0; i < count; ++i)
    if (bad[i]) first.emplace(codes[i], int(i / each));
  wrong.insert(wrong.end(), first.begin(), first.end());
}
}  // namespace

// Writes. ----------------------------------------------------------------------------------------
// Where a granule has been read since, a write before is ordered by way of that read: a completion
// says nothing of what came before its operation, but order is transitive. A strong read may itself
// be unordered, and proves nothing.
void Region::write(Where where, Codes codes, Own own, const OrderCheck& check, Wrong& wrong,
                   Before* kept) {
  static thread_local std::vector<uint8_t> read, bad;
  static thread_local Before here;
  static thread_local std::vector<size_t> unread;
  const bool had = plain_reads(where, check, read);
  auto& [rows, copy] = kept ? *kept : here;
  const bool noted = copy_rows(where, rows);
  const Code* old = gather(writes_, where, copy);
  if (kept && old != copy.data()) copy.assign(old, old + where.count);
  if (!noted && !had) {
    // Without reads since, the earlier write itself must be ordered before this one.
    bad.resize(where.count);
    if (check.unordered(old, where.count, own, bad.data()))
      collect(old, where.count, bad.data(), 1, wrong);
    set(writes_, where, codes);
    return;
  }
  if (noted && unordered_rows(rows, own, check, bad))
    collect(rows.data(), rows.size(), bad.data(), slots_, wrong);
  unread.clear();
  for (size_t i = 0; i < where.count; ++i)
    if (!(had && read[i]) && is_unread(rows.data() + i * slots_, old[i])) unread.push_back(i);
  write_unread(where, codes, own, check, unread, wrong);
  if (noted)
    for (size_t i = 0; i < where.count; ++i)
      std::fill_n(reads_.data() + where[i] * slots_, slots_, 0);
}

// Whether no weak read is of a granule since its last write `old`. Such a read was checked against
// that write when it came, so that the write needs no second look. Those of before a strong write
// stay in the shadow: their records are older.
bool Region::is_unread(const Code* row, Code old) const {
  const bool of_any_age = !strong_ || !records_.of(old).level;
  for (size_t slot = 0; slot < slots_; ++slot) {
    const Code code = row[slot];
    if (!code) continue;
    if (strong_ && records_.of(code).level + records_.of(code).write) continue;
    if (of_any_age || code >> LANE_BITS > old >> LANE_BITS) return false;
  }
  return true;
}

void Region::write_unread(Where where, Codes codes, Own own, const OrderCheck& check,
                          const std::vector<size_t>& unread, Wrong& wrong) {
  if (!unread.empty()) {
    static thread_local std::vector<Code> before;
    static thread_local std::vector<int32_t> each;
    static thread_local std::vector<uint8_t> bad;
    before.clear();
    each.clear();
    for (const size_t i : unread) {
      before.push_back(writes_[where[i]]);
      each.push_back(own.of(i));
    }
    bad.resize(before.size());
    if (check.unordered(before.data(), before.size(), {0, each.data()}, bad.data())) {
      const size_t from = wrong.size();
      collect(before.data(), before.size(), bad.data(), 1, wrong);
      for (size_t i = from; i < wrong.size(); ++i)
        wrong[i].second = int(unread[size_t(wrong[i].second)]);
    }
  }
  set(writes_, where, codes);
}

// Says which granules `readers` had; of those unordered it makes codes.
bool Region::plain_reads(Where where, const OrderCheck& check, std::vector<uint8_t>& read) {
  if (!readers || !readers->used) return false;
  static thread_local std::vector<Left> left;
  left.clear();
  read.resize(where.count);
  const bool had = readers->take(where, check, read.data(), left);
  for (const Left& each : left) {
    std::vector<std::pair<int, Mask>> kinds = each.by;  // each once, in their order
    std::sort(kinds.begin(), kinds.end());
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    std::vector<Code> made, codes;
    for (const auto& by : kinds) made.push_back(records_.code_of(by.first, by.second));
    size_t last = 0;
    for (const auto& by : each.by) {
      if (kinds[last] != by)
        last = size_t(std::lower_bound(kinds.begin(), kinds.end(), by) - kinds.begin());
      codes.push_back(made[last]);
    }
    note_read({each.granules.data(), 0, each.granules.size()}, {0, codes.data()}, {0, nullptr},
              OrderCheck(records_));
  }
  return had;
}

// As `write`, but strong accesses that are not ordered before this one stay: they race with none
// another, and with weak ones all of them may. So do weak accesses: the next strong one need not be
// ordered behind this write, but must be behind those.
void Region::write_strongly(Where where, Codes codes, Own own, const OrderCheck& check,
                            const OrderCheck& strict, Wrong& wrong) {
  strong_ = true;
  // The cheap form of reads has no room for strong writes beside them: give it up here.
  std::vector<uint8_t> read;
  plain_reads(where, OrderCheck(records_), read);
  static thread_local Before were;
  write(where, codes, own, check, wrong, &were);
  // `strict` knows no moral strength: what it finds unordered has to stay visible to later weak
  // accesses, though it does not race with this one.
  keep(where, were, own, strict, true);
}

void Region::keep(Where where, Before& before, Own own, const OrderCheck& check, bool weak) {
  strong_ = true;
  auto& [rows, old] = before;
  const auto is_weak = [&](Code code) { return weak && code && !records_.of(code).level; };
  static thread_local std::vector<uint8_t> bad, stay, free;
  static thread_local std::vector<size_t> granules;
  static thread_local std::vector<Code> kept, beside;
  stay.resize(where.count);
  const bool late = check.unordered(old.data(), old.size(), own, stay.data());
  for (size_t i = 0; i < where.count; ++i)
    stay[i] = ((late && stay[i]) || is_weak(old[i])) && is_unread(rows.data() + i * slots_, old[i]);
  const bool any = unordered_rows(rows, own, check, bad);
  for (size_t i = 0; i < rows.size(); ++i)
    if (!(any && bad[i]) && !is_weak(rows[i])) rows[i] = 0;
  for (size_t i = 0; i < where.count; ++i)
    std::copy_n(rows.data() + i * slots_, slots_, reads_.data() + where[i] * slots_);
  granules.clear();
  kept.clear();
  beside.clear();
  for (size_t i = 0; i < where.count; ++i) {
    if (!stay[i]) continue;
    granules.push_back(where[i]);
    kept.push_back(old[i]);
    beside.insert(beside.end(), rows.begin() + ptrdiff_t(i * slots_),
                  rows.begin() + ptrdiff_t((i + 1) * slots_));
  }
  if (granules.empty()) return;
  free.resize(beside.size());
  for (size_t i = 0; i < beside.size(); ++i) free[i] = beside[i] == 0;
  put(granules, kept, beside, free);
}

// Reads. -----------------------------------------------------------------------------------------
void Region::read(Where where, Codes codes, Own own, const OrderCheck& check,
                  const OrderCheck& strict, Wrong& wrong) {
  static thread_local std::vector<uint8_t> bad;
  static thread_local std::vector<Code> before, rows;
  const Code* written = gather(writes_, where, before);
  bad.resize(where.count);
  if (check.unordered(written, where.count, own, bad.data()))
    collect(written, where.count, bad.data(), 1, wrong);
  if (strong_) {
    copy_rows(where, rows);
    for (Code& code : rows)
      if (!records_.of(code).write) code = 0;
    if (unordered_rows(rows, own, check, bad))
      collect(rows.data(), rows.size(), bad.data(), slots_, wrong);
  }
  if (!stands_aside(where, codes, strict)) {
    note_read(where, codes, own, strict);
    return;
  }
  for (size_t i = 0; i < where.count; ++i) reads_[where[i] * slots_] = codes.of(i);
}

// Whether what is in the first slots makes room as a whole, as it mostly does: one slot in use, by
// one record that is ordered before, or by the same lanes.
bool Region::stands_aside(Where where, Codes codes, const OrderCheck& strict) const {
  const int number = reads_[where[0] * slots_] >> LANE_BITS;
  bool first = false, others = false, alike = true;
  for (size_t i = 0; i < where.count; ++i) {
    const Code* row = reads_.data() + where[i] * slots_;
    first |= row[0] != 0;
    for (size_t slot = 1; slot < slots_; ++slot) others |= row[slot] != 0;
    alike &= row[0] >> LANE_BITS == number;
  }
  if (!first) return true;
  if (others || !alike) return false;
  Code highest = codes.of(0);
  bool one = true;
  for (size_t i = 1; codes.each && i < where.count; ++i) {
    highest = std::max(highest, codes.each[i]);
    one &= codes.each[i] >> LANE_BITS == codes.each[0] >> LANE_BITS;
  }
  const Record &old = records_.all[size_t(number)], &made = records_.of(highest);
  if (old.write || old.asynchronous != made.asynchronous || (made.level && !old.level)) return false;
  if (strict.settled(number)) return true;
  if (old.who != made.who || old.mask != made.mask || !one) return false;
  for (size_t i = 0; i < where.count; ++i)
    if ((reads_[where[i] * slots_] ^ codes.of(i)) & (LANES - 1)) return false;
  return true;
}

void Region::note_read(Where where, Codes codes, Own own, const OrderCheck& strict) {
  std::vector<Code> rows, made(where.count);
  std::vector<uint8_t> bad, free;
  std::vector<size_t> granules(where.count);
  copy_rows(where, rows);
  const bool any = unordered_rows(rows, own, strict, bad);
  free.resize(rows.size());
  for (size_t i = 0; i < where.count; ++i) {
    granules[i] = where[i];
    made[i] = codes.of(i);
    for (size_t at = i * slots_; at < (i + 1) * slots_; ++at)
      free[at] = !rows[at] || replaced(rows[at], made[i], !(any && bad[at]));
  }
  put(granules, made, rows, free);
}

// Whether a new read stands for an old one: of the same threads, or ordered.
bool Region::replaced(Code old, Code code, bool ordered) const {
  const Record &before = records_.of(old), &now = records_.of(code);
  if (before.write || before.asynchronous != now.asynchronous || (!before.level && now.level))
    return false;
  return ordered || (before.column == now.column && before.cluster == now.cluster &&
                     !(records_.lanes(old) & ~records_.lanes(code)));
}

// Enters codes into the first free slot of each granule; those without one try to merge, then grow.
void Region::put(const std::vector<size_t>& where, const std::vector<Code>& codes,
                 const std::vector<Code>& rows, const std::vector<uint8_t>& free) {
  std::vector<size_t> full, left;
  for (size_t i = 0; i < where.size(); ++i) {
    const uint8_t* each = free.data() + i * slots_;
    const uint8_t* found = std::find(each, each + slots_, 1);
    if (found == each + slots_) {
      full.push_back(i);
    } else {
      reads_[where[i] * slots_ + size_t(found - each)] = codes[i];
    }
  }
  if (full.empty()) return;
  std::vector<size_t> granules;
  std::vector<Code> made, beside;
  for (const size_t i : full) {
    granules.push_back(where[i]);
    made.push_back(codes[i]);
    beside.insert(beside.end(), rows.begin() + ptrdiff_t(i * slots_),
                  rows.begin() + ptrdiff_t((i + 1) * slots_));
  }
  merge(granules, made, beside, left);
  if (left.empty()) return;
  if (slots_ < MOST_READERS) {
    Zeros<Code> wider(reads_.size() * 2);
    for (size_t row = 0; row < reads_.size() / slots_; ++row)
      for (size_t slot = 0; slot < slots_; ++slot)
        if (const Code code = reads_[row * slots_ + slot]) wider[row * slots_ * 2 + slot] = code;
    reads_ = std::move(wider);
    slots_ *= 2;
  }
  std::vector<size_t> into;
  for (const size_t i : left) {
    const Code* row = reads_.data() + granules[i] * slots_;
    const Code* found = std::find(row, row + slots_, 0);
    // Of more than there is room for, the latest make room: what stays beside writes is older.
    into.push_back(std::min(size_t(found - row), slots_ - 1));
  }
  for (size_t i = 0; i < left.size(); ++i)
    reads_[granules[left[i]] * slots_ + into[i]] = made[left[i]];
}

// Makes one record of reads by lanes of one warp at one time: 32 lanes that read one word one by
// one would fill 32 slots. `left` are those that have no such read beside them.
void Region::merge(const std::vector<size_t>& where, const std::vector<Code>& codes,
                   const std::vector<Code>& rows, std::vector<size_t>& left) {
  std::map<std::pair<Code, Code>, Code> pairs;
  std::vector<std::pair<size_t, size_t>> found;  // number, slot
  for (size_t i = 0; i < where.size(); ++i) {
    const Record& now = records_.of(codes[i]);
    size_t slot = 0;
    for (; slot < slots_; ++slot) {
      const Record& old = records_.of(rows[i * slots_ + slot]);
      if (rows[i * slots_ + slot] && !now.asynchronous && !old.write && !old.asynchronous &&
          old.cluster == now.cluster && old.column == now.column && old.time == now.time &&
          old.level == now.level)
        break;
    }
    if (slot == slots_) {
      left.push_back(i);
      continue;
    }
    pairs.emplace(std::make_pair(rows[i * slots_ + slot], codes[i]), 0);
    found.emplace_back(i, slot);
  }
  for (auto& [pair, code] : pairs)
    code = records_.shared(pair.second, records_.lanes(pair.first) | records_.lanes(pair.second));
  for (const auto& [i, slot] : found)
    reads_[where[i] * slots_ + slot] = pairs[{rows[i * slots_ + slot], codes[i]}];
}

}  // namespace emu::races
