#include "shadow.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

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

// Reads that nothing has checked yet. ------------------------------------------------------------
void remember(std::deque<Remembered>& reads, int record, int size, bool non_coherent, Mask lanes,
              const int64_t* flat, size_t count) {
  if (reads.size() == MOST_REMEMBERED) reads.pop_front();
  const int64_t step = count > 1 ? flat[1] - flat[0] : 0;
  Remembered read{record, size, non_coherent, flat[0], step, uint32_t(count), lanes, {}};
  for (size_t i = 2; i < count && read.flat.empty(); ++i)
    if (flat[i] - flat[i - 1] != step) read.flat.assign(flat, flat + count);
  reads.push_back(std::move(read));
}

std::vector<int64_t> places_of(const Remembered& read) {
  if (!read.flat.empty()) return read.flat;
  std::vector<int64_t> flat(read.count);
  for (uint32_t i = 0; i < read.count; ++i) flat[i] = read.first + i * read.step;
  return flat;
}

// Regions. ---------------------------------------------------------------------------------------
static size_t words_of(int name, int64_t size) {
  if ((size >> WORD) > INT32_MAX) throw TooManyGranules(name, WORD);
  return size_t(size >> WORD) + 1;
}

Region::Region(int space, int name, int64_t start, int64_t size, Records& records,
               Partition* partition)
    : space(space), name(name), start(start), size(size), records_(records),
      partition_(partition),
      writes_(partition ? partition->classes() : words_of(name, size)),
      reads_(writes_.size() * FIRST_READERS) {
  if (partition) return;
  unwritten.emplace();
  lines.emplace(start, size);
}

// Granules. --------------------------------------------------------------------------------------
// Makes granules so small that none of these places has a part of one.
int Region::fit(const int64_t* starts, size_t count, int bytes, bool aligned) {
  const int64_t small = (int64_t(1) << shift()) - 1;
  int64_t together = bytes;
  if (!aligned || bytes & small) {
    for (size_t i = 0; i < count; ++i) together |= starts[i] - start;
    if (together & small) refine(__builtin_ctzll(uint64_t(together)));
  }
  return bytes >> shift();
}

void Region::granules(const int64_t* starts, size_t count, int bytes, Taken& taken) {
  const int each = fit(starts, count, bytes, true), by = shift();
  int32_t first[LANES];
  for (size_t i = 0; i < count; ++i) first[i] = int32_t((starts[i] - start) >> by);
  if (partition_) {
    partition_->take(first, count, each, taken);
    follow();
    return;
  }
  taken.count = 0;
  taken.make_room(count * size_t(each));
  for (size_t i = 0; i < count; ++i)
    for (int j = 0; j < each; ++j) taken.add(first[i] + j, first[i] + j, int32_t(i));
}

Where Region::run(const int64_t* starts, size_t count, int bytes, Taken& taken) {
  taken.count = 0;
  if (partition_) {
    static thread_local std::vector<int32_t> first;
    const int each = fit(starts, count, bytes, false);
    first.resize(count);
    for (size_t i = 0; i < count; ++i) first[i] = int32_t((starts[i] - start) >> shift());
    partition_->cut({first.data(), count, size_t(each)});
    follow();
    partition_->list({first.data(), count, size_t(each)}, 0, taken);
    return {taken.granules(), 0, taken.count};
  }
  static thread_local std::vector<int64_t> ordered;
  ordered.assign(starts, starts + count);
  if (!std::is_sorted(ordered.begin(), ordered.end())) std::sort(ordered.begin(), ordered.end());
  bool dense = true;
  for (size_t i = 1; i < count && dense; ++i) dense = ordered[i] - ordered[i - 1] == bytes;
  const size_t each = size_t(fit(starts, count, bytes, false));
  if (dense) return {nullptr, int32_t((ordered[0] - start) >> shift_), count * each};
  taken.make_room(count * each);
  for (size_t i = 0; i < count; ++i) {
    const int32_t first = int32_t((starts[i] - start) >> shift_);
    for (int32_t j = 0; j < int32_t(each); ++j) taken.add(first + j, first + j, 0);
  }
  return {taken.granules(), 0, taken.count};
}

// The cells of a piece of tensor memory: its columns of each lane.
static Runs cells_of(const Piece& piece, std::vector<int32_t>& first) {
  const auto [slot, top, bottom, left, right] = piece;
  first.clear();
  for (int lane = top; lane < bottom; ++lane) first.push_back(lane * TENSOR_COLUMNS + left);
  return {first.data(), first.size(), size_t(right - left)};
}

Where Region::run(const Piece& piece, Taken& taken) {
  std::vector<int32_t> first;
  const Runs cells = cells_of(piece, first);
  taken.count = 0;
  partition_->cut(cells);
  follow();
  partition_->list(cells, 0, taken);
  return {taken.granules(), 0, taken.count};
}

