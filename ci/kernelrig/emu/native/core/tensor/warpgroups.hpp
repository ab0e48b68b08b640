// wgmma: what warps have issued, and the registers that wait for it. isa.wgmma, and of
// tensor: accumulator, warpgroup_product.
//
// How it works. Products onto the same registers are one chain; its sums are a matrix, and become
// registers where it is waited for. Until then `Batch::unset` says IN_FLIGHT of them, and `held`
// which chain of a warp each belongs to. All warps of a batch start a chain together; the warps of
// one warpgroup that are in the batch make one operation a product.
//
// What is wrong is said by `report`, a call of Python; the handlers go on behind it as the steps do.
// So all of a run's wgmma is the core's, or none of it (`Sync::listens`, `off`).
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core.hpp"
#include "tensor/matrix_operand.hpp"

namespace emu {

constexpr int WARPGROUP = 4, WARP_ROWS = 16;

// tensor.warpgroup_product.Form, and where the registers are: from immediates.
struct WarpgroupForm {
  int n, half;
  Element a, b;
  bool a_in_registers, a_negated, b_negated, a_mn_major, b_mn_major;
  int registers;           // of D
  const int64_t* numbers;  // of D's registers, then of scale-d, B and A; -1 for constants
};

// The sums of the warps of a batch. `group` is by row the last group that adds to them.
struct Accumulator {
  int64_t serial = 0;
  int n = 0, half = 0, registers = 0;
  int64_t first = 0;  // the number of its first register
  std::vector<int64_t> numbers;  // of all of them,
  std::vector<Operand> operands;  // and where they lie
  std::vector<int32_t> warps;
  std::vector<int64_t> group;
  std::vector<float> sums;  // by warp 16 x n
  int users = 0;            // warps that have not waited for it, and operations in flight

  float* of(int row) { return sums.data() + int64_t(row) * WARP_ROWS * n; }
  int row_of(int warp) const;
  // Bits of register `number` of a warp, by thread.
  void fragment(int row, int number, uint32_t* into) const;
  // Let register `number` hold these bits.
  void load(int row, int number, const uint32_t* bits);
};

// A register of a warp that a chain will give its value.
struct HeldRegister {
  Accumulator* of = nullptr;
  int64_t serial = -1;
  int32_t number = 0, row = 0;
  Mask lost = 0;  // lanes that have written it since

  bool is_live() const { return of && of->serial == serial; }
};

// What the first warp of a warpgroup asked for in a product, and how many have.
struct AskedProduct {
  int64_t at;
  uint64_t a, b;
  bool adds;

  bool operator==(const AskedProduct& other) const {
    return at == other.at && a == other.a && b == other.b && adds == other.adds;
  }
};
struct Expected {
  AskedProduct what;
  int warp, count;
  int64_t order;
};

// What the warps of a warpgroup issue together: operations and their numbers in the race detector,
// one of each batch of them. `warps` have issued it, `unwaited` have not waited for it.
struct JointProduct {
  std::vector<std::pair<int64_t, int64_t>> parts;
  int warps = 0, unwaited = WARPGROUP;
};

// What a register held when it was last waited for, the first of an accumulator.
struct SettledRegister {
  int64_t number, time;
  uint32_t held[LANES];
};

// A register of A: the last group that reads it, -1 where none in flight does, and when another
// instruction than a mov last wrote it.
struct FragmentUse {
  int64_t group = -1, written = -1;
};

// A product in flight.
struct WarpgroupProduct {
  Accumulator* sums;
  WarpgroupForm form;
  MatrixOperand a, b;
  std::vector<Part> parts;  // of A
  int64_t slot;
  bool adds;
  std::vector<int32_t> warps, rows;  // rows of the accumulator
  std::vector<uint8_t> raw_a, raw_b;
};

struct Warpgroups {
  bool off = false;  // Python has all of it
  // of `WarpgroupReport`; negative for an exception.
  int (*report)(Batch*, int at, int what, const int64_t* about) = nullptr;
  const int32_t* names = nullptr;  // of the operations, by instruction
  bool groups_made = false, warpgroups_made = false;  // Python's parts

  std::vector<int64_t> issued, commits, fenced;  // by warp; fenced -1 for never
  std::vector<int64_t> waited;  // by warp, the oldest group that no wait has seen complete
  std::unordered_map<int64_t, Expected> expected;  // by warpgroup and number of the product
  std::unordered_map<int64_t, JointProduct> joint;  // by the same
  int64_t order = 0, time = 0, serials = 0;
  std::vector<std::vector<SettledRegister>> settled;  // by warp
  std::vector<std::vector<Accumulator*>> open;        // by warp, in the order of their start
  std::vector<std::vector<HeldRegister>> held;        // by warp and register
  std::vector<std::vector<FragmentUse>> fragments;    // by warp and register

  void start(int warps);

  // Of product `number` of a warpgroup, that of its first warp.
  static int64_t key_of(int64_t number, int64_t first) { return number << 32 | first; }
  const JointProduct* joint_of(int64_t key) const {
    const auto found = joint.find(key);
    return found == joint.end() ? nullptr : &found->second;
  }

  Accumulator* make(const std::vector<int32_t>& warps, const WarpgroupForm& form,
                    const Operand* operands);
  void release(Accumulator* one) {
    if (!--one->users) {
      one->serial = -1;
      unused.push_back(one);
    }
  }
  HeldRegister* held_of(int warp, size_t registers) {
    std::vector<HeldRegister>& found = held[size_t(warp)];
    if (found.empty())
      found.resize(registers);
    return found.data();
  }
  FragmentUse& fragment_of(int warp, size_t number, size_t registers) {
    std::vector<FragmentUse>& found = fragments[size_t(warp)];
    if (found.empty())
      found.resize(registers);
    return found[number];
  }
  // Whether a product in flight of a warp has that register in D.
  bool adds_to(int warp, int64_t number) const;
  const HeldRegister* find(int warp, int64_t number) const {
    const std::vector<HeldRegister>& of = held[size_t(warp)];
    return of.empty() || !of[size_t(number)].is_live() ? nullptr : &of[size_t(number)];
  }

  void forget(int warp, size_t number, Mask lanes) {
    if (held[size_t(warp)].empty())
      return;
    HeldRegister& one = held[size_t(warp)][number];
    one.lost |= lanes;
    if (one.lost == ALL)
      one = {};
  }

  std::shared_ptr<WarpgroupProduct> product();
  void keep(const std::shared_ptr<WarpgroupProduct>& one) { products.push_back(one); }

private:
  std::vector<std::unique_ptr<Accumulator>> pool;
  std::vector<Accumulator*> unused;
  std::vector<std::shared_ptr<WarpgroupProduct>> products;  // not in use
};

}  // namespace emu
