// Prints what kernel/inputs.cuh makes of chosen questions, for a host compiler alone
// (tests/test_inputs.py).
//   print_inputs vectors    JSON: hashes, operands, tables, combined table under three seeds
//   print_inputs rounding   hex: the E4M3 code of every BF16 number, then BF16 and E4M3 codes of
//   random FP32 bits

#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "inputs.cuh"

namespace {

using namespace kernelrig;

constexpr uint64_t SEEDS[] = {0, 1, 18446744073709551615ull};
constexpr uint64_t INDICES[] = {0, 1, 2, 767, 768, 1053695, 589823, 712900607};
constexpr const char *NAMES[] = {"A", "B", "bias", "pos_embed"};
constexpr Pattern PATTERNS[] = {Pattern::CONSTANT, Pattern::INTEGER, Pattern::RANDOM};

void print_vectors() {
  std::printf("{\n  \"splitmix64(0)\": \"%016llx\",\n",
              static_cast<unsigned long long>(splitmix64(0)));
  std::printf("  \"fnv1a64(pos_embed)\": \"%016llx\",\n  \"elements\": [",
              static_cast<unsigned long long>(fnv1a64("pos_embed")));
  const char *comma = "";
  for (const uint64_t seed : SEEDS) {
    for (const char *name : NAMES) {
      const uint64_t base = hash_base(name, seed);
      for (const uint64_t i : INDICES) {
        std::printf("%s\n    [\"%s\", %llu, %llu, \"%016llx\"", comma, name,
                    static_cast<unsigned long long>(seed), static_cast<unsigned long long>(i),
                    static_cast<unsigned long long>(hash_at(base, i)));
        for (const Pattern pattern : PATTERNS) {
          std::printf(", %d, \"%08x\"", operand_at(pattern, base, i),
                      float_bits(table_at(pattern, base, i)));
        }
        std::printf("]");
        comma = ",";
      }
    }
  }
  std::printf("\n  ],\n  \"combined\": [");
  comma = "";
  for (const uint64_t seed : SEEDS) {
    const InputBases bases = input_bases(seed);
    for (const uint64_t position : {0ull, 1ull, 195ull}) {
      for (const uint64_t column : {0ull, 1ull, 767ull}) {
        std::printf("%s\n    [%llu, %llu, %llu", comma, static_cast<unsigned long long>(seed),
                    static_cast<unsigned long long>(position),
                    static_cast<unsigned long long>(column));
        for (const Pattern pattern : PATTERNS) {
          std::printf(", %d",
                      combined_at(pattern, bases.bias, bases.pos_embed, position, column, 768));
        }
        std::printf("]");
        comma = ",";
      }
    }
  }
  std::printf("\n  ]\n}\n");
}

void print_rounding() {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    std::printf("%02x", e4m3_from_float(float_from_bf16(static_cast<uint16_t>(bits))));
  }
  const uint64_t base = hash_base("rounding", 0);
  for (unsigned i = 0; i < 65536; ++i) {
    const float value = bits_float(static_cast<uint32_t>(hash_at(base, i)));
    std::printf("%04x%02x", bf16_from_float(value), e4m3_from_float(value));
  }
  // small magnitudes, where E4M3 has its numbers: values in [-2, 2) and their sums in BF16
  for (unsigned i = 0; i < 65536; ++i) {
    const float value = scale_then_add(unit_at(base, i), 4.0f, -2.0f);
    const uint16_t rounded = bf16_from_float(value);
    std::printf("%04x%02x", bf16_add(rounded, bf16_from_float(unit_at(base, i + 65536))),
                e4m3_from_float(value));
  }
  for (unsigned code = 0; code < 256; ++code) {
    std::printf("%08x", float_bits(float_from_e4m3(static_cast<uint8_t>(code))));
  }
  std::printf("\n");
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 2 && std::strcmp(argv[1], "vectors") == 0) {
    print_vectors();
  } else if (argc == 2 && std::strcmp(argv[1], "rounding") == 0) {
    print_rounding();
  } else {
    return 2;
  }
  return 0;
}
