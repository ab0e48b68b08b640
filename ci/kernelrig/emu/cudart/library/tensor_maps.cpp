// Tensor maps: the emulator makes them, and checks what it is asked for by CUDA's rules.

#include "runtime.hpp"

#include <algorithm>
#include <cstring>

using namespace cudart;
#define CALLER __builtin_return_address(0)
#define DRIVER(code) return CUresult(finished(__func__, cudaError_t(code), CALLER))

namespace {

// What the functions that make tensor maps are all given.
struct Tensor {
  CUtensorMap* out;
  CUtensorMapDataType type;
  cuuint32_t rank;
  void* address;
  const cuuint64_t *dims, *strides;
  const cuuint32_t* steps;

  bool is_there() const {
    return out && dims && steps && (rank == 1 || strides) && rank >= 1 && rank <= 5 &&
           reinterpret_cast<uintptr_t>(out) % alignof(CUtensorMap) == 0;
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

  CUresult make(TensorMap& asked, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill_with) const {
    asked.interleave = uint32_t(interleave);
    asked.swizzle = uint32_t(swizzle);
    asked.promotion = uint32_t(promotion);
    asked.fill = uint32_t(fill_with);
    Answer made = ask(Request::TENSOR_MAP, packed(asked));
    if (!made.error && made.data.size() == sizeof *out)
      memcpy(out, made.data.data(), sizeof *out);
    return CUresult(made.error);
  }
};

}  // namespace

extern "C" {

CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill_with) {
  const Tensor tensor{out, type, rank, address, dims, strides, steps};
  if (!tensor.is_there() || !box)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  TensorMap asked = tensor.message(CALLER);
  std::copy_n(box, rank, asked.box);
  DRIVER(tensor.make(asked, interleave, swizzle, promotion, fill_with));
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                 void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                 const int* lower, const int* upper, cuuint32_t channels,
                                 cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill_with) {
  const Tensor tensor{out, type, rank, address, dims, strides, steps};
  if (!tensor.is_there() || !lower || !upper)
    DRIVER(CUDA_ERROR_INVALID_VALUE);
  TensorMap asked = tensor.message(CALLER);
  asked.im2col = 1;
  const cuuint32_t corners = std::max<cuuint32_t>(rank, 2) - 2;
  std::copy_n(lower, corners, asked.lower);
  std::copy_n(upper, corners, asked.upper);
  asked.channels = channels;
  asked.pixels = pixels;
  DRIVER(tensor.make(asked, interleave, swizzle, promotion, fill_with));
}
}
