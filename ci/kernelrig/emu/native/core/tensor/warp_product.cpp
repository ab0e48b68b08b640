// mma.sync, mma.sp and movmatrix: tensor/warp_product.py, which says where elements lie and how they
// are summed. `mma.f32`, `mma.f16`, `mma.s32`, `mma.f64`, and `mma.sp.` of the first three.
//
// Operands: the registers of D, then of A, B and C, and the metadata of mma.sp. Immediates: the rows
// of A, the elements of K, the types of A and B in the order of tensor.formats.FORMATS, and whether
// integers saturate; of mma.sp the selector, and whether indexes are ordered.
//
// A warp that misses lanes, metadata that no matrix has, and sums as hardware makes them, are the
// Python step's.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "machine.hpp"
#include "rounding.hpp"
#include "sync/sync.hpp"
#include "tensor/matrix_operand.hpp"
#include "tensor/sparse_metadata.hpp"

namespace emu {
namespace {

constexpr int COLUMNS = 8, ROWS = 16, SHARING = 4;  // lanes that share a row
constexpr int WORDS = 16;                           // of 32 or 64 bits, of a row at most
constexpr int ELEMENTS = 64;                        // of a row at most

bool is_whole(const Context& context) {
  return std::all_of(context.rows, context.rows + context.count,
                     [](const Row& row) { return row.lanes == ALL; });
}

// What the instruction says, and where its registers stand among the operands. `k` and `words` are
// of B, `stored` and `words_a` of A.
struct WarpForm {
  int m, k, stored, words, words_a, halves;
  int a, b, c, metadata;

  WarpForm(const Instruction& instruction, int element_bytes, int word_bytes, bool sparse = false)
      : m(int(instruction.immediates[0])), k(int(instruction.immediates[1])),
        stored(sparse ? k / 2 : k), words(k * element_bytes / word_bytes),
        words_a(sparse ? words / 2 : words), halves(m / COLUMNS), a(instruction.outs),
        b(a + halves * words_a / SHARING), c(b + words / SHARING), metadata(c + instruction.outs) {}
};

Sparsity sparsity_of(const Instruction& instruction, const WarpForm& form, int element_bytes) {
  return {form.k, element_bytes, int(instruction.immediates[5]), instruction.immediates[6] != 0};
}

bool has_wrong_codes(const Context& context, const Operand& metadata, const Sparsity& sparsity) {
  return std::any_of(context.rows, context.rows + context.count, [&](const Row& row) {
    return sparsity.any_wrong(context.in<uint32_t>(row, metadata));
  });
}

// The words of A, or of B, whose columns are the rows of one half.
template <class T>
void words_of(const Context& context, const Row& row, const Operand* registers, int halves,
              int words, T* into) {
  for (int n = 0; n < halves * words / SHARING; n++) {
    const T* held = context.in<T>(row, registers[n]);
    T* first = into + n % halves * COLUMNS * words + n / halves * SHARING;
    for (int lane = 0; lane < LANES; lane++)
      first[lane / SHARING * words + lane % SHARING] = held[lane];
  }
}

// Calls `body(row, column, number of the register, lane, which of its halves)` for elements of D.
template <class Body> void each_of_d(const WarpForm& form, bool paired, Body body) {
  for (int half = 0; half < form.halves; half++)
    for (int column = 0; column < COLUMNS; column++)
      for (int row = 0; row < COLUMNS; row++)
        body(half * COLUMNS + row, column, paired ? half : 2 * half + column % 2,
             row * SHARING + column / 2, column % 2);
}

// The sums over K, in its order, in double; columns are vectors. `positions`: of a sparse A, the
// elements of K that those of its rows are.
void sums_of(const float* a, const float* b, const WarpForm& form,
             const uint8_t (*positions)[STORED], double (*into)[COLUMNS]) {
  double columns[ELEMENTS][COLUMNS];
  for (int column = 0; column < COLUMNS; column++)
    for (int k = 0; k < form.k; k++)
      columns[k][column] = b[column * form.k + k];
  for (int row = 0; row < form.m; row++) {
    double total[COLUMNS] = {};
    for (int k = 0; k < form.stored; k++) {
      const double left = a[row * form.stored + k];
      const double* right = columns[positions ? positions[row][k] : k];
      for (int column = 0; column < COLUMNS; column++)
        total[column] += left * right[column];
    }
    std::memcpy(into[row], total, sizeof total);
  }
}

// Whether sums are made as hardware makes them. There is no such part where a test runs a handler.
bool as_hardware(const Core& core) { return core.sync && core.sync->warpgroups.off; }

// D as floats, or of pairs of halves.
template <bool paired, bool sparse>
Result floats(Context& context, const Instruction& instruction) {
  if (!is_whole(context) || as_hardware(context.core))
    return FALLBACK;
  const Element of_a = Element(instruction.immediates[2]), of_b = Element(instruction.immediates[3]);
  const WarpForm form(instruction, bytes_of(of_a), 4, sparse);
  const Operand* operands = instruction.operands;
  Sparsity sparsity{};
  if (sparse) {
    sparsity = sparsity_of(instruction, form, bytes_of(of_a));
    if (has_wrong_codes(context, operands[form.metadata], sparsity))
      return FALLBACK;
  }
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    uint32_t words[ROWS * WORDS];
    float a[ROWS * ELEMENTS], b[COLUMNS * ELEMENTS];
    words_of(context, row, operands + form.a, form.halves, form.words_a, words);
    decode(reinterpret_cast<uint8_t*>(words), 4 * form.m * form.words_a, of_a, a);
    words_of(context, row, operands + form.b, 1, form.words, words);
    decode(reinterpret_cast<uint8_t*>(words), 4 * COLUMNS * form.words, of_b, b);
    double sums[ROWS][COLUMNS];
    uint8_t positions[ROWS][STORED];
    if (sparse)
      for (int line = 0; line < ROWS; line++)
        sparsity.positions(context.in<uint32_t>(row, operands[form.metadata]), line,
                           positions[line]);
    sums_of(a, b, form, sparse ? positions : nullptr, sums);
    const uint32_t* held[4];
    for (int number = 0; number < instruction.outs; number++)
      held[number] = context.in<uint32_t>(row, operands[form.c + number]);
    Lanes<uint32_t> made[4];
    each_of_d(form, paired, [&](int line, int column, int number, int lane, int half) {
      const uint32_t bits = held[number][lane];
      const double total = sums[line][column];
      if (!paired) {
        made[number][lane] = bits_as<uint32_t>(canonical(float(total + bits_as<float>(bits))));
        return;
      }
      const uint32_t one = to_f16(total + of_f16(bits >> 16 * half & 0xFFFF));
      made[number][lane] = half ? made[number][lane] | one << 16 : one;
    });
    for (int number = 0; number < instruction.outs; number++)
      put(context, row, operands[number], made[number]);
  }
  return CONTINUE;
}

template <bool sparse> Result integers(Context& context, const Instruction& instruction) {
  if (!is_whole(context))
    return FALLBACK;
  const WarpForm form(instruction, 1, 4, sparse);
  const bool signs[] = {instruction.immediates[2] == S8, instruction.immediates[3] == S8};
  const bool saturates = instruction.immediates[4];
  const Operand* operands = instruction.operands;
  Sparsity sparsity{};
  if (sparse) {
    sparsity = sparsity_of(instruction, form, 1);
    if (has_wrong_codes(context, operands[form.metadata], sparsity))
      return FALLBACK;
  }
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    uint32_t words[2][ROWS * WORDS];
    words_of(context, row, operands + form.a, form.halves, form.words_a, words[0]);
    words_of(context, row, operands + form.b, 1, form.words, words[1]);
    int32_t values[2][ROWS * ELEMENTS];
    for (int which = 0; which < 2; which++) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(words[which]);
      for (int k = 0; k < (which ? COLUMNS * form.k : form.m * form.stored); k++)
        values[which][k] = signs[which] ? int8_t(bytes[k]) : bytes[k];
    }
    const int32_t* held[4];
    for (int number = 0; number < instruction.outs; number++)
      held[number] = context.in<int32_t>(row, operands[form.c + number]);
    Lanes<int32_t> made[4];
    uint8_t positions[ROWS][STORED];
    if (sparse)
      for (int line = 0; line < ROWS; line++)
        sparsity.positions(context.in<uint32_t>(row, operands[form.metadata]), line,
                           positions[line]);
    each_of_d(form, false, [&](int line, int column, int number, int lane, int) {
      const int32_t* left = values[0] + line * form.stored;
      const int32_t* right = values[1] + column * form.k;
      int32_t sum = 0;
      for (int k = 0; k < form.stored; k++)
        sum += left[k] * right[sparse ? positions[line][k] : k];
      int64_t total = int64_t(sum) + held[number][lane];
      if (saturates)
        total = std::clamp<int64_t>(total, INT32_MIN, INT32_MAX);
      made[number][lane] = int32_t(uint32_t(total));
    });
    for (int number = 0; number < instruction.outs; number++)
      put(context, row, operands[number], made[number]);
  }
  return CONTINUE;
}

