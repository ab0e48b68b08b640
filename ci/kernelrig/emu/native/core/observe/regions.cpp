#include "regions.hpp"

#include <algorithm>

namespace emu::races {

void Regions::forget_wave() {
  shared_.clear();
  tensor_.clear();
  last_shared_ = nullptr;
  last_slot_ = -1;
}

std::vector<const Region*> Regions::of_wave() const {
  std::vector<const Region*> all;
  for (const auto& [slot, region] : shared_) all.push_back(region.get());
  for (const auto& [slot, region] : tensor_) all.push_back(region.get());
  return all;
}

const Allocation* Regions::find(int64_t flat) const {
  auto behind = std::upper_bound(allocations.begin(), allocations.end(), flat,
                                 [](int64_t at, const Allocation& a) { return at < a.start; });
  if (behind == allocations.begin()) return nullptr;
  const Allocation& found = *--behind;
  return flat < found.start + found.size ? &found : nullptr;
}

Region* Regions::buffer(int64_t flat) {
  if (last_buffer_ && flat >= last_buffer_->start && flat < last_buffer_->start + last_buffer_->size)
    return last_buffer_;
  const Allocation* found = find(flat);
  if (!found || found->read_only) return nullptr;
  auto& region = buffers_[found->start];
  if (!region)
    region = std::make_unique<Region>(SPACE_GLOBAL, int(found - allocations.data()), found->start,
                                      found->size, records_, nullptr);
  return last_buffer_ = region.get();
}

size_t Regions::first_of(int slot) const {
  return size_t(std::find(slot_of.begin(), slot_of.end(), slot) - slot_of.begin());
}

Region& Regions::shared(int slot) {
  if (slot == last_slot_) return *last_shared_;
  auto& region = shared_[slot];
  if (!region) {
    const size_t first = first_of(slot);
    const int64_t bytes = shared_bytes + RESERVED_BYTES;
    if (!of_shared_) of_shared_.emplace(size_t(bytes >> WORD) + 1);
    region = std::make_unique<Region>(SPACE_SHARED, int(cta_of[first]), slot * SLOT_BYTES, bytes,
                                      records_, &*of_shared_);
    std::vector<int> columns;
    for (size_t i = first; i < first + size_t(warps_a_cta) && i < warps->size(); ++i)
      columns.push_back((*warps)[i]->column);
    region->readers.emplace(int(first), std::move(columns), region->writes().size());
  }
  last_slot_ = slot;
  last_shared_ = region.get();
  return *region;
}

void Regions::of(int space, const int64_t* flat, size_t count, int size,
                 std::vector<Share>& shares) {
  shares.clear();
  const auto [low, high] = std::minmax_element(flat, flat + count);
  auto share = [&shares](Region* region, size_t place) {
    auto found = std::find_if(shares.begin(), shares.end(),
                              [region](const Share& each) { return each.region == region; });
    if (found == shares.end()) found = shares.insert(shares.end(), {region, {}, false});
    found->places.push_back(uint32_t(place));
  };
  if (space == SPACE_SHARED) {
    if (*low / SLOT_BYTES == *high / SLOT_BYTES) {
      shares.push_back({&shared(int(*low / SLOT_BYTES)), {}, true});
      return;
    }
    for (size_t i = 0; i < count; ++i) share(&shared(int(flat[i] / SLOT_BYTES)), i);
    std::sort(shares.begin(), shares.end(),
              [](const Share& a, const Share& b) { return a.region->start < b.region->start; });
    return;
  }
  Region* region = buffer(*low);
  if (region && *high + size <= region->start + region->size) {
    shares.push_back({region, {}, true});
    return;
  }
  const Allocation* found = find(*low);
  if (found && *high + size <= found->start + found->size)
    return;  // parameters and the like, which are never written
  for (size_t i = 0; i < count; ++i)
    if (Region* each = buffer(flat[i])) share(each, i);
}

Region& Regions::tensor_of(int slot) {
  auto& region = tensor_[slot];
  if (!region) {
    constexpr int cells = TENSOR_LANES * TENSOR_COLUMNS;
    if (!of_tensor_) of_tensor_.emplace(cells);
    region = std::make_unique<Region>(SPACE_TENSOR, int(cta_of[first_of(slot)]), 0, cells << WORD,
                                      records_, &*of_tensor_);
  }
  return *region;
}

}  // namespace emu::races
