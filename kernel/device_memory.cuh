// Device memory that is freed with its owner, and how the host fills it.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "failure.cuh"

namespace kernelrig {

class DeviceMemory {
public:
  explicit DeviceMemory(size_t bytes) : bytes_(bytes) {
    if (bytes > 0)
      KERNELRIG_CUDA(cudaMalloc(&address_, bytes));
  }
  DeviceMemory(DeviceMemory &&other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(other.bytes_) {}
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  ~DeviceMemory() { cudaFree(address_); } // its status would repeat an earlier error

  template <class T> T *as() const { return static_cast<T *>(address_); }
  size_t bytes() const { return bytes_; }

private:
  void *address_ = nullptr;
  size_t bytes_;
};

constexpr size_t COPY_PIECE_BYTES = size_t{64} << 20;

// Compute the content of `memory` in pieces on the host with make(first byte, end byte,
// destination) and copy each.
template <class Make> void copy_in_pieces(const DeviceMemory &memory, Make make) {
  std::vector<uint8_t> piece(std::min(memory.bytes(), COPY_PIECE_BYTES));
  for (size_t begin = 0; begin < memory.bytes(); begin += piece.size()) {
    const size_t bytes = std::min(piece.size(), memory.bytes() - begin);
    make(begin, begin + bytes, piece.data());
    KERNELRIG_CUDA(
        cudaMemcpy(memory.as<uint8_t>() + begin, piece.data(), bytes, cudaMemcpyHostToDevice));
  }
}

// Call make(i) for each i of [begin, end), in several threads where there are many.
template <class Make> void make_in_threads(uint64_t begin, uint64_t end, Make make) {
  const uint64_t workers = std::clamp<uint64_t>((end - begin) >> 20, 1,
                                                std::thread::hardware_concurrency() + 1);
  const uint64_t share = (end - begin + workers - 1) / workers;
  std::vector<std::thread> threads;
  for (uint64_t from = begin; from < end; from += share) {
    threads.emplace_back([=] {
      for (uint64_t i = from; i < std::min(from + share, end); ++i)
        make(i);
    });
  }
  for (std::thread &thread : threads)
    thread.join();
}

// Fill memory with elements of `bytes_each` that make(piece, first element of the piece, element)
// stores.
template <class Make>
void copy_made(const DeviceMemory &memory, uint64_t bytes_each, Make make) {
  copy_in_pieces(memory, [&](size_t begin, size_t end, uint8_t *piece) {
    const uint64_t first = begin / bytes_each;
    make_in_threads(first, end / bytes_each, [=](uint64_t i) { make(piece, first, i); });
  });
}

} // namespace kernelrig
