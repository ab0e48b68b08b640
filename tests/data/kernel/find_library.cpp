// Looks for the libraries that are named, by kernel/shared_library.cuh, and calls cos of what it
// finds (tests/kernel/test_shared_library.py).

#include <cstdio>
#include <string>
#include <vector>

#include "shared_library.cuh"

int main(int argc, char **argv) {
  const kernelrig::SharedLibrary library("FIND_LIBRARY",
                                         std::vector<std::string>(argv + 1, argv + argc));
  const auto cosine = library.find<double (*)(double)>("cos");
  if (cosine == nullptr)
    std::printf("%s\n", library.refusal().c_str());
  else
    std::printf("cos(0) = %g\n", cosine(0.0));
}
