// Granules that every access so far took together. A tile that one instruction brings and others
// read by halves is thousands of granules, and three things to the shadow: each half, and the rest.
//
// How it works. At first all granules are one class. An access splits each class that it takes a
// part of: the part becomes a class of its own, whose number is the next one, and knows the class
// that it was part of. What is noted of an access is then noted of whole classes, once of each. The
// shared memories of all CTAs have one partition, as they are accessed alike, and so have their
// tensor memories: a region that comes back to it copies to each new class what it holds of its
// parent (`Region::follow`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace emu::races {

constexpr int WORD = 2;  // 1 << WORD bytes are a granule, until an access is narrower

// Granules in runs, each of them `each` long, or as `lengths` says.
struct Runs {
  const int32_t* first;
  size_t count, each;
  const int32_t* lengths = nullptr;
  size_t length(size_t run) const { return lengths ? size_t(lengths[run]) : each; }
};

// What an access takes: classes, of each the first granule of the access in it, and the number of
// the lane. Where nothing is partitioned, granules, which are their own places.
class Taken {
 public:
  size_t count = 0;
  int32_t granule(size_t i) const { return granules_[i]; }
  int32_t place(size_t i) const { return places_[i]; }
  int32_t lane(size_t i) const { return lanes_[i]; }
  const int32_t* granules() const { return granules_.data(); }
  void make_room(size_t for_more) {
    if (count + for_more > granules_.size()) grow(for_more);
  }
  void add(int32_t granule, int32_t place, int32_t lane) {  // there is room
    granules_[count] = granule;
    places_[count] = place;
    lanes_[count++] = lane;
  }

 private:
  void grow(size_t for_more);
  std::vector<int32_t> granules_, places_, lanes_;
};

class Partition {
 public:
  explicit Partition(size_t granules);
  int shift = WORD;  // 1 << shift bytes are a granule
  size_t granules() const { return of_.size(); }
  size_t classes() const { return sizes_.size(); }
  size_t parent(size_t number) const { return size_t(parents_[number]); }
  size_t class_of(size_t granule) const { return size_t(of_[granule]); }

  // Makes `parts` granules of each.
  void refine(size_t parts);
  // Splits classes so that these granules are whole ones.
  void cut(Runs runs);
  // Appends the classes of granules that were cut, each once, in the order in which they come.
  void list(Runs runs, int32_t lane, Taken& taken);
  // Lists those of `count` lanes, each of which takes a run of granules; cuts what has to be.
  void take(const int32_t* first, size_t count, int32_t each, Taken& taken);

  // The classes of an operation, as runs of their numbers. What it takes is named by `count` numbers
  // relative to `base`, and one more; `runs` says which granules that is, if it is new.
  template <class ToRuns>
  Runs known(const int64_t* named, size_t count, int64_t base, int64_t more, ToRuns runs);

 private:
  struct Footprint {
    std::vector<int64_t> name;  // relative, and the one more behind them
    std::vector<int32_t> first, lengths;
    size_t classes = 0;  // up to which it is known
    bool is(const int64_t* named, size_t count, int64_t base, int64_t more) const;
    void add(int32_t number);
  };
  bool taken_whole(const int32_t* first, size_t count, int32_t each, Taken& taken) const;
  void touch(Runs runs);  // counts in `hits_` the granules of each class, and lists them in `hit_`
  void start(Footprint& footprint, Runs runs);
  void follow(Footprint& footprint);
  uint32_t next_stamp();

  std::vector<int32_t> of_;  // by granule
  std::vector<int32_t> sizes_, parents_, hits_, parts_;
  std::vector<int32_t> hit_;
  std::vector<uint32_t> seen_, marked_;  // stamps by granule and by class
  uint32_t stamp_ = 0;
  std::unordered_multimap<uint64_t, Footprint> footprints_;
};

uint64_t hash_of(const int64_t* named, size_t count, int64_t base, int64_t more);
constexpr size_t MOST_FOOTPRINTS = 1 << 12;

template <class ToRuns>
Runs Partition::known(const int64_t* named, size_t count, int64_t base, int64_t more,
                      ToRuns runs) {
  const uint64_t key = hash_of(named, count, base, more);
  Footprint* found = nullptr;
  for (auto [at, end] = footprints_.equal_range(key); at != end && !found; ++at)
    if (at->second.is(named, count, base, more)) found = &at->second;
  if (found) {
    follow(*found);
  } else {
    if (footprints_.size() >= MOST_FOOTPRINTS) footprints_.clear();
    found = &footprints_.emplace(key, Footprint())->second;
    for (size_t i = 0; i < count; ++i) found->name.push_back(named[i] - base);
    found->name.push_back(more);
    start(*found, runs());
  }
  return {found->first.data(), found->first.size(), 0, found->lengths.data()};
}

}  // namespace emu::races
