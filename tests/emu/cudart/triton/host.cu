// Loads a kernel's PTX by the driver's functions, launches it as FOLDER/launch.txt says, and compares
// what it wrote with what that file names: the host program of a kernel that a compiler made.
#include <cuda.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

static void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS)
    return;
  const char* text = "";
  cuGetErrorString(result, &text);
  std::printf("%s: %s\n", call, text);
  std::exit(3);
}
#define CHECK(call) check((call), #call)

static std::vector<char> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

static float from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                      : exponent     ? std::ldexp(1024.0f + mantissa, exponent - 25)
                                     : std::ldexp(float(mantissa), -24);
  return bits >> 15 ? -value : value;
}

static double element(const std::vector<char>& from, const std::string& type, size_t index) {
  if (type == "*fp16") {
    uint16_t bits;
    std::memcpy(&bits, &from[2 * index], 2);
    return from_half(bits);
  }
  int32_t bits;
  std::memcpy(&bits, &from[4 * index], 4);
  float value;
  std::memcpy(&value, &bits, 4);
  return type == "*i32" ? double(bits) : double(value);
}

struct Output {
  CUdeviceptr at;
  std::vector<char> wanted;
  std::string type;
  double tolerance;
};

int main(int, char** arguments) {
  const std::string folder = arguments[1];
  std::ifstream launch(folder + "/launch.txt");
  std::string word, entry;
  unsigned grid[3], threads, shared;
  size_t scratch;
  launch >> entry >> grid[0] >> grid[1] >> grid[2] >> threads >> shared >> scratch;
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  auto ptx = contents(folder + "/kernel.ptx");
  ptx.push_back(0);
  CUmodule module;
  CUfunction function;
  CHECK(cuModuleLoadData(&module, ptx.data()));
  CHECK(cuModuleGetFunction(&function, module, entry.c_str()));
  if (shared > 49152)
    CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared));
  std::vector<std::vector<char>> passed;
  std::vector<Output> outputs;
  while (launch >> word) {
    std::vector<char> value(8);
    if (word == "i32") {
      int number;
      launch >> number;
      std::memcpy(value.data(), &number, 4);
    } else if (word == "fp32") {
      float number;
      launch >> number;
      std::memcpy(value.data(), &number, 4);
    } else {
      std::string type, file;
      double tolerance;
      launch >> type >> file >> tolerance;
      const auto data = contents(folder + "/" + file);
      CUdeviceptr at;
      CHECK(cuMemAlloc(&at, data.size()));
      if (word == "in")
        CHECK(cuMemcpyHtoD(at, data.data(), data.size()));
      else
        outputs.push_back({at, data, type, tolerance});
      if (word == "zero")
        CHECK(cuMemsetD8(at, 0, data.size()));
      std::memcpy(value.data(), &at, 8);
    }
    passed.push_back(value);
  }
  CUdeviceptr workspace = 0;  // each CTA has its part; where none is needed, a null pointer
  if (scratch)
    CHECK(cuMemAlloc(&workspace, scratch * grid[0] * grid[1] * grid[2]));
  for (CUdeviceptr at : {workspace, CUdeviceptr(0)}) {
    passed.emplace_back(8);
    std::memcpy(passed.back().data(), &at, 8);
  }
  std::vector<void*> pointers;
  for (auto& value : passed)
    pointers.push_back(value.data());
  CHECK(cuLaunchKernel(function, grid[0], grid[1], grid[2], threads, 1, 1, shared, nullptr,
                       pointers.data(), nullptr));
  CHECK(cuCtxSynchronize());
  size_t wrong = 0, all = 0;
  for (const Output& output : outputs) {
    std::vector<char> got(output.wanted.size());
    CHECK(cuMemcpyDtoH(got.data(), output.at, got.size()));
    const size_t count = got.size() / (output.type == "*fp16" ? 2 : 4);
    all += count;
    for (size_t i = 0; i < count; i++) {
      const double is = element(got, output.type, i), wanted = element(output.wanted, output.type, i);
      wrong += !(std::fabs(is - wanted) <= output.tolerance * (1 + std::fabs(wanted)));
    }
  }
  std::printf("%zu of %zu elements are right\n", all - wrong, all);
  return wrong != 0;
}
