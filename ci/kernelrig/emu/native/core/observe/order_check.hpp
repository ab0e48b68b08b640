// Whether earlier accesses are ordered before the access under way: kernelrig.emu.observe.
// order_check. Three steps, from cheap to exact: whole records first (`settled`), then each code by
// its lane, and what is left one by one (`excused`).
#pragma once

#include <set>

#include "access_records.hpp"
#include "threads.hpp"

namespace emu::races {

enum Space : int { SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_TENSOR };

// An access under way: by lanes of a warp that know the same, or by an operation.
struct Access {
  Actor* who;
  Operation* operation;  // the same, if it is one
  bool asynchronous;
  const Clock* clock;
  const Known* known;
  int space, size;
  bool write;
  int level, at;
  Mask bits;
  Time copied;  // up to when each lane has waited for copies of its own
  Time issued;  // of its warp, when lanes issued the operation: what they did by then comes before
  bool atomic = false;
};

// The columns of the threads that access: one for all granules, or one each; -1 is several threads.
struct Own {
  int one;
  const int32_t* each;
  int of(size_t i) const { return each ? each[i] : one; }
};

class OrderCheck {
 public:
  // `watch` takes operations of other CTAs that are ordered before, but by threads alone. `several`
  // says whether there is more than one cluster.
  OrderCheck(const Records& records, const Access* access, const Piece* piece, int level,
             bool several, std::set<Code>* watch);
  // One that knows no order.
  explicit OrderCheck(const Records& records) : records_(records) {}

  // Whether all of a record is ordered before it, as far as one look shows.
  bool settled(int number) const;
  // The same, and whether threads alone order it, of a record that is settled.
  bool settles(int number) const;
  bool advises(int number) const;
  // Whether an operation whose column is `own` is ordered behind a code that is not settled.
  bool orders(Code code, int own) const;
  // Whether what the warp of `column` did by `time` is ordered before it.
  bool knows(int column, Time time) const;
  // Marks in `bad` which of the codes are not ordered before; false where all are (`bad` then holds
  // nothing of use).
  bool unordered(const Code* codes, size_t count, Own own, uint8_t* bad) const;

 private:
  bool wrong(Code code, int own) const;
  bool excused(Code code, const Code* codes, size_t count, Own own, const uint8_t* bad) const;
  bool morally_strong(const Record& record) const;

  const Records& records_;
  const Access* access_ = nullptr;
  const Piece* piece_ = nullptr;
  int level_ = 0;
  bool several_ = false;
  std::set<Code>* watch_ = nullptr;
  int rows_[2] = {SAME, SAME};  // of the clock, for accesses of the generic and the async proxy
};

}  // namespace emu::races
