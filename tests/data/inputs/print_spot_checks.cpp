// Prints what kernel/spot_check.cuh draws, as JSON (tests/reference/test_spot_check.py).
//   print_spot_checks SEED SAMPLES OUTPUTS

#include <cstdio>
#include <cstdlib>

#include "spot_check.cuh"

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const int samples = std::atoi(argv[2]);
  const uint64_t outputs = std::strtoull(argv[3], nullptr, 10);
  const char *comma = "[";
  for (const int sample : kernelrig::spot_checked_samples(seed, samples)) {
    std::printf("%s\n[%d, %llu", comma, sample,
                static_cast<unsigned long long>(kernelrig::spot_seed(seed, sample)));
    for (const unsigned long long place : kernelrig::spot_places(seed, sample, outputs))
      std::printf(", %llu", place);
    std::printf("]");
    comma = ",";
  }
  std::printf("%s]\n", samples == 1 ? "[" : "");
  return 0;
}
