// The shadow of a region: its granules, where they lie, and reads that are only remembered.
#include "shadow.hpp"

#include <algorithm>
#include <stdexcept>

namespace emu::races {

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

}  // namespace emu::races
