// Lines of global memory that weak reads may have left in the L1 cache of a streaming multiprocessor:
// kernelrig.emu.observe.cached_lines.
#pragma once

#include "readers.hpp"

namespace emu::races {

class CachedLines {
 public:
  CachedLines(int64_t start, int64_t size)
      : first_(start >> LINE), reader_(size_t(((start + size) >> LINE) - first_ + 1)),
        stale_(reader_.size()) {}
  void read(const int64_t* flat, size_t count, int cta) {
    for (size_t i = 0; i < count; ++i) {
      int32_t& known = reader_[size_t((flat[i] >> LINE) - first_)];
      if (known != cta) known = known ? SEVERAL : cta;
    }
  }
  void written(const int64_t* flat, size_t count, int cta) {
    for (size_t i = 0; i < count; ++i) {
      const size_t line = size_t((flat[i] >> LINE) - first_);
      if (reader_[line] && reader_[line] != cta) stale_[line] = 1;
    }
  }
  bool is_stale(int64_t flat) const { return stale_[size_t((flat >> LINE) - first_)]; }

 private:
  static constexpr int LINE = 7;
  static constexpr int32_t SEVERAL = -1;
  int64_t first_;
  Zeros<int32_t> reader_;  // 0: none
  Zeros<uint8_t> stale_;
};

}  // namespace emu::races
