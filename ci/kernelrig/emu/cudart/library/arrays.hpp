// CUDA arrays: rows of elements, one behind the other, in memory that only kernels reach.
#pragma once

#include "runtime.hpp"

#include <algorithm>

struct cudaArray {
  cudaChannelFormatDesc format{};
  cudaExtent extent{};  // of elements, as the program said: 0 where it has no such dimension
  unsigned flags = 0;
  uint64_t address = 0;

  bool layered() const { return flags & (cudaArrayLayered | cudaArrayCubemap); }
  size_t element_bytes() const { return size_t(format.x + format.y + format.z + format.w) / 8; }
  size_t pitch() const { return extent.width * element_bytes(); }
  size_t rows() const { return std::max<size_t>(extent.height, 1); }
  size_t slices() const { return std::max<size_t>(extent.depth, 1); }
  size_t bytes() const { return pitch() * rows() * slices(); }
};

namespace cudart {

// Whether the program made it, and has not freed it.
bool is_array(cudaArray_const_t array);

// Copies between arrays and memory, in the program's terms; arrays count in elements.
cudaError_t copy_arrays(const cudaMemcpy3DParms& how, const void* caller);

}  // namespace cudart
