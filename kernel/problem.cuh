// The seam between the harness and a kernel: what a kernel is given, what it must say of itself.
//
// A kernel file defines `struct Gemm` and its main is `return harness_main<Gemm>(argc, argv);`
//
//   struct Gemm {
//     // the kernel function's name: extern "C", or unique in the module
//     static constexpr char ENTRY[];
//     static constexpr int ROWS_PER_IMAGE, N, K;
//     // "role: phase", what the clocks of a timing build are called
//     static constexpr const char *PHASES[];
//     // what one launch needs: tensor maps, pointers, sizes
//     using Params = ...;
//     static size_t workspace_bytes(const Problem &);
//     // pure, as describe calls it without a GPU; sm_count is then that of the arch built for
//     static Geometry geometry(const Problem &, int sm_count);
//     // once per set of buffers: encode tensor maps, set function attributes
//     static Params prepare(const Problem &, const Buffers &);
//     // one launch of ENTRY and of nothing else, every call through KERNELRIG_CUDA
//     static void launch(const Params &, const Geometry &, cudaStream_t);
//     // pure: the kernel's parameters in order, and the tensor maps among them
//     static LaunchArgs arguments(const Problem &);
//   };
//
// C = bf16(acc) +bf16 comb[row % ROWS_PER_IMAGE], acc the FP32 product sum of A [M, K] and B [N, K]
// in E4M3, all row-major. Every buffer starts on a 256-byte boundary. `workspace` holds nothing the
// kernel may rely on: NaN patterns in check and time, bytes nobody wrote in once (so that initcheck
// sees a read).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kernelrig {

#ifdef KERNELRIG_TIMING
constexpr bool TIMING_BUILD = true;
#else
constexpr bool TIMING_BUILD = false;
#endif

struct Problem {
  int images;
  int ctas; // the cap on the grid; 0: every SM
  int m, n, k;
  int rows_per_image;
};

struct Geometry {
  dim3 grid, block, cluster = dim3(1, 1, 1);
  size_t dynamic_smem_bytes = 0;

  int ctas() const { return static_cast<int>(grid.x * grid.y * grid.z); }
};

struct Buffers {
  const uint8_t *a;
  const uint8_t *b;
  const uint16_t *comb; // BF16 bits, [rows_per_image, n]
  uint16_t *c;          // BF16 bits, [m, n]
  void *workspace;
  unsigned long long *phase_clocks; // [ctas, phases] in a timing build, else null
};

// A tensor map in cuTensorMapEncodeTiled's own terms, so that describe and the encoder of a kernel
// read one record. dims and box fastest first; strides_bytes without the fastest.
struct TensorMap {
  std::string name;
  std::string buffer;
  std::string dtype;
  std::vector<uint64_t> dims;
  std::vector<uint64_t> strides_bytes;
  std::vector<uint32_t> box;
  std::vector<uint32_t> element_strides;
  std::string interleave = "none";
  std::string swizzle = "none";
  std::string l2_promotion = "none";
  std::string oob_fill = "zeros";
};

// One kernel parameter: {"buffer": "A"}, {"tensor_map": "A_map"} or a scalar under its type's name.
// The buffers are A, B, comb, C, and workspace and phase_clocks where the kernel has them.
struct Argument {
  std::string kind;
  std::string name;
  long long number = 0;

  static Argument buffer(const std::string &name) { return {"buffer", name}; }
  static Argument tensor_map(const std::string &name) { return {"tensor_map", name}; }
  static Argument i32(long long number) { return {"i32", "", number}; }
  static Argument u32(long long number) { return {"u32", "", number}; }
  static Argument null() { return {"u64", "", 0}; }
  static Argument phase_clocks() { return TIMING_BUILD ? buffer("phase_clocks") : null(); }
};

struct LaunchArgs {
  std::vector<Argument> args;
  std::vector<TensorMap> tensor_maps;
};

template <class Gemm> Problem make_problem(int images, int ctas) {
  return {images, ctas, images * Gemm::ROWS_PER_IMAGE, Gemm::N, Gemm::K, Gemm::ROWS_PER_IMAGE};
}

} // namespace kernelrig