// Rounded at each step of K, from C on.
Result doubles(Context& context, const Instruction& instruction) {
  if (!is_whole(context))
    return FALLBACK;
  const WarpForm form(instruction, 8, 8);
  const Operand* operands = instruction.operands;
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    double a[ROWS * WORDS], b[COLUMNS * WORDS];
    words_of(context, row, operands + form.a, form.halves, form.words, a);
    words_of(context, row, operands + form.b, 1, form.words, b);
    const double* held[4];
    for (int number = 0; number < instruction.outs; number++)
      held[number] = context.in<double>(row, operands[form.c + number]);
    Lanes<double> made[4];
    each_of_d(form, false, [&](int line, int column, int number, int lane, int) {
      double total = held[number][lane];
      for (int k = 0; k < form.k; k++)
        total = std::fma(a[line * form.k + k], b[column * form.k + k], total);
      made[number][lane] = canonical(total);
    });
    for (int number = 0; number < instruction.outs; number++)
      put(context, row, operands[number], made[number]);
  }
  return CONTINUE;
}

// Lane t holds elements 2 (t % 4) and the next one of row t / 4, and gets those of column t / 4.
Result movmatrix(Context& context, const Instruction& instruction) {
  if (!is_whole(context))
    return FALLBACK;
  for (int n = 0; n < context.count; n++) {
    const Row& row = context.rows[n];
    const uint32_t* held = context.in<uint32_t>(row, instruction.operands[1]);
    const auto element = [&](int line, int column) {
      return held[line * SHARING + column / 2] >> 16 * (column % 2) & 0xFFFF;
    };
    Lanes<uint32_t> made;
    for (int lane = 0; lane < LANES; lane++) {
      const int column = lane / SHARING, line = 2 * (lane % SHARING);
      made[lane] = element(line, column) | element(line + 1, column) << 16;
    }
    put(context, row, instruction.operands[0], made);
  }
  return CONTINUE;
}

const Handlers warp_product_handlers{
    {"mma.f32", floats<false, false>},   {"mma.f16", floats<true, false>},
    {"mma.s32", integers<false>},        {"mma.f64", doubles},
    {"mma.sp.f32", floats<false, true>}, {"mma.sp.f16", floats<true, true>},
    {"mma.sp.s32", integers<true>},      {"movmatrix.u16", movmatrix},
};

}  // namespace
}  // namespace emu
