#include "tensor/products.hpp"

#include <algorithm>

#include "machine.hpp"

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

}  // namespace

bool Products::make(const MatrixProduct& p) const {
  if (!sgemm)
    return python(&p) >= 0;
  constexpr int BY_ROWS = 101, AS_IS = 111, TRANSPOSED = 112;  // of cblas
  sgemm(BY_ROWS, p.a.by_columns ? TRANSPOSED : AS_IS, p.b.by_columns ? AS_IS : TRANSPOSED, p.m,
        p.n, p.k, 1, p.a.values, p.a.stride, p.b.values, p.b.stride, p.adds ? 1 : 0, p.d, p.stride);
  for (int64_t row = 0; row < p.m; row++)
    make_canonical(p.d + row * p.stride, p.n);
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
