#include "tensor/fma_product.hpp"

#include <algorithm>
#include <vector>

#include "rounding.hpp"

#ifdef __FMA__
#include <immintrin.h>
#endif

namespace emu {

#ifdef __FMA__
namespace {

constexpr uint32_t INFINITE = 0x7F800000, ONE_NAN = 0x7FFFFFFF;

struct Ymm {
  static constexpr int WIDTH = 8;
  using V = __m256;
  static V load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* into, V value) { _mm256_storeu_ps(into, value); }
  static V all(const float* value) { return _mm256_broadcast_ss(value); }
  static V zero() { return _mm256_setzero_ps(); }
  static V multiply_add(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V add(V a, V b) { return _mm256_add_ps(a, b); }
  static V canonical(V value) {
    const V nan = _mm256_castsi256_ps(_mm256_set1_epi32(int(ONE_NAN)));
    return _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  }
};

#ifdef __AVX512F__
struct Zmm {
  static constexpr int WIDTH = 16;
  using V = __m512;
  static V load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* into, V value) { _mm512_storeu_ps(into, value); }
  static V all(const float* value) { return _mm512_set1_ps(*value); }
  static V zero() { return _mm512_setzero_ps(); }
  static V multiply_add(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V add(V a, V b) { return _mm512_add_ps(a, b); }
  static V canonical(V value) {
    const __m512i nan = _mm512_set1_epi32(int(ONE_NAN));
    const __mmask16 wrong = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(_mm512_castps_si512(value), wrong, nan));
  }
};
using Widest = Zmm;
constexpr int ROWS = 8;  // of a block: with its 3 vectors a row, 24 of 32 registers
#else
using Widest = Ymm;
constexpr int ROWS = 4;  // 12 of 16
#endif
constexpr int MOST_VECTORS = 3, STEP = Ymm::WIDTH;

// A block of D, ROWS x `vectors`; `b` is the panel, by k: up to `last` of them.
template <class T, int vectors, bool adds>
void block(const MatrixProduct& p, int64_t row, const float* b, int64_t last, float* d) {
  typename T::V sums[ROWS][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      sums[r][v] = T::zero();
  const int64_t by_row = p.a.by_columns ? 1 : p.a.stride, by_k = p.a.by_columns ? p.a.stride : 1;
  const float* a = p.a.values + row * by_row;
  for (int64_t k = 0; k < last; k++, a += by_k, b += vectors * T::WIDTH) {
    typename T::V of_b[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      of_b[v] = T::load(b + v * T::WIDTH);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
      const typename T::V of_a = T::all(a + r * by_row);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++)
        sums[r][v] = T::multiply_add(of_a, of_b[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++, d += p.stride)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
      float* into = d + v * T::WIDTH;
      const typename T::V start = adds ? T::load(into) : T::zero();
      T::store(into, T::canonical(T::add(start, sums[r][v])));
    }
}

// Lay out columns of D from `column` on, rows of B, by k.
void pack(const MatrixProduct& p, int64_t column, int width, float* into) {
  const int64_t stride = p.b.stride;
  if (p.b.by_columns) {
    for (int64_t k = 0; k < p.k; k++)
      std::copy_n(p.b.values + k * stride + column, width, into + k * width);
    return;
  }
  for (int n = 0; n < width; n += STEP)
    for (int64_t k = 0; k < p.k; k += STEP) {  // 8 x 8 at a time
      const float* from = p.b.values + (column + n) * stride + k;
      __m256 rows[STEP], pairs[STEP];
      for (int r = 0; r < STEP; r++)
        rows[r] = _mm256_loadu_ps(from + r * stride);
      for (int r = 0; r < STEP; r += 2) {
        pairs[r] = _mm256_unpacklo_ps(rows[r], rows[r + 1]);
        pairs[r + 1] = _mm256_unpackhi_ps(rows[r], rows[r + 1]);
      }
      for (int r = 0; r < STEP; r += 4) {
        rows[r] = _mm256_shuffle_ps(pairs[r], pairs[r + 2], 0x44);
        rows[r + 1] = _mm256_shuffle_ps(pairs[r], pairs[r + 2], 0xEE);
        rows[r + 2] = _mm256_shuffle_ps(pairs[r + 1], pairs[r + 3], 0x44);
        rows[r + 3] = _mm256_shuffle_ps(pairs[r + 1], pairs[r + 3], 0xEE);
      }
      for (int r = 0; r < 4; r++) {
        float* low = into + (k + r) * width + n;
        _mm256_storeu_ps(low, _mm256_permute2f128_ps(rows[r], rows[r + 4], 0x20));
        _mm256_storeu_ps(low + 4 * width, _mm256_permute2f128_ps(rows[r], rows[r + 4], 0x31));
      }
    }
}

// Whether no value is infinite or a NaN.
bool are_finite(const float* values, int64_t count) {
  uint32_t largest[STEP] = {};
  for (int64_t n = 0; n < count; n += STEP)
    for (int lane = 0; lane < STEP; lane++)
      largest[lane] = std::max(largest[lane], bits_as<uint32_t>(values[n + lane]) << 1);
  return *std::max_element(largest, largest + STEP) < INFINITE << 1;
}

// Whether all values are zero, of lines that lie `stride` apart.
bool are_zero(const float* values, int64_t lines, int64_t length, int64_t stride) {
  for (int64_t line = 0; line < lines; line++, values += stride) {
    uint32_t any = 0;
    for (int64_t n = 0; n < length; n++)
      any |= bits_as<uint32_t>(values[n]) << 1;
    if (any)
      return false;
  }
  return true;
}

// Which blocks have rows of A that are zero, as those beyond a tensor are: with finite B, they add
// zero. Returns whether there are any.
bool find_zeros(const MatrixProduct& p, std::vector<uint8_t>& blocks) {
  blocks.clear();
  bool any = false;
  for (int64_t row = 0; row < p.m; row += ROWS) {
    const bool zero = p.a.by_columns
                          ? are_zero(p.a.values + row, p.k, ROWS, p.a.stride)
                          : are_zero(p.a.values + row * p.a.stride, ROWS, p.k, p.a.stride);
    blocks.push_back(zero);
    any |= zero;
  }
  return any;
}

template <class T, int vectors>
void panel(const MatrixProduct& p, const uint8_t* zeros, int64_t column, float* packed) {
  constexpr int width = vectors * T::WIDTH;
  pack(p, column, width, packed);
  const bool skips = zeros && are_finite(packed, p.k * width);
  for (int64_t row = 0; row < p.m; row += ROWS) {
    float* d = p.d + row * p.stride + column;
    const int64_t last = skips && zeros[row / ROWS] ? 0 : p.k;
    if (p.adds)
      block<T, vectors, true>(p, row, packed, last, d);
    else
      block<T, vectors, false>(p, row, packed, last, d);
  }
}

}  // namespace

bool has_fma_product(const MatrixProduct& p) {
  return p.m % ROWS == 0 && p.n % STEP == 0 && p.k % STEP == 0;
}

void fma_product(const MatrixProduct& p) {
  thread_local std::vector<float> packed;
  thread_local std::vector<uint8_t> blocks;
  packed.resize(size_t(p.k * MOST_VECTORS * Widest::WIDTH));
  float* const at = packed.data();
  constexpr int WIDTH = Widest::WIDTH;
  const uint8_t* const zeros = find_zeros(p, blocks) ? blocks.data() : nullptr;
  int64_t column = 0;
  for (; column + 3 * WIDTH <= p.n; column += 3 * WIDTH)
    panel<Widest, 3>(p, zeros, column, at);
  for (; column + 2 * WIDTH <= p.n; column += 2 * WIDTH)
    panel<Widest, 2>(p, zeros, column, at);
  for (; column + WIDTH <= p.n; column += WIDTH)
    panel<Widest, 1>(p, zeros, column, at);
  for (; column < p.n; column += STEP)
    panel<Ymm, 1>(p, zeros, column, at);
}
#else
bool has_fma_product(const MatrixProduct&) { return false; }
void fma_product(const MatrixProduct&) {}
#endif

}  // namespace emu
