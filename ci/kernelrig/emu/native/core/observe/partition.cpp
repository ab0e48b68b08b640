#include "partition.hpp"

#include <algorithm>

namespace emu::races {

void Taken::grow(size_t for_more) {
  for (auto* list : {&granules_, &places_, &lanes_}) list->resize(2 * (count + for_more));
}

Partition::Partition(size_t granules)
    : of_(granules), sizes_{int32_t(granules)}, parents_{0}, hits_{0}, parts_{0}, seen_(granules),
      marked_{0} {}

uint32_t Partition::next_stamp() {
  if (!++stamp_) {
    std::fill(seen_.begin(), seen_.end(), 0);
    std::fill(marked_.begin(), marked_.end(), 0);
    stamp_ = 1;
  }
  return stamp_;
}

void Partition::refine(size_t parts) {
  std::vector<int32_t> finer;
  finer.reserve(of_.size() * parts);
  for (const int32_t number : of_) finer.insert(finer.end(), parts, number);
  of_ = std::move(finer);
  seen_.assign(of_.size(), 0);
  for (int32_t& size : sizes_) size *= int32_t(parts);
}

// Lists what lanes take if there is nothing to cut, as it mostly is: of each lane it is one class, or
// classes of one granule.
bool Partition::taken_whole(const int32_t* first, size_t count, int32_t each,
                            Taken& taken) const {
  const int32_t* sizes = sizes_.data();
  taken.make_room(count * size_t(each));
  for (size_t lane = 0; lane < count; ++lane) {
    const int32_t* of = of_.data() + first[lane];
    if (sizes[of[0]] == each) {
      for (int32_t i = 1; i < each; ++i)
        if (of[i] != of[0]) return false;
      taken.add(of[0], first[lane], int32_t(lane));
    } else {
      for (int32_t i = 0; i < each; ++i) {
        if (sizes[of[i]] != 1) return false;
        taken.add(of[i], first[lane] + i, int32_t(lane));
      }
    }
  }
  return true;
}

// Lanes may overlap: nothing is listed before all is cut.
void Partition::take(const int32_t* first, size_t count, int32_t each, Taken& taken) {
  taken.count = 0;
  if (taken_whole(first, count, each, taken)) return;
  for (size_t lane = 0; lane < count; ++lane) cut({first + lane, 1, size_t(each)});
  taken.count = 0;
  for (size_t lane = 0; lane < count; ++lane)
    list({first + lane, 1, size_t(each)}, int32_t(lane), taken);
}

void Partition::touch(Runs runs) {
  const uint32_t stamp = next_stamp();
  hit_.clear();
  for (size_t n = 0; n < runs.count; ++n) {
    const size_t first = size_t(runs.first[n]), behind = first + runs.length(n);
    for (size_t at = first; at < behind; ++at) {
      if (seen_[at] == stamp) continue;
      seen_[at] = stamp;
      int32_t& hits = hits_[size_t(of_[at])];
      if (!hits++) hit_.push_back(of_[at]);
    }
  }
}

void Partition::cut(Runs runs) {
  touch(runs);
  bool any = false;
  for (int32_t& number : hit_) {
    const size_t from = size_t(number);
    const int32_t hits = hits_[from];
    hits_[from] = 0;
    if (hits == sizes_[from]) continue;
    any = true;
    sizes_[from] -= hits;
    number = parts_[from] = int32_t(classes());
    sizes_.push_back(hits);
    parents_.push_back(int32_t(from));
    hits_.push_back(0);
    parts_.push_back(0);
    marked_.push_back(0);
  }
  if (!any) return;
  for (size_t n = 0; n < runs.count; ++n) {
    const size_t first = size_t(runs.first[n]), behind = first + runs.length(n);
    for (size_t at = first; at < behind; ++at)
      if (const int32_t part = parts_[size_t(of_[at])]) of_[at] = part;
  }
  for (const int32_t number : hit_) parts_[parent(size_t(number))] = 0;
}

void Partition::list(Runs runs, int32_t lane, Taken& taken) {
  const uint32_t stamp = next_stamp();
  for (size_t n = 0; n < runs.count; ++n) {
    const int32_t first = runs.first[n], behind = first + int32_t(runs.length(n));
    taken.make_room(runs.length(n));
    for (int32_t at = first; at < behind; ++at) {
      const int32_t number = of_[size_t(at)];
      if (marked_[size_t(number)] == stamp) continue;
      marked_[size_t(number)] = stamp;
      taken.add(number, at, lane);
    }
  }
}

// Footprints. ------------------------------------------------------------------------------------
uint64_t hash_of(const int64_t* named, size_t count, int64_t base, int64_t more) {
  uint64_t hash = uint64_t(more) << 32 ^ count;
  for (const size_t i : {size_t(0), count / 3, count / 2, count - 1})
    hash = (hash ^ uint64_t(named[i] - base)) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

bool Partition::Footprint::is(const int64_t* named, size_t count, int64_t base,
                              int64_t more) const {
  if (name.size() != count + 1 || name[count] != more) return false;
  int64_t other = 0;
  for (size_t i = 0; i < count; ++i) other |= (named[i] - base) ^ name[i];
  return !other;
}

void Partition::Footprint::add(int32_t number) {
  if (!first.empty() && first.back() + lengths.back() == number) {
    ++lengths.back();
  } else {
    first.push_back(number);
    lengths.push_back(1);
  }
}

void Partition::start(Footprint& footprint, Runs runs) {
  cut(runs);
  touch(runs);
  for (const int32_t number : hit_) hits_[size_t(number)] = 0;
  std::sort(hit_.begin(), hit_.end());
  for (const int32_t number : hit_) footprint.add(number);
  footprint.classes = classes();
}

// Numbers ascend: those of new classes go behind.
void Partition::follow(Footprint& footprint) {
  if (footprint.classes == classes()) return;
  const uint32_t stamp = next_stamp();
  for (size_t run = 0; run < footprint.first.size(); ++run)
    std::fill_n(marked_.begin() + footprint.first[run], footprint.lengths[run], stamp);
  for (; footprint.classes < classes(); ++footprint.classes) {
    if (marked_[parent(footprint.classes)] != stamp) continue;
    marked_[footprint.classes] = stamp;
    footprint.add(int32_t(footprint.classes));
  }
}

}  // namespace emu::races
