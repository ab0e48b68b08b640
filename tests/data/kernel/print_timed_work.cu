// Prints what is queued around each timed launch (tests/kernel/test_timed_outputs.py): a line for
// each sample with the kernels before and after it, and whether its rows of A are its own or new.

#include <cstdio>
#include <cstdlib>

#include "timed_outputs.cuh"

extern uint64_t own_rows; // printing_runtime.cpp

int main(int argc, char **argv) {
  using namespace kernelrig;
  if (argc != 4)
    return 2;
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const int samples = std::atoi(argv[2]), sets = std::atoi(argv[3]);
  Problem problem{};
  problem.m = 196, problem.n = 768, problem.k = 768, problem.rows_per_image = 196;
  const TimedOutputs outputs(problem, Pattern::RANDOM, seed, samples, sets);
  const ProblemMemory memory(problem, 0, 0);
  for (int sample = 0; sample < samples; ++sample) {
    own_rows = hash_base("A", seed + outputs.set_of(sample));
    outputs.before(sample, memory, nullptr);
    std::printf(" launch");
    outputs.after(sample, memory, nullptr);
    std::printf("\n");
  }
}
