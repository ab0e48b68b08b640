#include "tensor/products.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "machine.hpp"
#include "rounding.hpp"
#include "tensor/fma_product.hpp"

using namespace emu;

namespace emu {
namespace {

constexpr uint32_t INFINITE = 0x7F800000, SIGN = 0x80000000, ONE_NAN = 0x7FFFFFFF;

bool has_nan(const uint32_t* words, int64_t count) {
  constexpr int BLOCK = 16;  // as vectors
  uint32_t largest[BLOCK] = {};
  int64_t n = 0;
  for (; n + BLOCK <= count; n += BLOCK)
    for (int lane = 0; lane < BLOCK; lane++)
      largest[lane] = std::max(largest[lane], words[n + lane] & ~SIGN);
  for (; n < count; n++)
    largest[0] = std::max(largest[0], words[n] & ~SIGN);
  return *std::max_element(largest, largest + BLOCK) > INFINITE;
}

// NaNs become the one that tensor cores make.
void make_canonical(float* values, int64_t count) {
  auto* words = reinterpret_cast<uint32_t*>(values);
  if (has_nan(words, count))
    for (int64_t n = 0; n < count; n++)
      words[n] = (words[n] & ~SIGN) > INFINITE ? ONE_NAN : words[n];
}

void make_by_blas(Products::Sgemm sgemm, const MatrixProduct& p) {
  constexpr int BY_ROWS = 101, AS_IS = 111, TRANSPOSED = 112;  // of cblas
  sgemm(BY_ROWS, p.a.by_columns ? TRANSPOSED : AS_IS, p.b.by_columns ? AS_IS : TRANSPOSED, p.m,
        p.n, p.k, 1, p.a.values, p.a.stride, p.b.values, p.b.stride, p.adds ? 1 : 0, p.d, p.stride);
  for (int64_t row = 0; row < p.m; row++)
    make_canonical(p.d + row * p.stride, p.n);
}

// Floats of both signs whose exponents lie anywhere between two, and some that are special.
class Drawn {
public:
  Drawn(int lowest, int highest, bool specials)
      : lowest(uint64_t(lowest)), range(uint64_t(highest - lowest + 1)), specials(specials) {}

  std::vector<float> values(int64_t count) {
    std::vector<float> made(static_cast<size_t>(count));
    for (float& value : made)
      value = one();
    return made;
  }

private:
  uint64_t lowest, range, state = 0x9E3779B97F4A7C15;
  bool specials;

  float one() {
    state = state * 6364136223846793005 + 1442695040888963407;
    const uint64_t bits = state >> 20;
    const uint32_t sign = uint32_t(bits) & SIGN;
    if (bits % 61 == 0)
      return bits_as<float>(sign);
    if (specials && bits % 509 == 1)
      return bits_as<float>(sign | INFINITE);
    if (specials && bits % 1021 == 2)
      return bits_as<float>(sign | ONE_NAN);
    const uint32_t exponent = uint32_t(lowest + (bits >> 24) % range + 127);
    return bits_as<float>(sign | exponent << 23 | (uint32_t(bits) & 0x7FFFFF));
  }
};

// Whether fma_product makes the bits of `sgemm`: of values that cancel, that vanish, and that are
// too large or special; of each, once with rows of A that are zero. A BLAS may add up its last rows
// or columns in another order than the rest, so all are looked at.
bool does_the_same(Products::Sgemm sgemm, MatrixProduct p) {
  constexpr int64_t ROWS = 8;
  struct Range {
    int lowest, highest;
    bool specials, zeros;
  };
  for (const auto& [lowest, highest, specials, zeros] :
       {Range{-12, 12, false, false}, Range{-12, 12, false, true}, Range{-76, -58, false, false},
        Range{40, 66, true, false}, Range{40, 66, true, true}}) {
    Drawn drawn(lowest, highest, specials);
    std::vector<float> a = drawn.values(p.m * p.k);
    const std::vector<float> b = drawn.values(p.n * p.k);
    for (int64_t row = 0; row < p.m; row++)
      for (int64_t k = 0; zeros && row / ROWS % 2 && k < p.k; k++) {
        float& value = a[size_t(p.a.by_columns ? k * p.m + row : row * p.k + k)];
        value = bits_as<float>(bits_as<uint32_t>(value) & SIGN);
      }
    std::vector<float> found = drawn.values(p.m * p.n), wanted = found;
    p.a.values = a.data();
    p.a.stride = p.a.by_columns ? p.m : p.k;
    p.b.values = b.data();
    p.b.stride = p.b.by_columns ? p.n : p.k;
    p.stride = p.n;
    p.d = wanted.data();
    make_by_blas(sgemm, p);
    p.d = found.data();
    fma_product(p);
    if (std::memcmp(found.data(), wanted.data(), found.size() * sizeof(float)))
      return false;
  }
  return true;
}

// The same, tried once for products of a size.
bool is_fma_product(Products::Sgemm sgemm, const MatrixProduct& p) {
  if (!has_fma_product(p))
    return false;
  using Size = std::array<int64_t, 7>;
  thread_local std::map<Size, bool> tried;
  const Size size{p.m, p.n, p.k, p.a.by_columns, p.b.by_columns, p.adds,
                  int64_t(reinterpret_cast<intptr_t>(sgemm))};
  const auto found = tried.find(size);
  return found != tried.end() ? found->second
                              : tried.emplace(size, does_the_same(sgemm, p)).first->second;
}

}  // namespace

bool Products::make(const MatrixProduct& p) const {
  if (!sgemm)
    return python(&p) >= 0;
  if (is_fma_product(sgemm, p))
    fma_product(p);
  else
    make_by_blas(sgemm, p);
  return true;
}

}  // namespace emu

extern "C" {

// How products are made: by a cblas_sgemm with 64-bit integers, or where it is null by Python.
void core_products(Core* core, Products::Sgemm sgemm, int (*python)(const MatrixProduct*)) {
  core->products = {sgemm, python};
}

// `Products::make`, for tests.
int core_multiply(Products::Sgemm sgemm, int (*python)(const MatrixProduct*),
                  const MatrixProduct* product) {
  return Products{sgemm, python}.make(*product);
}
}
