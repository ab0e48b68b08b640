// Tensor maps: the emulator makes them, and checks what it is asked for by CUDA's rules.

#include "runtime.hpp"

#include <algorithm>
#include <cstring>

using namespace cudart;
#define CALLER __builtin_return_address(0)
#define DRIVER(code) return CUresult(finished(__func__, cudaError_t(code), CALLER))

namespace {

// An H100's driver (580.159.04) made one at each of the 8 offsets that were tried, down to 1 byte.
constexpr char MISALIGNED[] =
    "the CUtensorMap to write is not aligned to 64 bytes, as CUDA's documentation wants it; it was "
    "made, as a driver was seen to do, and is right in a copy that is aligned, such as a kernel's "
    "parameter. Declare it alignas(64), also in memory that malloc made (g++ 12 misaligns what a "
    "function returns, unless --nvcc-flags=-O1 is given)";

void say(const char* call, cudaError_t code, const char* what, const void* caller) {
  const Note note{Noted::TENSOR_MAP, code, 0, 0, callers_of(caller)};
  if (!process().forked)
    ask(Request::NOTE, packed(note) + call + ": " + what);
}

// What the functions that make tensor maps are all given.
struct Tensor {
  void* out;  // of a CUtensorMap, and not always aligned as one
  CUtensorMapDataType type;
  cuuint32_t rank;
  void* address;
  const cuuint64_t *dims, *strides;
  const cuuint32_t* steps;

  // What is wrong with the pointers and the rank themselves; null for nothing.
  const char* wrong() const {
    if (rank < 1 || rank > 5)
      return "the rank is not 1 to 5";
    if (!out || !dims || !steps || (rank > 1 && !strides))
      return "one of its pointers is null";
    return nullptr;
  }

  TensorMap message(const void* caller) const {
    TensorMap asked{};
    asked.type = uint32_t(type);
    asked.rank = rank;
    asked.address = reinterpret_cast<uint64_t>(address);
    std::copy_n(dims, rank, asked.dims);
    std::copy_n(strides, rank - 1, asked.strides);
    std::copy_n(steps, rank, asked.steps);
    asked.callers = callers_of(caller);
    return asked;
  }

  CUresult make(const char* call, TensorMap& asked, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                CUtensorMapFloatOOBfill fill_with, const void* caller) const {
    asked.interleave = uint32_t(interleave);
    asked.swizzle = uint32_t(swizzle);
    asked.promotion = uint32_t(promotion);
    asked.fill = uint32_t(fill_with);
    Answer made = ask(Request::TENSOR_MAP, packed(asked));
    if (!made.error && made.data.size() == sizeof(CUtensorMap)) {
      memcpy(out, made.data.data(), sizeof(CUtensorMap));
      if (reinterpret_cast<uintptr_t>(out) % 64)  // cuda.h declares the type with 128
        say(call, cudaSuccess, MISALIGNED, caller);
    }
    return CUresult(made.error);
  }
};

// Says why what it is asked for is none; CUDA's rules of the rest the emulator says itself.
cudaError_t refused(const char* call, const char* why, const void* caller) {
  say(call, cudaErrorInvalidValue, why, caller);
  return cudaErrorInvalidValue;
}

}  // namespace

extern "C" {

CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill_with) {
  const Tensor tensor{out, type, rank, address, dims, strides, steps};
  if (const char* wrong = box ? tensor.wrong() : "its box is null")
    DRIVER(refused(__func__, wrong, CALLER));
  TensorMap asked = tensor.message(CALLER);
  std::copy_n(box, rank, asked.box);
  DRIVER(tensor.make(__func__, asked, interleave, swizzle, promotion, fill_with, CALLER));
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                 void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                 const int* lower, const int* upper, cuuint32_t channels,
                                 cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill_with) {
  const Tensor tensor{out, type, rank, address, dims, strides, steps};
  if (const char* wrong = lower && upper ? tensor.wrong() : "one of its corners is null")
    DRIVER(refused(__func__, wrong, CALLER));
  TensorMap asked = tensor.message(CALLER);
  asked.im2col = 1;
  const cuuint32_t corners = std::max<cuuint32_t>(rank, 2) - 2;
  std::copy_n(lower, corners, asked.lower);
  std::copy_n(upper, corners, asked.upper);
  asked.channels = channels;
  asked.pixels = pixels;
  DRIVER(tensor.make(__func__, asked, interleave, swizzle, promotion, fill_with, CALLER));
}
}
