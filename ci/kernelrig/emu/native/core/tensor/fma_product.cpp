#include "tensor/fma_product.hpp"

#include <algorithm>
#include <vector>

#ifdef __FMA__
#include <immintrin.h>
#endif

namespace emu {

#ifdef __FMA__
namespace {

constexpr uint32_t ONE_NAN = 0x7FFFFFFF;

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

// A block of D, ROWS x `vectors`; `b` is the panel, by k.
template <class T, int vectors, bool adds>
void block(const MatrixProduct& p, int64_t row, const float* b, float* d) {
  typename T::V sums[ROWS][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      sums[r][v] = T::zero();
  const int64_t by_row = p.a.by_columns ? 1 : p.a.stride, by_k = p.a.by_columns ? p.a.stride : 1;
  const float* a = p.a.values + row * by_row;
  for (int64_t k = 0; k < p.k; k++, a += by_k, b += vectors * T::WIDTH) {
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

template <class T, int vectors> void panel(const MatrixProduct& p, int64_t column, float* packed) {
  pack(p, column, vectors * T::WIDTH, packed);
  for (int64_t row = 0; row < p.m; row += ROWS) {
    float* d = p.d + row * p.stride + column;
    if (p.adds)
      block<T, vectors, true>(p, row, packed, d);
    else
      block<T, vectors, false>(p, row, packed, d);
  }
}

}  // namespace

bool has_fma_product(const MatrixProduct& p) {
  return p.m % ROWS == 0 && p.n % STEP == 0 && p.k % STEP == 0;
}

void fma_product(const MatrixProduct& p) {
  thread_local std::vector<float> packed;
  packed.resize(size_t(p.k * MOST_VECTORS * Widest::WIDTH));
  float* const at = packed.data();
  constexpr int WIDTH = Widest::WIDTH;
  int64_t column = 0;
  for (; column + 3 * WIDTH <= p.n; column += 3 * WIDTH)
    panel<Widest, 3>(p, column, at);
  for (; column + 2 * WIDTH <= p.n; column += 2 * WIDTH)
    panel<Widest, 2>(p, column, at);
  for (; column + WIDTH <= p.n; column += WIDTH)
    panel<Widest, 1>(p, column, at);
  for (; column < p.n; column += STEP)
    panel<Ymm, 1>(p, column, at);
}
#else
bool has_fma_product(const MatrixProduct&) { return false; }
void fma_product(const MatrixProduct&) {}
#endif

}  // namespace emu
