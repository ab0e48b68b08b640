// cuLink*: PTX and fat binaries that a program links while it runs. What cuLinkComplete gives is a
// list of them, which cuModuleLoadData takes as nvlink's fat binary; no machine code is made.
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "runtime.hpp"

using namespace cudart;
#define CALLER __builtin_return_address(0)
#define DRIVER(code) return CUresult(finished(__func__, cudaError_t(code), CALLER))

struct CUlinkState_st {
  std::string inputs;  // number of bytes and contents of each, one behind the other
  uint32_t count = 0;
  std::string image;  // LINKED_IMAGE, how many there are, the inputs
};

namespace cudart {

// A module of no function.
constexpr char NOTHING[] = ".version 7.0\n.target sm_70\n.address_size 64\n";

// Compilers have nothing to say of what is only read here: empty logs, and no time.
void answer_jit_options(unsigned count, CUjit_option* options, void** values) {
  for (unsigned i = 0; i < count; i++) {
    const CUjit_option option = options[i];
    const bool info = option == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES;
    if (option == CU_JIT_WALL_TIME) {
      const float none = NAN;
      memcpy(&values[i], &none, sizeof none);
    } else if (info || option == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      for (unsigned j = 0; j < count; j++)
        if (options[j] == (info ? CU_JIT_INFO_LOG_BUFFER : CU_JIT_ERROR_LOG_BUFFER))
          if (values[j] && uint32_t(uintptr_t(values[i])))
            *static_cast<char*>(values[j]) = 0;
    }
  }
  for (unsigned i = 0; i < count; i++)
    if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
        options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      values[i] = nullptr;  // bytes that were filled
}

cudaError_t load_linked_image(const char* image, uint32_t* out) {
  uint32_t count;
  memcpy(&count, image + 4, 4);
  const char* at = image + 8;
  *out = ~0u;
  if (!count) {
    Answer made = ask(Request::LINKED, packed(*out) + NOTHING);
    *out = unpacked<uint32_t>(made.data);
    return made.error;
  }
  for (; count; count--) {
    uint64_t bytes;
    memcpy(&bytes, at, 8);
    Answer known = ask(Request::LINKED, packed(*out) + std::string(at + 8, bytes));
    if (known.error)
      return known.error;
    *out = unpacked<uint32_t>(known.data);
    at += 8 + bytes;
  }
  return cudaSuccess;
}

}  // namespace cudart

extern "C" {

CUresult cuLinkCreate(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
  answer_jit_options(count, options, values);
  *out = new CUlinkState_st;
  return CUDA_SUCCESS;
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t size, const char*,
                       unsigned, CUjit_option*, void**) {
  if (!state || !data)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  std::string input;
  if (type == CU_JIT_INPUT_FATBINARY || type == CU_JIT_INPUT_PTX) {
    input = image_of(data, size);
  } else {
    DRIVER(CUDA_ERROR_NO_BINARY_FOR_GPU);  // machine code: nothing here runs it
  }
  state->inputs += packed(uint64_t(input.size())) + input;
  state->count++;
  return CUDA_SUCCESS;
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned count,
                       CUjit_option* options, void** values) {
  const std::string name = path;
  const std::string file = name.substr(name.rfind('/') + 1);
  if (type == CU_JIT_INPUT_LIBRARY && file == "libcudadevrt.a")
    return CUDA_SUCCESS;  // a launch from a kernel, which needs it, is refused by name
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    DRIVER(CUDA_ERROR_FILE_NOT_FOUND);
  std::string content{std::istreambuf_iterator<char>(stream), {}};
  return cuLinkAddData(state, type, content.data(), content.size(), path, count, options, values);
}
CUresult cuLinkComplete(CUlinkState state, void** image, size_t* size) {
  if (!state)  // of nothing it makes an image of nothing
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  state->image = packed(LINKED_IMAGE) + packed(state->count) + state->inputs;
  *image = state->image.data();
  if (size)
    *size = state->image.size();
  return CUDA_SUCCESS;
}
CUresult cuLinkDestroy(CUlinkState state) {
  delete state;
  return CUDA_SUCCESS;
}
}
