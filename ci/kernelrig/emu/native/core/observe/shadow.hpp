// The shadow of memory: who accessed each granule last, as kernelrig.emu.observe.shadow has it. Each
// step below decides on what it found before it writes anything: operations may name a granule
// twice.
#pragma once

#include <deque>
#include <optional>
#include <stdexcept>

#include "cached_lines.hpp"

namespace emu::races {

constexpr int FIRST_READERS = 2;
constexpr int MOST_READERS = 64;
constexpr size_t MOST_REMEMBERED = 50000;
constexpr int TENSOR_LANES = 128, TENSOR_COLUMNS = 512;

// A code, and the number of a granule among those accessed; a code once.
using Wrong = std::vector<std::pair<Code, int>>;

// What is noted of granules: one code for all, or one each.
struct Codes {
  Code one;
  const Code* each;
  Code of(size_t i) const { return each ? each[i] : one; }
};

// A read of a buffer that nothing has written yet: most of a grid's input. `lanes` is 0 of an
// operation's.
struct Remembered {
  int record, size;
  bool non_coherent;
  int64_t first, step;  // where `flat` is empty: `count` places that far apart
  uint32_t count;
  Mask lanes;
  std::vector<int64_t> flat;
};

void remember(std::deque<Remembered>& reads, int record, int size, bool non_coherent, Mask lanes,
              const int64_t* flat, size_t count);
std::vector<int64_t> places_of(const Remembered& read);

// A buffer, the shared memory of a CTA, or its tensor memory. Of what has a partition, its classes
// are the granules.
// Granules of a buffer, the number of its allocation, have no numbers: those have 31 bits.
struct TooManyGranules : std::length_error {
  TooManyGranules(int name, int shift)
      : std::length_error("too many granules"), name(name), shift(shift) {}
  int name, shift;
};

class Region {
 public:
  // `name` is the number of the allocation, or of the CTA. A buffer, without a partition, is `lazy`.
  Region(int space, int name, int64_t start, int64_t size, Records& records, Partition* partition);
  const int space, name;
  const int64_t start, size;
  int shift() const { return partition_ ? partition_->shift : shift_; }
  int64_t wrong = 0;    // conflicts that are errors
  int64_t advised = 0;  // operations that threads alone order
  std::optional<std::deque<Remembered>> unwritten;
  std::optional<Readers> readers;
  Zeros<Code> non_coherent;  // by ld.global.nc
  std::optional<CachedLines> lines;  // of a buffer

  bool strong() const { return strong_; }
  const Zeros<Code>& writes() const { return writes_; }
  const Zeros<Code>& reads() const { return reads_; }
  // The last write of a granule, of a region that knows all classes by now (`runs`, `run`).
  Code written_at(size_t granule) const {
    return writes_[partition_ ? partition_->class_of(granule) : granule];
  }

  // The granules of lanes: of `size` bytes at each of `starts`, a multiple of it.
  void granules(const int64_t* starts, size_t count, int size, Taken& taken);
  // The granules of one operation, which may come in any order; `taken` holds them if they are no
  // run.
  Where run(const int64_t* starts, size_t count, int size, Taken& taken);
  // The same for what looks at a run of them at a time; `list` may hold them.
  Runs runs(const int64_t* starts, size_t count, int size, std::vector<int32_t>& list);
  // The same of a piece of tensor memory.
  Where run(const Piece& piece, Taken& taken);
  Runs runs(const Piece& piece);

  // Notes an access of these granules, and returns what is not ordered before it. `strict` decides
  // what stays in the shadow, `check` what is a race.
  void read(Where where, Codes codes, Own own, const OrderCheck& check,
            const OrderCheck& strict, Wrong& wrong);
  // The reads and writes of granules, as they were before a write: `kept` takes them.
  struct Before {
    std::vector<Code> rows, old;
  };
  void write(Where where, Codes codes, Own own, const OrderCheck& check, Wrong& wrong,
             Before* kept = nullptr);
  void write_strongly(Where where, Codes codes, Own own, const OrderCheck& check,
                      const OrderCheck& strict, Wrong& wrong);
  // Lets what was there before a write, and is not ordered before it, stay beside it; with `weak`
  // what is weak, too.
  void keep(Where where, Before& before, Own own, const OrderCheck& check, bool weak = false);
  // The same of an operation, by the code `code` of the column `own`, where one look shows that all
  // before it is ordered and there is nothing to say; where not (false), all of it is still to enter.
  bool read_plainly(Runs runs, Code code, int own, const OrderCheck& check);
  bool write_plainly(Runs runs, Code code, int own, const OrderCheck& check);
  // Remembers reads of distinct granules; one that is ordered before stands aside.
  void note_read(Where where, Codes codes, Own own, const OrderCheck& strict);
  // Codes of granules, side by side: in place or in `copy`.
  static const Code* gather(const Zeros<Code>& from, Where where, std::vector<Code>& copy);

 private:
  int fit(const int64_t* starts, size_t count, int size, bool aligned);
  void refine(int shift);
  void follow();  // what is new in the partition
  bool is_unread(const Code* row, Code old) const;
  bool plain_reads(Where where, const OrderCheck& check, std::vector<uint8_t>& read);
  void write_unread(Where where, Codes codes, Own own, const OrderCheck& check,
                    const std::vector<size_t>& unread, Wrong& wrong);
  bool stands_aside(Where where, Codes codes, const OrderCheck& strict) const;
  bool copy_rows(Where where, std::vector<Code>& rows) const;  // false where they are empty
  bool unordered_rows(const std::vector<Code>& rows, Own own, const OrderCheck& check,
                      std::vector<uint8_t>& bad) const;
  void merge(const std::vector<size_t>& where, const std::vector<Code>& codes,
             const std::vector<Code>& rows, std::vector<size_t>& left);
  bool replaced(Code old, Code code, bool ordered) const;
  void put(const std::vector<size_t>& where, const std::vector<Code>& codes,
           const std::vector<Code>& rows, const std::vector<uint8_t>& free);
  void set(Zeros<Code>& in, Where where, Codes codes);

  Records& records_;
  Partition* const partition_;
  int shift_ = WORD;
  Zeros<Code> writes_, reads_;
  size_t slots_ = FIRST_READERS;
  bool strong_ = false;  // writes among the reads
};

}  // namespace emu::races
