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
    region.granules(flat, 1, access.size, true, granules_);
    codes_.assign(granules_.size(), records_.shared(record << LANE_BITS, access.bits));
    own_.assign(granules_.size(), -1);
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
  const size_t each = size_t(region.granules(flat, count, access.size, true, granules_));
  codes_.resize(granules_.size());
  own_.resize(granules_.size());
  for (size_t i = 0, next = 0; i < count; ++i) {
    for (size_t j = 0; j < each; ++j, ++next) {
      own_[next] = lanes[i];
      codes_[next] = record << LANE_BITS | lanes[i];
    }
  }
}

// The same where lanes share granules, which come out in order.
void Races::merged(Region& region, const Access& access, int record, const int64_t* flat,
                   const int32_t* lanes, size_t count) {
  const size_t each = size_t(region.granules(flat, count, access.size, true, granules_));
  struct Hit {
    int32_t granule, lane;
    Mask lanes;
  };
  std::vector<Hit> hits;
  for (size_t i = 0; i < granules_.size(); ++i)
    hits.push_back({granules_[i], lanes[i / each], 1u << lanes[i / each]});
  std::stable_sort(hits.begin(), hits.end(),
                   [](const Hit& a, const Hit& b) { return a.granule < b.granule; });
  size_t kept = 0;
  for (const Hit& hit : hits) {
    if (kept && hits[kept - 1].granule == hit.granule) {
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
  granules_.clear();
  codes_.clear();
  own_.clear();
  for (const Hit& hit : hits) {
    const bool shared = hit.lanes & (hit.lanes - 1);
    granules_.push_back(hit.granule);
    codes_.push_back(shared ? several[hit.lanes] : record << LANE_BITS | hit.lane);
    own_.push_back(shared ? -1 : hit.lane);
  }
}

}  // namespace emu::races
