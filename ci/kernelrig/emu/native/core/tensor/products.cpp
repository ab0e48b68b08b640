#include "tensor/products.hpp"

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <vector>

#include "rounding.hpp"

namespace emu {
namespace {

// Of vectors as wide as the CPU has them: rows of a block, and vectors of a row, that registers hold.
#if defined(__AVX512F__)
constexpr int BYTES = 64, BLOCK_ROWS = 8, MOST_VECTORS = 3;
#elif defined(__AVX__)
constexpr int BYTES = 32, BLOCK_ROWS = 4, MOST_VECTORS = 2;
#else
constexpr int BYTES = 16, BLOCK_ROWS = 4, MOST_VECTORS = 2;
#endif
constexpr int WIDTH = BYTES / int(sizeof(float));
typedef float Vector __attribute__((vector_size(BYTES)));

inline Vector load(const float* from) {
  Vector made;
  std::memcpy(&made, from, BYTES);
  return made;
}
inline void store(float* into, Vector values) { std::memcpy(into, &values, BYTES); }

#if defined(__AVX512F__)
constexpr bool FUSES = true;
inline Vector fused(float a, Vector b, Vector sum) {
  return _mm512_fmadd_ps(_mm512_set1_ps(a), b, sum);
}
#elif defined(__FMA__)
constexpr bool FUSES = true;
inline Vector fused(float a, Vector b, Vector sum) {
  return _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum);
}
#else
constexpr bool FUSES = false;
inline Vector fused(float a, Vector b, Vector sum) { return sum + a * b; }
#endif

// A panel of B, as wide as columns of D: whole vectors.
struct Panel {
  const float* b;
  int64_t b_stride;
  float* d;
  int64_t stride;
  bool adds, finite;
};

// Rows of A from `row` on, and the panel, as far as `last` of k.
template <int rows, int vectors, bool exact>
void block(const MatrixProduct& p, int64_t row, const Panel& panel, int64_t last) {
  Vector sums[rows][vectors];  // in registers, which takes loops that are unrolled
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      sums[r][v] = Vector{};
  const int64_t by_row = p.a.by_columns ? 1 : p.a.stride, by_k = p.a.by_columns ? p.a.stride : 1;
  const float *a = p.a.values + row * by_row, *b = panel.b;
  for (int64_t k = 0; k < last; k++, a += by_k, b += panel.b_stride) {
    Vector of_b[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      of_b[v] = load(b + v * WIDTH);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++)
        if (exact)
          sums[r][v] = fused(a[r * by_row], of_b[v], sums[r][v]);
        else  // two roundings: the compiler contracts nothing
          sums[r][v] += a[r * by_row] * of_b[v];
  }
  const Vector nan = bits_as<float>(NAN_F32) + Vector{};
  float* into = panel.d + row * panel.stride;
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++, into += panel.stride)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
      Vector made = sums[r][v];
      if (panel.adds)
        made += load(into + v * WIDTH);
      store(into + v * WIDTH, made == made ? made : nan);
    }
}

bool is_finite(const float* values, int64_t lines, int64_t length, int64_t stride) {
  for (int64_t line = 0; line < lines; line++, values += stride)
    for (int64_t n = 0; n < length; n++)
      if (values[n] - values[n] != 0)
        return false;
  return true;
}

// Whether all values are zero of lines that lie `stride` apart.
bool is_zero(const float* values, int64_t lines, int64_t length, int64_t stride) {
  for (int64_t line = 0; line < lines; line++, values += stride)
    for (int64_t n = 0; n < length; n++)
      if (values[n] != 0)
        return false;
  return true;
}

// Which blocks have rows of A that are all zero, as those beyond a tensor are: they add zero, where
// B is finite.
const std::vector<uint8_t>& find_zeros(const MatrixProduct& p) {
  thread_local std::vector<uint8_t> blocks;
  blocks.clear();
  for (int64_t row = 0; row + BLOCK_ROWS <= p.m; row += BLOCK_ROWS)
    blocks.push_back(p.a.by_columns
                         ? is_zero(p.a.values + row, p.k, BLOCK_ROWS, p.a.stride)
                         : is_zero(p.a.values + row * p.a.stride, BLOCK_ROWS, p.k, p.a.stride));
  return blocks;
}

template <int vectors, bool exact>
void multiply_panel(const MatrixProduct& p, const std::vector<uint8_t>& zeros, const Panel& panel) {
  int64_t row = 0;
  for (const uint8_t zero : zeros) {
    block<BLOCK_ROWS, vectors, exact>(p, row, panel, zero && panel.finite ? 0 : p.k);
    row += BLOCK_ROWS;
  }
  for (; row < p.m; row++)
    block<1, vectors, exact>(p, row, panel, p.k);
}
constexpr decltype(&multiply_panel<1, false>) PANELS[][2] = {
    {multiply_panel<1, false>, multiply_panel<1, FUSES>},
    {multiply_panel<2, false>, multiply_panel<2, FUSES>},
    {multiply_panel<MOST_VECTORS, false>, multiply_panel<MOST_VECTORS, FUSES>}};

void copy_rows(const float* from, int64_t stride, float* into, int64_t other, int64_t rows,
               int64_t columns) {
  for (int64_t row = 0; row < rows; row++)
    std::copy_n(from + row * stride, columns, into + row * other);
}

}  // namespace

void multiply(const MatrixProduct& p) {
  thread_local std::vector<float> last_b, last_d;
  const std::vector<uint8_t>& zeros = find_zeros(p);
  const bool any = std::find(zeros.begin(), zeros.end(), 1) != zeros.end();
  for (int64_t column = 0; column < p.n;) {
    const int64_t columns = std::min(p.n - column, int64_t(MOST_VECTORS * WIDTH));
    const int64_t vectors = (columns + WIDTH - 1) / WIDTH, width = vectors * WIDTH;
    const float* const b = p.b + column;
    float* const d = p.d + column;
    Panel panel{b, p.b_stride, d, p.stride, p.adds != 0,
                any && is_finite(b, p.k, columns, p.b_stride)};
    if (columns < width) {  // D ends within a vector
      last_b.assign(size_t(p.k * width), 0.0f);
      copy_rows(b, p.b_stride, last_b.data(), width, p.k, columns);
      panel.b = last_b.data();
      last_d.resize(size_t(p.m * width));
      panel.d = last_d.data();
      panel.b_stride = panel.stride = width;
      if (p.adds)
        copy_rows(d, p.stride, panel.d, width, p.m, columns);
    }
    PANELS[vectors - 1][p.exact != 0](p, zeros, panel);
    if (columns < width)
      copy_rows(panel.d, width, d, p.stride, p.m, columns);
    column += columns;
  }
}

}  // namespace emu

// For tests.
extern "C" void core_multiply(const emu::MatrixProduct* product) { emu::multiply(*product); }
