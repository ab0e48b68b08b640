// Virtual memory: addresses that are reserved, memory without an address, and the one mapped to the
// other. Device memory is one file, a place of which is an address: memory that is nowhere mapped
// lies aside, and is copied to where it is mapped. So none can be at two places at a time.

#include "order.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace cudart {
namespace {

constexpr uint64_t GRANULARITY = 2 << 20;

// Memory of cuMemCreate. `bytes` and `marks` hold it while it cannot be accessed; empty: nothing has
// written it.
struct Physical {
  uint64_t size;
  CUmemAllocationProp properties;
  int handles = 1;
  bool mapped = false;
  std::vector<uint8_t> bytes, marks;
};

struct Mapping {
  uint64_t size;
  Physical* memory;
  bool accessible = false;
};

struct VirtualMemory {
  std::map<uint64_t, uint64_t> reserved;  // bytes by address
  std::map<uint64_t, Mapping> mapped;     // by address
  std::map<Physical*, std::unique_ptr<Physical>> memory;
};
VirtualMemory& virtual_memory() {
  static auto* all = new VirtualMemory;
  return *all;
}

Physical* physical_of(CUmemGenericAllocationHandle handle) {
  auto found = virtual_memory().memory.find(reinterpret_cast<Physical*>(handle));
  return found == virtual_memory().memory.end() || !found->first->handles ? nullptr : found->first;
}

void drop_unused(Physical* memory) {
  if (!memory->handles && !memory->mapped)
    virtual_memory().memory.erase(memory);
}

bool in_granules(uint64_t bytes) { return bytes && bytes % GRANULARITY == 0; }

// Makes it one allocation with those beside it, as the emulator does.
void join_mapped(uint64_t address, uint64_t bytes) {
  auto& all = process().allocations;
  uint64_t start = address, end = address + bytes;
  auto next = all.lower_bound(address);
  if (next != all.begin()) {
    auto before = std::prev(next);
    if (before->second.kind == Kind::MAPPED && before->first + before->second.bytes == start) {
      start = before->first;
      all.erase(before);
    }
  }
  if (auto behind = all.find(end); behind != all.end() && behind->second.kind == Kind::MAPPED) {
    end += behind->second.bytes;
    all.erase(behind);
  }
  adopt(start, end - start, Kind::MAPPED);
}

void part_mapped(uint64_t address, uint64_t bytes) {
  auto found = allocation_of(address);
  const uint64_t start = found->first, end = start + found->second.bytes;
  process().allocations.erase(found);
  if (start < address)
    adopt(start, address - start, Kind::MAPPED);
  if (address + bytes < end)
    adopt(address + bytes, end - address - bytes, Kind::MAPPED);
}

CUresult give_access(uint64_t address, Mapping& mapping, const void* caller) {
  if (mapping.accessible)
    return CUDA_SUCCESS;
  Answer made = ask(Request::MAP, packed(address, mapping.size, callers_of(caller)));
  if (made.error)
    return CUDA_ERROR_OUT_OF_MEMORY;
  join_mapped(address, mapping.size);
  made_new(address, mapping.size);
  Physical& memory = *mapping.memory;
  if (!memory.bytes.empty()) {
    memcpy(process().view + (address - DEVICE_BASE), memory.bytes.data(), memory.size);
    memcpy(process().marks + (address - DEVICE_BASE), memory.marks.data(), memory.size);
    memory.bytes = {}, memory.marks = {};
  }
  mapping.accessible = true;
  return CUDA_SUCCESS;
}

void take_access(uint64_t address, Mapping& mapping, bool keep) {
  if (!mapping.accessible)
    return;
  Physical& memory = *mapping.memory;
  const uint8_t* marks = process().marks + (address - DEVICE_BASE);
  if (keep && memchr(marks, 1, memory.size)) {
    const uint8_t* bytes = process().view + (address - DEVICE_BASE);
    memory.bytes.assign(bytes, bytes + memory.size);
    memory.marks.assign(marks, marks + memory.size);
  }
  part_mapped(address, mapping.size);
  ask(Request::UNMAP, packed(address, mapping.size));
  mapping.accessible = false;
}

// The mappings that make up a range without a gap; none where they do not.
std::vector<std::map<uint64_t, Mapping>::iterator> mappings_of(uint64_t address, uint64_t bytes) {
  auto& all = virtual_memory().mapped;
  std::vector<std::map<uint64_t, Mapping>::iterator> found;
  uint64_t at = address;
  for (auto one = all.find(address); one != all.end() && one->first == at && at < address + bytes;
       ++one) {
    found.push_back(one);
    at += one->second.size;
  }
  if (at != address + bytes)
    found.clear();
  return found;
}

bool is_reserved(uint64_t address, uint64_t bytes) {
  auto& all = virtual_memory().reserved;
  auto next = all.upper_bound(address);
  if (next == all.begin())
    return false;
  auto [start, size] = *std::prev(next);
  return address + bytes <= start + size;
}

bool is_free(uint64_t address, uint64_t bytes) {
  for (auto& [start, one] : virtual_memory().mapped)
    if (start < address + bytes && address < start + one.size)
      return false;
  return true;
}

CUresult check_properties(const CUmemAllocationProp* how, const void* caller) {
  if (!how || how->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (how->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    unsupported("cuMemCreate of memory of the host is not emulated", caller);
  return how->location.id ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

}  // namespace
}  // namespace cudart

using namespace cudart;
#define CALLER __builtin_return_address(0)
#define DRIVER(code) return CUresult(finished(__func__, cudaError_t(code), CALLER))

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* how,
                                       CUmemAllocationGranularity_flags) {
  if (CUresult wrong = out ? check_properties(how, CALLER) : CUDA_ERROR_INVALID_VALUE)
    DRIVER(wrong);
  *out = GRANULARITY;
  DRIVER(CUDA_SUCCESS);
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  std::lock_guard held(process().lock);
  if (!out || !in_granules(bytes) || (alignment & (alignment - 1)) || flags)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  Answer made = ask(Request::RESERVE,
                    packed(uint64_t(bytes), std::max<uint64_t>(alignment, GRANULARITY)));
  if (made.error)
    DRIVER(CUDA_ERROR_OUT_OF_MEMORY);
  *out = unpacked<uint64_t>(made.data);
  virtual_memory().reserved[*out] = bytes;
  DRIVER(CUDA_SUCCESS);
}
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  std::lock_guard held(process().lock);
  auto found = virtual_memory().reserved.find(address);
  if (found == virtual_memory().reserved.end() || found->second != bytes ||
      !is_free(address, bytes))
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  virtual_memory().reserved.erase(found);
  DRIVER(CUDA_SUCCESS);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                     const CUmemAllocationProp* how, unsigned long long flags) {
  std::lock_guard held(process().lock);
  if (CUresult wrong = out && in_granules(bytes) && !flags ? check_properties(how, CALLER)
                                                           : CUDA_ERROR_INVALID_VALUE)
    DRIVER(wrong);
  uint64_t used = bytes;
  for (auto& [memory, owned] : virtual_memory().memory)
    used += memory->size;
  if (used > process().device.capacity_bytes)
    DRIVER(CUDA_ERROR_OUT_OF_MEMORY);
  auto made = std::make_unique<Physical>();
  made->size = bytes;
  made->properties = *how;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(made.get());
  virtual_memory().memory[made.get()] = std::move(made);
  DRIVER(CUDA_SUCCESS);
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  std::lock_guard held(process().lock);
  Physical* memory = physical_of(handle);
  if (!memory)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  memory->handles--;
  drop_unused(memory);
  DRIVER(CUDA_SUCCESS);
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  std::lock_guard held(process().lock);
  auto& all = virtual_memory().mapped;
  auto next = all.upper_bound(reinterpret_cast<uint64_t>(address));
  if (!out || next == all.begin())
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  auto& [start, one] = *std::prev(next);
  if (reinterpret_cast<uint64_t>(address) - start >= one.size)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  one.memory->handles++;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(one.memory);
  DRIVER(CUDA_SUCCESS);
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                CUmemGenericAllocationHandle handle) {
  std::lock_guard held(process().lock);
  Physical* memory = physical_of(handle);
  if (!out || !memory)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  *out = memory->properties;
  DRIVER(CUDA_SUCCESS);
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  std::lock_guard held(process().lock);
  Physical* memory = physical_of(handle);
  if (!memory || flags || offset || !in_granules(bytes) || bytes > memory->size ||
      !is_reserved(address, bytes) || !is_free(address, bytes))
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  if (memory->mapped || bytes != memory->size)
    unsupported("memory of cuMemCreate that is mapped twice or in part is not emulated", CALLER);
  memory->mapped = true;
  virtual_memory().mapped[address] = {bytes, memory};
  DRIVER(CUDA_SUCCESS);
}
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  std::lock_guard held(process().lock);
  auto found = mappings_of(address, bytes);
  if (found.empty())
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  for (auto one : found) {
    Physical* memory = one->second.memory;
    take_access(one->first, one->second, memory->handles > 0);
    memory->mapped = false;
    virtual_memory().mapped.erase(one);
    drop_unused(memory);
  }
  DRIVER(CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* how,
                        size_t count) {
  std::lock_guard held(process().lock);
  auto found = mappings_of(address, bytes);
  if (found.empty() || !how || !count)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  for (size_t n = 0; n < count; n++) {
    if (how[n].location.type != CU_MEM_LOCATION_TYPE_DEVICE || how[n].location.id)
      DRIVER(CUDA_ERROR_INVALID_DEVICE);
    if (how[n].flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
      unsupported("cuMemSetAccess for reads alone is not emulated", CALLER);
    for (auto one : found) {
      if (how[n].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
        take_access(one->first, one->second, true);
      else if (CUresult wrong = give_access(one->first, one->second, CALLER))
        DRIVER(wrong);
    }
  }
  DRIVER(CUDA_SUCCESS);
}
CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* place,
                        CUdeviceptr address) {
  std::lock_guard held(process().lock);
  auto& all = virtual_memory().mapped;
  auto next = all.upper_bound(address);
  if (!flags || !place || next == all.begin())
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  auto& [start, one] = *std::prev(next);
  if (address - start >= one.size)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  *flags = one.accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  DRIVER(CUDA_SUCCESS);
}
}
