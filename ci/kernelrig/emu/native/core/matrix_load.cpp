// ldmatrix and stmatrix of 8x8 matrices of 16-bit elements, `ldmatrix.x4`, `stmatrix.x4`.
//
// Lane 8 m + r names row r, 16 bytes, of matrix m. Lane t holds elements 2 (t % 4) and the next one
// of row t / 4 of each matrix; transposed, of column t / 4.
//
// Immediates: the space, and whether it is transposed.
#include <cstring>

#include "memory.hpp"
#include "registry.hpp"

namespace emu {
namespace {

constexpr int ROW_BYTES = 16, ROWS_EACH = 8, ELEMENT_BYTES = 2;

// Finds the rows that lanes name. `naming` are the rows of the batch with the lanes that do.
bool rows_of(Context& context, const Instruction& instruction, int matrices, bool write,
             std::vector<Row>& naming, ThreadAccess& access) {
  const Mask wanted = matrices == 4 ? ALL : (Mask(1) << matrices * ROWS_EACH) - 1;
  naming.assign(context.rows, context.rows + context.count);
  for (Row& row : naming) {
    // Rows that no lane names are zeros; a store has values of all lanes.
    if ((write ? ALL : wanted) & ~row.lanes)
      return false;
    row.lanes = wanted;
  }
  access.rows = naming.data();
  access.count = context.count;
  access.at = instruction.at;
  access.size = ROW_BYTES;
  access.write = write;
  Memory& memory = *context.memory;
  const Operand address = instruction.operands[write ? 0 : matrices];
  return memory.locate(access, context, address, Space(instruction.immediates[0]), ROW_BYTES) &&
         access.arena == SHARED && memory.observe(access);
}

// Calls `body(bytes, half)` for both elements of a lane: where they are in the matrix that `first`
// has the positions of, and whether it is the upper half of the register.
template <class Body>
void each_element(uint8_t* bytes, const int64_t* first, int lane, bool transposed, Body body) {
  for (int half = 0; half < 2; half++) {
    const int along = 2 * (lane % 4) + half, across = lane / 4;
    const int row = transposed ? along : across, column = transposed ? across : along;
    body(bytes + first[row] + column * ELEMENT_BYTES, half);
  }
}

template <int N> Result load(Context& context, const Instruction& instruction) {
  thread_local std::vector<Row> naming;
  ThreadAccess access{};
  if (!rows_of(context, instruction, N, false, naming, access))
    return FALLBACK;
  uint8_t* bytes = context.memory->bytes[SHARED];
  const bool transposed = instruction.immediates[1];
  for (int n = 0; n < context.count; n++)
    for (int matrix = 0; matrix < N; matrix++) {
      const int64_t* first = access.flat + n * LANES + matrix * ROWS_EACH;
      uint32_t* into = context.out<uint32_t>(context.rows[n], instruction.operands[matrix]);
      each_lane(context.rows[n].lanes, [&](int lane) {
        each_element(bytes, first, lane, transposed, [&](const uint8_t* from, int half) {
          std::memcpy(reinterpret_cast<uint8_t*>(into + lane) + half * ELEMENT_BYTES, from,
                      ELEMENT_BYTES);
        });
      });
    }
  return CONTINUE;
}

template <int N> Result store(Context& context, const Instruction& instruction) {
  thread_local std::vector<Row> naming;
  ThreadAccess access{};
  if (!rows_of(context, instruction, N, true, naming, access))
    return FALLBACK;
  uint8_t* bytes = context.memory->bytes[SHARED];
  uint8_t* written = context.memory->written[SHARED];
  const bool transposed = instruction.immediates[1];
  // Where rows lie at one address, the last one wins: row by row, not lane by lane.
  for (int n = 0; n < context.count; n++)
    for (int matrix = 0; matrix < N; matrix++) {
      const int64_t* first = access.flat + n * LANES + matrix * ROWS_EACH;
      const uint32_t* from =
          context.in<uint32_t>(context.rows[n], instruction.operands[1 + matrix]);
      uint8_t rows[ROWS_EACH][ROW_BYTES];
      int64_t inside[ROWS_EACH];
      for (int row = 0; row < ROWS_EACH; row++)
        inside[row] = row * ROW_BYTES;
      for (int lane = 0; lane < LANES; lane++)
        each_element(rows[0], inside, lane, transposed, [&](uint8_t* into, int half) {
          std::memcpy(into, reinterpret_cast<const uint8_t*>(from + lane) + half * ELEMENT_BYTES,
                      ELEMENT_BYTES);
        });
      for (int row = 0; row < ROWS_EACH; row++) {
        std::memcpy(bytes + first[row], rows[row], ROW_BYTES);
        std::memset(written + first[row], 1, ROW_BYTES);
      }
    }
  return CONTINUE;
}

const Handlers handlers{
    {"ldmatrix.x1", load<1>},  {"ldmatrix.x2", load<2>},  {"ldmatrix.x4", load<4>},
    {"stmatrix.x1", store<1>}, {"stmatrix.x2", store<2>}, {"stmatrix.x4", store<4>},
};

} // namespace
} // namespace emu
