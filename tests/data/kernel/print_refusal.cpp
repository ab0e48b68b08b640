// Prints what kernel/tensor_map_rules.cuh says of a map, for a host compiler alone
// (tests/kernel/test_tensor_map_rules.py): a good map of two dimensions, with the fields that the
// arguments name set anew. Lists are written 768,512.
//   print_refusal [FIELD=VALUE...]

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "tensor_map_rules.cuh"

namespace {

template <class Number> std::vector<Number> numbers(const std::string &text) {
  std::vector<Number> values;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    values.push_back(static_cast<Number>(std::stoull(part)));
  return values;
}

} // namespace

int main(int argc, char **argv) {
  kernelrig::TensorMap map;
  map.name = "A_map";
  map.buffer = "A";
  map.dtype = "u8";
  map.dims = {768, 512};
  map.strides_bytes = {768};
  map.box = {128, 128};
  map.element_strides = {1, 1};
  map.swizzle = "128B";
  uint64_t address = 0x7f0000000000;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string field = word.substr(0, word.find('='));
    const std::string value = word.substr(field.size() + 1);
    if (field == "dims")
      map.dims = numbers<uint64_t>(value);
    else if (field == "strides_bytes")
      map.strides_bytes = numbers<uint64_t>(value);
    else if (field == "box")
      map.box = numbers<uint32_t>(value);
    else if (field == "element_strides")
      map.element_strides = numbers<uint32_t>(value);
    else if (field == "dtype")
      map.dtype = value;
    else if (field == "interleave")
      map.interleave = value;
    else if (field == "swizzle")
      map.swizzle = value;
    else if (field == "l2_promotion")
      map.l2_promotion = value;
    else if (field == "oob_fill")
      map.oob_fill = value;
    else if (field == "address")
      address = std::stoull(value);
    else
      return 2;
  }
  std::puts(kernelrig::refusal_of(map, address).c_str());
  return 0;
}
