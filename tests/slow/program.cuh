// What the programs of this folder share: arguments, inputs, the check of all that was computed,
// and the time of a launch.
//
// A program defines
//   struct Program {
//     static constexpr size_t INPUTS, OUTPUTS;                 // words of 32 bits
//     template <int FORM> static uint32_t input(size_t i);     // word i of the inputs
//     static uint32_t expected(size_t i);                      // word i of the outputs, any form
//     template <int FORM> static void launch(const uint32_t *in, uint32_t *out);
//   };
// and `int main(int argc, char **argv) { return run<Program>(argc, argv); }`.
//
//   PROGRAM --form 0|1 [--samples N] [--warmup N]
//
// One line of JSON: the median time of a launch by CUDA events, and a checksum of all outputs. The
// exit code is 1 where an output is wrong, 2 for an argument, 70 where a CUDA call failed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#define CALL(call)                                                                                 \
  do {                                                                                             \
    const cudaError_t status = (call);                                                             \
    if (status != cudaSuccess) {                                                                   \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));                         \
      std::exit(70);                                                                               \
    }                                                                                              \
  } while (false)

__host__ __device__ constexpr uint32_t mixed(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  x ^= x >> 15;
  x *= 0x846CA68Bu;
  return x ^ x >> 16;
}

template <class Program, int FORM> __global__ void prepare(uint32_t *in) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < Program::INPUTS;
       i += step)
    in[i] = Program::template input<FORM>(i);
}

__global__ void add_up(const uint32_t *out, size_t count, unsigned long long *total) {
  unsigned long long own = 0;
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    own += out[i] * (2ull * i + 1);
  atomicAdd(total, own);
}

// Words of the outputs that the host computes itself, spread over all.
template <class Program> bool outputs_right(const uint32_t *out) {
  constexpr size_t SAMPLES = 1024;
  for (size_t sample = 0; sample < SAMPLES; ++sample) {
    const size_t i =
        (sample * 0x9E3779B97F4A7C15ull ^ mixed(static_cast<uint32_t>(sample))) % Program::OUTPUTS;
    uint32_t word;
    CALL(cudaMemcpy(&word, out + i, sizeof word, cudaMemcpyDeviceToHost));
    if (word != Program::expected(i)) {
      std::fprintf(stderr, "output %zu is %u, expected %u\n", i, word, Program::expected(i));
      return false;
    }
  }
  return true;
}

inline double epoch_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class Program, int FORM> int run_form(int samples, int warmup) {
  uint32_t *in, *out;
  unsigned long long *total, checksum = 0;
  CALL(cudaMalloc(&in, Program::INPUTS * sizeof *in));
  CALL(cudaMalloc(&out, Program::OUTPUTS * sizeof *out));
  CALL(cudaMalloc(&total, sizeof *total));
  CALL(cudaMemset(out, 0xA5, Program::OUTPUTS * sizeof *out));
  CALL(cudaMemset(total, 0, sizeof *total));
  prepare<Program, FORM><<<4096, 256>>>(in);
  CALL(cudaDeviceSynchronize());

  std::vector<cudaEvent_t> events(samples + 1);
  for (cudaEvent_t &event : events)
    CALL(cudaEventCreate(&event));
  for (int i = 0; i < warmup; ++i)
    Program::template launch<FORM>(in, out);
  CALL(cudaDeviceSynchronize());
  const double start_s = epoch_s();
  CALL(cudaEventRecord(events[0]));
  for (int i = 0; i < samples; ++i) {
    Program::template launch<FORM>(in, out);
    CALL(cudaEventRecord(events[i + 1]));
  }
  CALL(cudaDeviceSynchronize());
  const double end_s = epoch_s();

  std::vector<float> ms(samples);
  for (int i = 0; i < samples; ++i)
    CALL(cudaEventElapsedTime(&ms[i], events[i], events[i + 1]));
  std::sort(ms.begin(), ms.end());
  add_up<<<4096, 256>>>(out, Program::OUTPUTS, total);
  CALL(cudaMemcpy(&checksum, total, sizeof checksum, cudaMemcpyDeviceToHost));
  const bool right = outputs_right<Program>(out);
  std::printf("{\"form\": %d, \"right\": %s, \"checksum\": \"%016llx\", \"samples\": %d, "
              "\"median_ms\": %.5f, \"min_ms\": %.5f, \"start_s\": %.3f, \"end_s\": %.3f}\n",
              FORM, right ? "true" : "false", checksum, samples, ms[samples / 2], ms[0], start_s,
              end_s);
  return right ? 0 : 1;
}

template <class Program> int run(int argc, char **argv) {
  int form = -1, samples = 100, warmup = 20;
  for (int i = 1; i < argc; ++i) {
    int *const value = std::strcmp(argv[i], "--form") == 0      ? &form
                       : std::strcmp(argv[i], "--samples") == 0 ? &samples
                       : std::strcmp(argv[i], "--warmup") == 0  ? &warmup
                                                                : nullptr;
    if (value == nullptr || ++i == argc) {
      std::fprintf(stderr, "usage: PROGRAM --form 0|1 [--samples N] [--warmup N]\n");
      return 2;
    }
    *value = std::atoi(argv[i]);
  }
  if (form < 0 || form > 1 || samples < 1 || warmup < 0) {
    std::fprintf(stderr, "usage: PROGRAM --form 0|1 [--samples N] [--warmup N]\n");
    return 2;
  }
  return form == 0 ? run_form<Program, 0>(samples, warmup) : run_form<Program, 1>(samples, warmup);
}

// For kernels whose CTAs take more shared memory than 48 KB.
template <class... Parameters>
void launch_with(void (*kernel)(Parameters...), int ctas, int threads, int dynamic_smem_bytes,
                 const uint32_t *in, uint32_t *out) {
  CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                            dynamic_smem_bytes));
  kernel<<<ctas, threads, dynamic_smem_bytes>>>(in, out);
  CALL(cudaGetLastError());
}
