// Writes the elements that kernel/tensor.cuh gives an input, for a host compiler alone
// (tests/reference/test_tensors.py).
//   write_tensor FILE PATTERN SEED FLAG     FLAG as --input takes it; PATTERN 0, 1 or 2
//   exit code 2: what is wrong with FLAG is on stdout

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tensor.cuh"

int main(int argc, char **argv) {
  using namespace kernelrig;
  if (argc != 5)
    return 1;
  TensorSpec tensor;
  const std::string wrong = parse_tensor(argv[4], true, tensor);
  if (!wrong.empty()) {
    std::puts(wrong.c_str());
    return 2;
  }
  const TensorFill fill = fill_of(tensor, static_cast<Pattern>(std::atoi(argv[2])),
                                  std::strtoull(argv[3], nullptr, 10));
  std::vector<uint8_t> bytes(tensor.bytes());
  for (uint64_t i = 0; i < tensor.elements(); ++i)
    store_element(bytes.data(), fill, i);
  const std::string head = npy_head(tensor.facts().npy, tensor.shape);
  std::FILE *file = std::fopen(argv[1], "wb");
  std::fwrite(head.data(), 1, head.size(), file);
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  return std::fclose(file);
}
