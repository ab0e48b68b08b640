// Plain reads of shared memory by warps of its own CTA: most of all reads, kept in a cheap form, as
// kernelrig.emu.observe.readers. A row a warp: when it read each granule last, by which lanes, under
// which record.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "order_check.hpp"
#include "partition.hpp"

namespace emu::races {

// An array of zeros that takes memory only where it is touched: shadows are large, and live as long
// as a wave of CTAs.
template <class T> class Zeros {
 public:
  Zeros() = default;
  explicit Zeros(size_t count) : data_(static_cast<T*>(std::calloc(count + !count, sizeof(T)))) {
    if (!data_) throw std::bad_alloc();
    count_ = room_ = count;
  }
  Zeros(Zeros&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)),
        room_(std::exchange(other.room_, 0)) {}
  Zeros& operator=(Zeros&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(room_, other.room_);
    return *this;
  }
  ~Zeros() { std::free(data_); }
  size_t size() const { return count_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

  // Appends zeros.
  void grow(size_t count) {
    if (count > room_) {
      const size_t room = std::max(count, room_ * 2);
      T* data = static_cast<T*>(std::realloc(data_, room * sizeof(T)));
      if (!data) throw std::bad_alloc();
      std::memset(data + room_, 0, (room - room_) * sizeof(T));
      data_ = data;
      room_ = room;
    }
    count_ = std::max(count, count_);
  }

  // Each element `times` times, in its place.
  Zeros repeated(size_t times) const {
    Zeros made(count_ * times);
    for (size_t i = 0; i < count_; ++i)
      if (data_[i] != T())
        for (size_t j = 0; j < times; ++j) made[i * times + j] = data_[i];
    return made;
  }

 private:
  T* data_ = nullptr;
  size_t count_ = 0, room_ = 0;
};

// Granules: those of a list, or the `count` from `start`.
struct Where {
  const int32_t* list;
  int32_t start;
  size_t count;
  size_t operator[](size_t i) const { return size_t(list ? list[i] : start + int32_t(i)); }
};

// Granules that a warp read, and for each the record and the lanes.
struct Left {
  std::vector<int32_t> granules;
  std::vector<std::pair<int, Mask>> by;
};

class Readers {
 public:
  // The reads of `columns`, the first of each warp of a CTA, of so many granules (classes of them:
  // shared memory is partitioned). `first` is the
  // number on the machine of the CTA's first warp.
  Readers(int first, std::vector<int> columns, size_t granules);
  const int first;
  const std::vector<int> columns;
  bool used = false;

  // Remembers that lanes (`bits`, one mask each) read `where`, which may repeat unless `apart`; false
  // if a row of the warp cannot say that beside what it says already.
  bool note(int warp, Where where, const Mask* bits, Time time, int record,
            const OrderCheck& check, bool apart);
  // Forgets the reads of these granules, which are being written. Marks in `read` which of them had
  // been read (false: none), and appends what is not ordered before.
  bool take(Where where, const OrderCheck& check, uint8_t* read, std::vector<Left>& left);
  // Makes room for granules that are part of those of `partition`, and hold what these do.
  void follow(const Partition& partition, size_t from);

  // Whether all reads of these granules are ordered before; whether there is one of a granule.
  bool known(Runs runs, const OrderCheck& check) const;
  bool has(size_t granule) const;
  // Forgets them.
  void forget(Runs runs);

 private:
  struct Read {
    Time time;
    Mask lanes;
    int32_t record;
  };
  struct Row {
    Zeros<Read> reads;
    bool used = false;
    size_t low = SIZE_MAX, high = 0;  // granules that it may have read lie between
  };
  std::vector<Row> rows_;
  Zeros<Mask> met_;
  std::vector<Mask> new_;
};

}  // namespace emu::races
