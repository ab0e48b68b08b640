// The names of what a kernel keeps in dynamic shared memory and in tensor memory. A kernel declares
// them next to its offsets, a static assert checks them, and `--mode describe` writes them into the
// launch file, so that a finding of the emulator names `inputs_arrived[2]` and not an address.
#pragma once

#include <cstddef>

namespace kernelrig {

// `count` elements of `size_bytes`, element i at offset_bytes + i * stride_bytes, counted from the
// first byte of dynamic shared memory. A count of 0 declares nothing in this build.
struct SharedRegion {
  const char *name;
  const char *kind; // mbarrier, buffer or word
  int offset_bytes, stride_bytes, count, size_bytes;

  static constexpr int MBARRIER_BYTES = 8;

  static constexpr SharedRegion mbarriers(const char *name, int offset_bytes, int count) {
    return {name, "mbarrier", offset_bytes, MBARRIER_BYTES, count, MBARRIER_BYTES};
  }

  static constexpr SharedRegion word(const char *name, int offset_bytes) {
    return {name, "word", offset_bytes, 4, 1, 4};
  }

  static constexpr SharedRegion buffers(const char *name, int offset_bytes, int size_bytes,
                                        int count) {
    return {name, "buffer", offset_bytes, size_bytes, count, size_bytes};
  }

  // The same with something else between two elements, as B between the As of a ring.
  static constexpr SharedRegion buffers(const char *name, int offset_bytes, int size_bytes,
                                        int count, int stride_bytes) {
    return {name, "buffer", offset_bytes, stride_bytes, count, size_bytes};
  }

  constexpr int first_byte(int element) const { return offset_bytes + element * stride_bytes; }
};

// `count` elements of `columns` columns, side by side from `column` on, counted from the first
// column that the kernel has allocated.
struct TensorRegion {
  const char *name;
  int column, columns, count;
};

// Whether every element is within `bytes` and no two overlap.
template <size_t COUNT> constexpr bool lie_apart(const SharedRegion (&regions)[COUNT], int bytes) {
  for (size_t r = 0; r < COUNT; ++r) {
    for (int i = 0; i < regions[r].count; ++i) {
      const int first = regions[r].first_byte(i), end = first + regions[r].size_bytes;
      if (first < 0 || end > bytes || regions[r].size_bytes < 1)
        return false;
      for (size_t s = 0; s < COUNT; ++s) {
        for (int j = 0; j < regions[s].count; ++j) {
          const int other = regions[s].first_byte(j);
          if ((r != s || i != j) && first < other + regions[s].size_bytes && other < end)
            return false;
        }
      }
    }
  }
  return true;
}

template <size_t COUNT>
constexpr bool lie_apart(const TensorRegion (&regions)[COUNT], int columns) {
  int taken = 0; // in the order of their columns
  for (const TensorRegion &region : regions) {
    if (region.column < taken || region.columns < 1 || region.count < 1)
      return false;
    taken = region.column + region.count * region.columns;
  }
  return taken <= columns;
}

} // namespace kernelrig
