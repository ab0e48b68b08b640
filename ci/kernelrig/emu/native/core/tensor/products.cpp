#include "tensor/products.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "rounding.hpp"

namespace emu {
namespace {

// Of vectors as wide as the CPU has them: rows of a block, and vectors of a row, that registers hold.
#if defined(__AVX512F__)
constexpr int BYTES = 64, ROWS = 8, MOST_VECTORS = 3;
#elif defined(__AVX__)
constexpr int BYTES = 32, ROWS = 4, MOST_VECTORS = 2;
#else
constexpr int BYTES = 16, ROWS = 4, MOST_VECTORS = 2;
#endif
constexpr int WIDTH = BYTES / int(sizeof(float)), QUAD = 4;
typedef float Vector __attribute__((vector_size(BYTES)));
typedef float Quad __attribute__((vector_size(16)));
typedef int Lanes __attribute__((vector_size(16)));

inline Vector load(const float* from) {
  Vector made;
  std::memcpy(&made, from, BYTES);
  return made;
}
inline void store(float* into, Vector values) { std::memcpy(into, &values, BYTES); }

// A panel of B, laid out by k, as wide as columns of D: whole vectors.
struct Panel {
  const float* b;
  float* d;
  int64_t stride;
  bool adds, finite;
};

// Rows of A from `row` on, and the panel, as far as `last` of k.
template <int rows, int vectors>
void block(const MatrixProduct& p, int64_t row, const Panel& panel, int64_t last) {
  Vector sums[rows][vectors];  // in registers, which takes loops that are unrolled
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      sums[r][v] = Vector{};
  const int64_t by_row = p.a.by_columns ? 1 : p.a.stride, by_k = p.a.by_columns ? p.a.stride : 1;
  const float *a = p.a.values + row * by_row, *b = panel.b;
  for (int64_t k = 0; k < last; k++, a += by_k, b += vectors * WIDTH) {
    Vector of_b[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      of_b[v] = load(b + v * WIDTH);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++)
        sums[r][v] += a[r * by_row] * of_b[v];  // two roundings: the compiler contracts nothing
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

// Let 4 x 4 values be columns that were rows.
void transpose(const float* from, int64_t stride, float* into, int64_t width) {
  Quad rows[QUAD], halves[QUAD];
  for (int n = 0; n < QUAD; n++)
    std::memcpy(&rows[n], from + n * stride, sizeof(Quad));
  for (int n = 0; n < QUAD; n += 2) {
    halves[n] = __builtin_shuffle(rows[n], rows[n + 1], Lanes{0, 4, 1, 5});
    halves[n + 1] = __builtin_shuffle(rows[n], rows[n + 1], Lanes{2, 6, 3, 7});
  }
  for (int n = 0; n < 2; n++) {
    rows[2 * n] = __builtin_shuffle(halves[n], halves[n + 2], Lanes{0, 1, 4, 5});
    rows[2 * n + 1] = __builtin_shuffle(halves[n], halves[n + 2], Lanes{2, 3, 6, 7});
  }
  for (int n = 0; n < QUAD; n++)
    std::memcpy(into + n * width, &rows[n], sizeof(Quad));
}

// Lay out columns of D from `column` on, rows of B, by k; zeros behind them up to `width`.
void pack(const MatrixProduct& p, int64_t column, int64_t columns, int64_t width, float* into) {
  const int64_t stride = p.b.stride;
  if (columns < width)
    std::fill_n(into, p.k * width, 0.0f);
  if (p.b.by_columns) {
    for (int64_t k = 0; k < p.k; k++)
      std::copy_n(p.b.values + k * stride + column, columns, into + k * width);
    return;
  }
  const int64_t fours = p.k % QUAD ? 0 : columns / QUAD * QUAD;
  const float* from = p.b.values + column * stride;
  for (int64_t n = 0; n < fours; n += QUAD, from += QUAD * stride)
    for (int64_t k = 0; k < p.k; k += QUAD)
      transpose(from + k, stride, into + k * width + n, width);
  for (int64_t n = fours; n < columns; n++, from += stride)
    for (int64_t k = 0; k < p.k; k++)
      into[k * width + n] = from[k];
}

// The largest of values that lie in lines `stride` apart, as bits without the sign.
uint32_t largest(const float* values, int64_t lines, int64_t length, int64_t stride) {
  uint32_t found = 0;
  for (int64_t line = 0; line < lines; line++, values += stride)
    for (int64_t n = 0; n < length; n++)
      found = std::max(found, bits_as<uint32_t>(values[n]) & 0x7FFFFFFF);
  return found;
}

// Which blocks have rows of A that are all zero, as those beyond a tensor are: they add zero, where
// B is finite.
const std::vector<uint8_t>& find_zeros(const MatrixProduct& p) {
  thread_local std::vector<uint8_t> blocks;
  blocks.clear();
  for (int64_t row = 0; row + ROWS <= p.m; row += ROWS)
    blocks.push_back(!(p.a.by_columns
                           ? largest(p.a.values + row, p.k, ROWS, p.a.stride)
                           : largest(p.a.values + row * p.a.stride, ROWS, p.k, p.a.stride)));
  return blocks;
}

template <int vectors>
void multiply_panel(const MatrixProduct& p, const std::vector<uint8_t>& zeros, const Panel& panel) {
  int64_t row = 0;
  for (const uint8_t zero : zeros) {
    block<ROWS, vectors>(p, row, panel, zero && panel.finite ? 0 : p.k);
    row += ROWS;
  }
  for (; row < p.m; row++)
    block<1, vectors>(p, row, panel, p.k);
}

void copy_rows(const float* from, int64_t stride, float* into, int64_t other, int64_t rows,
               int64_t columns) {
  for (int64_t row = 0; row < rows; row++)
    std::copy_n(from + row * stride, columns, into + row * other);
}

}  // namespace

void multiply(const MatrixProduct& p) {
  thread_local std::vector<float> packed, last;
  packed.resize(size_t(p.k * MOST_VECTORS * WIDTH));
  const std::vector<uint8_t>& zeros = find_zeros(p);
  const bool any = std::find(zeros.begin(), zeros.end(), 1) != zeros.end();
  for (int64_t column = 0; column < p.n;) {
    const int64_t columns = std::min(p.n - column, int64_t(MOST_VECTORS * WIDTH));
    const int64_t vectors = (columns + WIDTH - 1) / WIDTH, width = vectors * WIDTH;
    pack(p, column, columns, width, packed.data());
    float* const d = p.d + column;
    Panel panel{packed.data(), d, p.stride, p.adds != 0,
                any && largest(packed.data(), 1, p.k * width, 0) < 0x7F800000};
    if (columns < width) {  // D ends within a vector
      last.resize(size_t(p.m * width));
      panel.d = last.data();
      panel.stride = width;
      if (p.adds)
        copy_rows(d, p.stride, panel.d, width, p.m, columns);
    }
    if (vectors == 1)
      multiply_panel<1>(p, zeros, panel);
    else if (vectors == 2)
      multiply_panel<2>(p, zeros, panel);
    else
      multiply_panel<MOST_VECTORS>(p, zeros, panel);
    if (columns < width)
      copy_rows(panel.d, width, d, p.stride, p.m, columns);
    column += columns;
  }
}

}  // namespace emu

// For tests.
extern "C" void core_multiply(const emu::MatrixProduct* product) { emu::multiply(*product); }
