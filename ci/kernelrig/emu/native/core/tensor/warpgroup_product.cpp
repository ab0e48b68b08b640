// The operation of a wgmma.mma_async: its operands are read, then it is added to its chain.
#include <algorithm>

#include "rounding.hpp"
#include "sync/sync.hpp"
#include "tensor/products.hpp"
#include "tensor/warpgroup_steps.hpp"

namespace emu {
namespace {

WarpgroupProduct& product_of(Op& op) { return *static_cast<WarpgroupProduct*>(op.own.get()); }

// Read parts of an operand, one behind the other.
void fetch(Sync& sync, const Op& op, const MatrixOperand& operand, const Part* parts, size_t count,
           const WarpgroupProduct& product, AccessDetail::What what, std::vector<uint8_t>& into) {
  const int64_t slot = product.slot;
  const int64_t flat = slot * SLOT_BYTES;
  if (sync.memory.watches_operations()) {
    thread_local std::vector<int64_t> starts;
    starts.clear();
    for (size_t n = 0; n < count; n++)
      starts_of(operand, parts[n], flat, starts);
    AccessDetail detail{what};
    detail.element_bytes = bytes_of(operand.element);
    detail.mn_major = operand.mn_major;
    detail.swizzle = operand.swizzle;
    detail.warps = product.warps.data();
    detail.warp_count = int64_t(product.warps.size());
    sync.accessed(op, SHARED, starts, UNIT, false, &detail);
  }
  size_t size = 0;
  for (size_t n = 0; n < count; n++)
    size += size_t(parts[n].lines * parts[n].width) * size_t(UNIT);
  into.resize(size);
  uint8_t* at = into.data();
  for (size_t n = 0; n < count; n++) {
    gather(operand, parts[n], sync.memory.bytes[SHARED] + flat, at);
    at += parts[n].lines * parts[n].width * UNIT;
  }
}

// The values of an operand, in memory that the next product takes.
const float* values_of(const std::vector<uint8_t>& raw, Element element, bool negated,
                       std::vector<float>& into) {
  const size_t count = raw.size() / size_t(bytes_of(element));
  into.resize(count);
  decode(raw.data(), int64_t(raw.size()), element, into.data());
  if (negated)
    for (float& value : into)
      value = -value;
  return into.data();
}

void multiply(WarpgroupProduct& product) {
  thread_local std::vector<float> a, b, apart;
  const WarpgroupForm& form = product.form;
  Accumulator& sums = *product.sums;
  MatrixProduct made{};
  made.m = WARP_ROWS * int64_t(product.rows.size());
  made.n = form.n;
  made.k = K_BYTES / bytes_of(form.a);
  made.a.values = values_of(product.raw_a, form.a, form.a_negated, a);
  made.a.by_columns = form.a_mn_major;
  made.a.stride = form.a_mn_major ? made.m : made.k;
  thread_local std::vector<uint8_t> by_k;
  if (!form.b_mn_major) {
    by_k.resize(product.raw_b.size());
    transpose(product.raw_b.data(), made.n, form.b, by_k.data());
  }
  made.b = values_of(form.b_mn_major ? product.raw_b : by_k, form.b, form.b_negated, b);
  made.b_stride = made.n;
  made.stride = made.n;
  made.adds = product.adds;
  made.exact = has_exact_products(form.a) && has_exact_products(form.b);
  bool together = true;
  for (size_t n = 1; n < product.rows.size(); n++)
    together &= product.rows[n] == product.rows[n - 1] + 1;
  const int64_t row = WARP_ROWS * made.n;  // the values of a row of the accumulator
  if (together) {
    made.d = sums.of(product.rows[0]);
  } else {
    apart.resize(size_t(made.m * made.n));
    made.d = apart.data();
    for (size_t n = 0; n < product.rows.size(); n++)
      std::copy_n(sums.of(product.rows[n]), row, made.d + int64_t(n) * row);
  }
  multiply(made);
  if (form.half)
    for (int64_t n = 0; n < made.m * made.n; n++)
      made.d[n] = of_f16(to_f16(made.d[n]));
  if (!together)
    for (size_t n = 0; n < product.rows.size(); n++)
      std::copy_n(made.d + int64_t(n) * row, row, sums.of(product.rows[n]));
}

}  // namespace

bool product_step(Core& core, Op& op) {
  Sync& sync = *core.sync;
  WarpgroupProduct& product = product_of(op);
  if (!op.stage) {
    const Part whole = all_of(product.b);
    fetch(sync, op, product.b, &whole, 1, product, AccessDetail::B, product.raw_b);
    if (!product.form.a_in_registers)
      fetch(sync, op, product.a, product.parts.data(), product.parts.size(), product,
            AccessDetail::A, product.raw_a);
    op.read = true;
    op.stage = 1;
    return true;
  }
  multiply(product);
  sync.warpgroups.release(product.sums);
  sync.warpgroups.keep(std::static_pointer_cast<WarpgroupProduct>(op.own));
  return false;
}

}  // namespace emu
