// Bits of integers: counting, finding, reversing them, and fields of them.
#include "lanes.hpp"

namespace emu {
namespace {

template <class T> constexpr uint32_t WIDTH = 8 * sizeof(T);
template <class T> using Unsigned = std::make_unsigned_t<T>;

struct Count {
  uint32_t operator()(uint32_t a) const { return uint32_t(__builtin_popcount(a)); }
  uint32_t operator()(uint64_t a) const { return uint32_t(__builtin_popcountll(a)); }
};

uint32_t leading_zeros(uint32_t a) { return a ? uint32_t(__builtin_clz(a)) : 32; }
uint32_t leading_zeros(uint64_t a) { return a ? uint32_t(__builtin_clzll(a)) : 64; }
struct LeadingZeros {
  template <class T> uint32_t operator()(T a) const { return leading_zeros(a); }
};

// The highest bit that is no copy of the sign; with `Amount`, by how much to shift it to the top.
template <bool Amount> struct Find {
  template <class T> uint32_t operator()(T a) const {
    const Unsigned<T> bits = Unsigned<T>(a < 0 ? ~a : a);
    const uint32_t zeros = leading_zeros(bits);
    return bits == 0 ? ~0u : Amount ? zeros : WIDTH<T> - 1 - zeros;
  }
};

struct Reverse {
  template <class T> T operator()(T x) const {
    x = swapped<T>(x, 1, 0x5555555555555555);
    x = swapped<T>(x, 2, 0x3333333333333333);
    x = swapped<T>(x, 4, 0x0F0F0F0F0F0F0F0F);
    return bytes(x);
  }
  template <class T> static T swapped(T x, int by, uint64_t mask) {
    return T((x & T(mask)) << by | (x >> by & T(mask)));
  }
  static uint32_t bytes(uint32_t x) { return __builtin_bswap32(x); }
  static uint64_t bytes(uint64_t x) { return __builtin_bswap64(x); }
};

// Where a field begins and how many bits it has, as far as that matters.
struct Field {
  uint32_t first, count;
};
template <class T> Field field(uint32_t first, uint32_t count) {
  if (WIDTH<T> == 64)  // all 32 bits of each count
    return {first < 64 ? first : 64, count < 64 ? count : 64};
  return {first & 0xFF, count & 0xFF};
}

template <class T> T left(T x, uint32_t by) { return by < WIDTH<T> ? T(Unsigned<T>(x) << by) : 0; }

struct Extract {
  template <class T> T operator()(T a, uint32_t position, uint32_t length) const {
    const Field f = field<T>(position, length);
    const T fill = std::is_signed_v<T> ? T(a >> (WIDTH<T> - 1)) : T(0);
    if (f.count == 0)
      return 0;
    if (f.first >= WIDTH<T>)
      return fill;
    // Pushed against the top, then down, so that the sign comes along.
    const uint32_t end = f.first + f.count < WIDTH<T> ? f.first + f.count : WIDTH<T>;
    return T(T(Unsigned<T>(a) << (WIDTH<T> - end)) >> (WIDTH<T> - (end - f.first)));
  }
};
// Of a field that lies in the register: up, then down.
struct ExtractBy {
  uint32_t up, down;
  explicit ExtractBy(Immediates immediates)
      : up(uint32_t(immediates[0])), down(uint32_t(immediates[1])) {}
  template <class T> T operator()(T a) const { return T(T(Unsigned<T>(a) << up) >> down); }
};

struct Insert {
  template <class T> T operator()(T a, T b, uint32_t position, uint32_t length) const {
    const Field f = field<T>(position, length);
    const T ones = f.count >= WIDTH<T> ? T(~T(0)) : T((T(1) << f.count) - 1);
    const T mask = left(ones, f.first);
    return T((b & ~mask) | (left(a, f.first) & mask));
  }
};

template <bool Wraps> struct Ones {
  uint32_t operator()(uint32_t first, uint32_t count) const {
    if (Wraps)
      first &= 31, count &= 31;
    return left(count >= 32 ? ~0u : (1u << count) - 1, first);
  }
};

template <bool Wraps> struct Extend {
  template <class T> T operator()(T a, uint32_t count) const {
    count = Wraps ? count & 31 : count < 32 ? count : 32;
    const uint32_t up = 32 - (count ? count : 1);
    return count ? T(T(uint32_t(a) << up) >> up) : T(0);
  }
};

template <class Operation, class... T> NamedHandlers fields(const std::string& word) {
  return {named<Operation, T, uint32_t, uint32_t>(typed<T>(word))...};
}
template <class Operation> NamedHandlers extensions(const std::string& word) {
  return {named<Operation, uint32_t, uint32_t>(word + ".u32"),
          named<Operation, int32_t, uint32_t>(word + ".s32")};
}

const Handlers handlers(joined(
    unary<Count, uint32_t, uint64_t>("popc"), unary<LeadingZeros, uint32_t, uint64_t>("clz"),
    unary<Find<false>, uint32_t, int32_t, uint64_t, int64_t>("bfind"),
    unary<Find<true>, uint32_t, int32_t, uint64_t, int64_t>("bfind.shiftamt"),
    unary<Reverse, uint32_t, uint64_t>("brev"),
    fields<Extract, uint32_t, int32_t, uint64_t, int64_t>("bfe"),
    unary<ExtractBy, uint32_t, int32_t, uint64_t, int64_t>("bfe_by"),
    NamedHandlers{named<Insert, uint32_t, uint32_t, uint32_t, uint32_t>("bfi.u32"),
                  named<Insert, uint64_t, uint64_t, uint32_t, uint32_t>("bfi.u64")},
    binary<Ones<false>, uint32_t>("bmsk.clamp"), binary<Ones<true>, uint32_t>("bmsk.wrap"),
    extensions<Extend<false>>("szext.clamp"), extensions<Extend<true>>("szext.wrap")));

}  // namespace
}  // namespace emu
