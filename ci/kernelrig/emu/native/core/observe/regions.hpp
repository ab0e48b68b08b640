// The regions of the shadow memory: each buffer, each CTA's shared and tensor memory. They are made
// when they are accessed first.
#pragma once

#include <map>

#include "shadow.hpp"

namespace emu::races {

constexpr int64_t SLOT_BYTES = 0x40000;
constexpr int RESERVED_BYTES = 0x400;

struct Allocation {
  int64_t start, size;
  int64_t read_only;
};

// Places in a region: which of those given, null for all of them.
struct Share {
  Region* region;
  std::vector<uint32_t> places;
  bool all;
};

class Regions {
 public:
  explicit Regions(Records& records) : records_(records) {}
  std::vector<Allocation> allocations;  // by their start
  int64_t shared_bytes = 0;
  int warps_a_cta = 1;
  const std::vector<Warp*>* warps = nullptr;     // on the machine
  std::vector<int64_t> slot_of, cta_of;          // by warp

  void forget_wave();
  std::vector<const Region*> of_wave() const;
  // The regions of flat bytes.
  void of(int space, const int64_t* flat, size_t count, int size, std::vector<Share>& shares);
  Region& tensor_of(int slot);

 private:
  const Allocation* find(int64_t flat) const;
  Region* buffer(int64_t flat);
  Region& shared(int slot);
  size_t first_of(int slot) const;

  Records& records_;
  std::map<int64_t, std::unique_ptr<Region>> buffers_;
  std::map<int, std::unique_ptr<Region>> shared_, tensor_;
  std::optional<Partition> of_shared_, of_tensor_;
  Region *last_buffer_ = nullptr, *last_shared_ = nullptr;
  int last_slot_ = -1;
};

}  // namespace emu::races
