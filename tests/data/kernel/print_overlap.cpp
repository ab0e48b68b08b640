// Prints, for a host compiler alone (tests/kernel/test_memory_layout.py), whether the regions that
// the arguments give lie apart within 1024 bytes: OFFSET,SIZE,COUNT[,STRIDE] each.
//   print_overlap REGION...   or, for at most 512 columns, print_overlap columns
//   COLUMN,COLUMNS,COUNT...

#include <cstdio>
#include <cstring>

#include "memory_layout.cuh"

int main(int argc, char **argv) {
  using kernelrig::SharedRegion;
  using kernelrig::TensorRegion;
  SharedRegion shared[2] = {};
  TensorRegion tensor[2] = {};
  const bool columns = argc > 1 && std::strcmp(argv[1], "columns") == 0;
  int regions = 0;
  for (int i = columns ? 2 : 1; i < argc && regions < 2; ++i, ++regions) {
    int first = 0, size = 0, count = 0, stride = 0;
    const int numbers = std::sscanf(argv[i], "%d,%d,%d,%d", &first, &size, &count, &stride);
    if (numbers < 3)
      return 2;
    shared[regions] = SharedRegion::buffers("x", first, size, count, numbers > 3 ? stride : size);
    tensor[regions] = {"x", first, size, count};
  }
  std::puts((columns ? lie_apart(tensor, 512) : lie_apart(shared, 1024)) ? "apart" : "overlap");
}
