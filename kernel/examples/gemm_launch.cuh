// The launch of the GEMM examples: a CTA a tile, A and B by tensor map, C by its address.
#pragma once

#include "../operation.cuh"

template <class Config, auto FUNCTION> struct Gemm {
  static constexpr char ENTRY[] = "gemm_bf16";
  static constexpr auto KERNEL = FUNCTION;

  static Launch launch(const Case &c, int) {
    const uint64_t m = c["m"], n = c["n"], k = c["k"];
    Launch launch;
    launch.geometry.grid = dim3((n + Config::BLOCK_N - 1) / Config::BLOCK_N,
                                (m + Config::BLOCK_M - 1) / Config::BLOCK_M);
    launch.geometry.block = dim3(Config::THREADS);
    launch.geometry.dynamic_smem_bytes = Config::SMEM_BYTES;
    launch.arguments.args = {Argument::tensor_map("A_map"),
                             Argument::tensor_map("B_map"),
                             Argument::buffer("C"),
                             Argument::i32(c["m"]),
                             Argument::i32(c["n"]),
                             Argument::i32(c["k"])};
    launch.arguments.tensor_maps = {
        kernelrig::whole_tensor_map("A", "bf16", {k, m}, {Config::BLOCK_K, Config::BLOCK_M},
                                    "128B"),
        kernelrig::whole_tensor_map("B", "bf16", {k, n}, {Config::BLOCK_K, Config::BLOCK_N},
                                    "128B")};
    launch.arguments.shared_layout = kernelrig::list_of(Config::SHARED_LAYOUT);
    return launch;
  }
};
