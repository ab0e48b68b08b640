// One seeded bug per sanitizer tool: run as PROGRAM memcheck|racecheck|initcheck|synccheck|none
// under the tool of that name, which must report the kernel selftest_<name> and no other. A tool
// that reports nothing here does not work on this host, and its clean reports prove nothing. `none`
// must be clean.
//
// The bugs: a store of one element past an allocation, a missing barrier, a buffer half
// initialised, a barrier inside a branch.

#include <cuda_runtime.h>

#include <cstdio>
#include <string>
#include <vector>

#include "failure.cuh"

namespace {

constexpr int THREADS = 128;
constexpr int ELEMENTS = 1024;

__device__ __forceinline__ int element_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void selftest_memcheck(float *out, const float *in) {
  const int i = element_index();
  out[i == ELEMENTS - 1 ? ELEMENTS : i] = in[i]; // the last thread stores one element too far
}

extern "C" __global__ void selftest_racecheck(float *out, const float *in) {
  __shared__ float mirror[THREADS];
  const int i = element_index();
  mirror[threadIdx.x] = in[i];
  out[i] = mirror[THREADS - 1 - threadIdx.x]; // no barrier between the write and the read
}

extern "C" __global__ void selftest_initcheck(float *out, const float *in) {
  const int i = element_index();
  out[i] = in[ELEMENTS + i]; // allocated, never written
}

extern "C" __global__ void selftest_synccheck(float *out, const float *in) {
  const int i = element_index();
  if (threadIdx.x < 40)
    __syncthreads(); // eight lanes of the second warp arrive, the others do not
  out[i] = in[i];
}

extern "C" __global__ void selftest_none(float *out, const float *in) {
  __shared__ float mirror[THREADS];
  const int i = element_index();
  mirror[threadIdx.x] = in[i];
  __syncthreads();
  out[i] = mirror[THREADS - 1 - threadIdx.x];
}

struct Bug {
  const char *tool;
  void (*kernel)(float *, const float *);
};

constexpr Bug BUGS[] = {{"memcheck", selftest_memcheck},
                        {"racecheck", selftest_racecheck},
                        {"initcheck", selftest_initcheck},
                        {"synccheck", selftest_synccheck},
                        {"none", selftest_none}};

void run(const Bug &bug) {
  float *in = nullptr;
  float *out = nullptr;
  KERNELRIG_CUDA(cudaMalloc(&in, 2 * ELEMENTS * sizeof(float)));
  KERNELRIG_CUDA(cudaMalloc(&out, ELEMENTS * sizeof(float)));
  const std::vector<float> zeros(ELEMENTS);
  KERNELRIG_CUDA(cudaMemcpy(in, zeros.data(), ELEMENTS * sizeof(float), cudaMemcpyHostToDevice));
  KERNELRIG_CUDA(cudaMemcpy(out, zeros.data(), ELEMENTS * sizeof(float), cudaMemcpyHostToDevice));
  bug.kernel<<<ELEMENTS / THREADS, THREADS>>>(out, in);
  KERNELRIG_CUDA(cudaGetLastError());
  KERNELRIG_CUDA(cudaDeviceSynchronize());
  KERNELRIG_CUDA(cudaFree(in));
  KERNELRIG_CUDA(cudaFree(out));
}

} // namespace

int main(int argc, char **argv) {
  for (const Bug &bug : BUGS) {
    if (argc != 2 || std::string(argv[1]) != bug.tool)
      continue;
    try {
      run(bug);
    } catch (const kernelrig::Failure &failure) {
      std::fprintf(stderr, "sanitizer_selftest: %s: %s (%d) at %s\n", failure.text.c_str(),
                   failure.name.c_str(), failure.code, failure.where.c_str());
      return failure.exit_code;
    }
    std::printf("selftest_%s ran to its end\n", bug.tool);
    return kernelrig::EXIT_OK;
  }
  std::fputs("usage: sanitizer_selftest memcheck|racecheck|initcheck|synccheck|none\n", stderr);
  return kernelrig::EXIT_USAGE;
}
