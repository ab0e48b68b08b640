// What lanes of a warp accessed by one instruction, as codes of the granules they hit:
// kernelrig.emu.observe.codes.
#include <algorithm>

#include "races.hpp"

namespace emu::races {

void Races::codes_of(Region& region, const Access& access, int record, const int64_t* flat,
                     const int32_t* lanes, size_t count) {
  int64_t least = INT64_MAX;
  bool one = count > 1;
  for (size_t i = 1; i < count; ++i) {
    least = std::min(least, flat[i] - flat[i - 1]);
    one &= flat[i] == flat[i - 1];
  }
  if (one) {
    region.granules(flat, 1, access.size, taken_);
    codes_.assign(taken_.count, records_.shared(record << LANE_BITS, access.bits));
    own_.assign(taken_.count, -1);
    return;
  }
  if (count > 1 && least < access.size) {
    int64_t ordered[LANES];
    std::copy(flat, flat + count, ordered);
    std::sort(ordered, ordered + count);
    for (size_t i = 1; i < count; ++i)
      if (ordered[i] - ordered[i - 1] < access.size)
        return merged(region, access, record, flat, lanes, count);
  }
  region.granules(flat, count, access.size, taken_);
  codes_.resize(taken_.count);
  own_.resize(taken_.count);
  for (size_t i = 0; i < own_.size(); ++i) {
    const int lane = lanes[taken_.lane(i)];
    own_[i] = lane;
    codes_[i] = record << LANE_BITS | lane;
  }
}

// The same where lanes share granules, which come out in the order of their places.
void Races::merged(Region& region, const Access& access, int record, const int64_t* flat,
                   const int32_t* lanes, size_t count) {
  region.granules(flat, count, access.size, taken_);
  struct Hit {
    int32_t granule, place, lane;
    Mask lanes;
  };
  std::vector<Hit> hits;
  for (size_t i = 0; i < taken_.count; ++i) {
    const int lane = lanes[taken_.lane(i)];
    hits.push_back({taken_.granule(i), taken_.place(i), lane, 1u << lane});
  }
  // A class lies within each lane that takes it, so that the place is the same to all of them.
  std::stable_sort(hits.begin(), hits.end(),
                   [](const Hit& a, const Hit& b) { return a.place < b.place; });
  size_t kept = 0;
  for (const Hit& hit : hits) {
    if (kept && hits[kept - 1].place == hit.place) {
      hits[kept - 1].lanes |= hit.lanes;
    } else {
      hits[kept++] = hit;
    }
  }
  hits.resize(kept);
  std::map<Mask, Code> several;
  for (const Hit& hit : hits)
    if (hit.lanes & (hit.lanes - 1)) several.emplace(hit.lanes, 0);
  for (auto& [mask, code] : several) code = records_.shared(record << LANE_BITS, mask);
  taken_.count = 0;
  taken_.make_room(hits.size());
  codes_.clear();
  own_.clear();
  for (const Hit& hit : hits) {
    const bool shared = hit.lanes & (hit.lanes - 1);
    taken_.add(hit.granule, hit.place, hit.lane);
    codes_.push_back(shared ? several[hit.lanes] : record << LANE_BITS | hit.lane);
    own_.push_back(shared ? -1 : hit.lane);
  }
}

}  // namespace emu::races
