// Prints, in hex, what kernel/function.cuh makes of accumulators drawn from the hash, one function
// after another: output, and the largest number on the way to it; then the relative errors of a
// product that cancels to 0, of one that does not, and of nothing (tests/test_functions.py).

#include <cstdio>
#include <initializer_list>

#include "function.cuh"

using namespace kernelrig;

int main() {
  const InputBases bases = input_bases(5);
  const uint64_t drawn = hash_base("acc", 0);
  for (const Function function : {Function::PRODUCT, Function::ROUND_THEN_ADD,
                                  Function::BIAS_THEN_ADD, Function::ADD_THEN_ROUND}) {
    std::printf("%s ", function_name(function));
    for (uint64_t i = 0; i < 20000; ++i) {
      const float acc = scale_then_add(unit_at(drawn, i), 64.0f, -32.0f);
      const Addends addends = addends_at(function, Pattern::RANDOM, bases, i % 196, i % 768, 768);
      const uint16_t output = output_of(function, acc, addends);
      const float largest = largest_on_the_way(function, acc, addends, float_from_bf16(output));
      std::printf("%04x%08x", output, float_bits(largest));
    }
    std::printf("\n");
  }
  const float cancelled = largest_on_the_way(Function::PRODUCT, 0.0f, Addends{0, 0}, 0.0f);
  std::printf("relative %g %g %g\n", relative_error(0.0078125f, cancelled, 64.0f),
              relative_error(0.5f, 128.0f, 64.0f), relative_error(0.5f, 0.0f, 0.0f));
}
