#include "tensor/warpgroups.hpp"

#include <algorithm>

#include "rounding.hpp"

namespace emu {
namespace {

// Where the values of a register lie: register v of thread t holds row t / 4 + 8 (v >> 1 & 1) of
// its warp's 16, column 8 (v >> 2) + 2 (t % 4) + (v & 1). Of f16, two columns share one.
struct Place {
  int64_t row, column;
};
Place place_of(int number, int thread, bool half) {
  const int value = half ? 2 * number : number;
  return {thread / 4 + 8 * (value >> 1 & 1), 8 * (value >> 2) + 2 * (thread % 4) + (value & 1)};
}

}  // namespace

int Accumulator::row_of(int warp) const {
  return int(std::find(warps.begin(), warps.end(), warp) - warps.begin());
}

void Accumulator::fragment(int row, int number, uint32_t* into) const {
  const float* from = sums.data() + int64_t(row) * WARP_ROWS * n;
  for (int thread = 0; thread < LANES; thread++) {
    const Place at = place_of(number, thread, half);
    const float* values = from + at.row * n + at.column;
    into[thread] = half ? to_f16(values[0]) | to_f16(values[1]) << 16 : bits_as<uint32_t>(values[0]);
  }
}

void Accumulator::load(int row, int number, const uint32_t* bits) {
  float* into = of(row);
  for (int thread = 0; thread < LANES; thread++) {
    const Place at = place_of(number, thread, half);
    float* values = into + at.row * n + at.column;
    if (half) {
      values[0] = of_f16(bits[thread] & 0xFFFF);
      values[1] = of_f16(bits[thread] >> 16);
    } else {
      values[0] = bits_as<float>(bits[thread]);
    }
  }
}

bool Warpgroups::adds_to(int warp, int64_t number) const {
  for (const Accumulator* one : open[size_t(warp)])
    if (one->group[size_t(one->row_of(warp))] >= waited[size_t(warp)] &&
        std::find(one->numbers.begin(), one->numbers.end(), number) != one->numbers.end())
      return true;
  return false;
}

void Warpgroups::start(int warps) {
  groups_made = warpgroups_made = false;
  issued.assign(size_t(warps), 0);
  commits.assign(size_t(warps), 0);
  fenced.assign(size_t(warps), -1);
  waited.assign(size_t(warps), 0);
  expected.clear();
  joint.clear();
  order = time = 0;
  settled.assign(size_t(warps), {});
  open.assign(size_t(warps), {});
  held.assign(size_t(warps), {});
  fragments.assign(size_t(warps), {});
  unused.clear();
  for (const auto& one : pool)
    unused.push_back(one.get());
}

Accumulator* Warpgroups::make(const std::vector<int32_t>& warps, const WarpgroupForm& form,
                              const Operand* operands) {
  if (unused.empty()) {
    pool.push_back(std::make_unique<Accumulator>());
    unused.push_back(pool.back().get());
  }
  Accumulator* made = unused.back();
  unused.pop_back();
  made->serial = ++serials;
  made->n = form.n;
  made->half = form.half;
  made->registers = form.registers;
  made->first = form.numbers[0];
  made->numbers.assign(form.numbers, form.numbers + form.registers);
  made->operands.assign(operands, operands + form.registers);
  made->warps = warps;
  made->group.assign(warps.size(), 0);
  made->sums.assign(warps.size() * size_t(WARP_ROWS * form.n), 0);
  made->users = 0;
  return made;
}

std::shared_ptr<WarpgroupProduct> Warpgroups::product() {
  if (products.empty())
    return std::make_shared<WarpgroupProduct>();
  std::shared_ptr<WarpgroupProduct> made = std::move(products.back());
  products.pop_back();
  made->warps.clear();
  made->rows.clear();
  made->parts.clear();
  made->raw_a.clear();
  return made;
}

}  // namespace emu
