// A plain program whose time depends on its tunables: what a sweep must find out. Of its sets one
// does not compile, one crashes and one prints what is wrong.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <unistd.h>

#if DEPTH == 3 && WIDTH == 2
#error DEPTH 3 needs WIDTH 1
#endif

int main() {
  if (DEPTH == 1 && WIDTH == 2)
    raise(SIGSEGV);
  std::puts(DEPTH == 3 && WIDTH == 1 ? "wrong" : "right");
  std::mt19937 random(getpid());
  std::normal_distribution<double> noise(0, 0.0005);
  const double ms = 0.001 * (1 - 0.04 * (DEPTH == 2) - 0.03 * (WIDTH == 2) + noise(random));
  for (int i = 0; i < 5; ++i)
    std::printf("sample_ms %.12f\n", ms * (1 + noise(random)));
}