Runs Region::runs(const Piece& piece) {
  const int64_t name[] = {piece[1], piece[2], piece[3], piece[4]};
  std::vector<int32_t> first;
  const Runs runs = partition_->known(name, 4, 0, 0, [&] { return cells_of(piece, first); });
  follow();
  return runs;
}

// Makes granules as small as 1 << `to` bytes.
void Region::refine(int to) {
  if (!partition_ && (size >> to) > INT32_MAX) throw TooManyGranules(name, to);
  const size_t parts = size_t(1) << (shift() - to);
  if (partition_) {
    partition_->refine(parts);
    partition_->shift = to;
    return;
  }
  writes_ = writes_.repeated(parts);
  Zeros<Code> reads(reads_.size() * parts);
  for (size_t row = 0; row < reads_.size() / slots_; ++row)
    for (size_t slot = 0; slot < slots_; ++slot)
      if (const Code code = reads_[row * slots_ + slot])
        for (size_t part = 0; part < parts; ++part)
          reads[(row * parts + part) * slots_ + slot] = code;
  reads_ = std::move(reads);
  if (non_coherent.size()) non_coherent = non_coherent.repeated(parts);
  shift_ = to;
}

void Region::follow() {
  const size_t from = writes_.size(), classes = partition_->classes();
  if (from == classes) return;
  writes_.grow(classes);
  reads_.grow(classes * slots_);
  if (non_coherent.size()) non_coherent.grow(classes);
  for (size_t part = from; part < classes; ++part) {
    const size_t parent = partition_->parent(part);
    writes_[part] = writes_[parent];
    std::copy_n(reads_.data() + parent * slots_, slots_, reads_.data() + part * slots_);
    if (non_coherent.size()) non_coherent[part] = non_coherent[parent];
  }
  if (readers) readers->follow(*partition_, from);
}

const Code* Region::gather(const Zeros<Code>& from, Where where, std::vector<Code>& copy) {
  if (!where.list) return from.data() + where.start;
  copy.resize(where.count);
  for (size_t i = 0; i < where.count; ++i) copy[i] = from[where[i]];
  return copy.data();
}

void Region::set(Zeros<Code>& in, Where where, Codes codes) {
  if (!where.list && !codes.each) {
    std::fill_n(in.data() + where.start, where.count, codes.one);
    return;
  }
  for (size_t i = 0; i < where.count; ++i) in[where[i]] = codes.of(i);
}

bool Region::copy_rows(Where where, std::vector<Code>& rows) const {
  rows.resize(where.count * slots_);
  Code any = 0;
  if (!where.list) {
    const Code* from = reads_.data() + size_t(where.start) * slots_;
    for (size_t i = 0; i < rows.size(); ++i) any |= rows[i] = from[i];
    return any;
  }
  size_t next = 0;
  for (size_t i = 0; i < where.count; ++i) {
    const Code* from = reads_.data() + size_t(where.list[i]) * slots_;
    for (size_t slot = 0; slot < slots_; ++slot) any |= rows[next++] = from[slot];
  }
  return any;
}

bool Region::unordered_rows(const std::vector<Code>& rows, Own own, const OrderCheck& check,
                            std::vector<uint8_t>& bad) const {
  bad.resize(rows.size());
  if (!own.each) return check.unordered(rows.data(), rows.size(), own, bad.data());
  static thread_local std::vector<int32_t> each;
  each.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) each[i] = own.each[i / slots_];
  return check.unordered(rows.data(), rows.size(), {0, each.data()}, bad.data());
}

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
  std::vector<uint8_t> bad, stay(where.count);
  const bool late = check.unordered(old.data(), old.size(), own, stay.data());
  for (size_t i = 0; i < where.count; ++i)
    stay[i] = ((late && stay[i]) || is_weak(old[i])) && is_unread(rows.data() + i * slots_, old[i]);
  const bool any = unordered_rows(rows, own, check, bad);
  for (size_t i = 0; i < rows.size(); ++i)
    if (!(any && bad[i]) && !is_weak(rows[i])) rows[i] = 0;
  for (size_t i = 0; i < where.count; ++i)
    std::copy_n(rows.data() + i * slots_, slots_, reads_.data() + where[i] * slots_);
  std::vector<size_t> granules;
  std::vector<Code> kept, beside;
  for (size_t i = 0; i < where.count; ++i) {
    if (!stay[i]) continue;
    granules.push_back(where[i]);
    kept.push_back(old[i]);
    for (size_t slot = 0; slot < slots_; ++slot) beside.push_back(rows[i * slots_ + slot]);
  }
  if (granules.empty()) return;
  std::vector<uint8_t> free;
  for (const Code code : beside) free.push_back(code == 0);
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
