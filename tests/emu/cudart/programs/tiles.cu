// A tensor copy in a cluster, launched with attributes; variables; a struct of parameters.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda.h>
#include <cuda_runtime.h>

#include "mbarrier.cuh"

constexpr int ROWS = 8, COLUMNS = 32, TILES = 4;

__constant__ float scale[2] = {2, 3};
__device__ int tiles_done = 5;
__managed__ int seen = 0;

struct Job {
  CUtensorMap map;
  float* out;
  int rows;
};

__global__ void copy_tile(const __grid_constant__ Job job) {
  extern __shared__ __align__(1024) float tile[];
  __shared__ __align__(8) uint64_t arrived;
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    init(&arrived);
    expect(&arrived, ROWS * COLUMNS * 4);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],"
                 " [%1, {%2, %3}], [%4];" ::"r"(shared_address(tile)),
                 "l"(&job.map), "r"(0), "r"((int)blockIdx.x * ROWS),
                 "r"(shared_address(&arrived))
                 : "memory");
  }
  __syncthreads();
  wait(&arrived, 0);
  for (int i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x)
    job.out[blockIdx.x * ROWS * COLUMNS + i] = tile[i] * scale[rank];
  if (threadIdx.x == 0) {
    atomicAdd(&tiles_done, 1);
    atomicAdd(&seen, 1);
  }
}

__global__ void count(int* out) { *out = tiles_done; }

static CUresult encode(CUtensorMap* map, void* base, int stride, int box) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, 0, &found);
  cuuint64_t dims[2] = {COLUMNS, ROWS * TILES}, strides[1] = {(cuuint64_t)stride};
  cuuint32_t boxes[2] = {(cuuint32_t)box, ROWS}, steps[2] = {1, 1};
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
      map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, base, dims, strides, boxes, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// Functions of the driver by name: one that is here, of two that are not.
static int by_name() {
  void *info, *map, *none;
  cudaDriverEntryPointQueryResult found[3];
  CUdriverProcAddressQueryResult asked;
  cudaGetDriverEntryPointByVersion("cuMemGetInfo", &info, 12000, 0, &found[0]);
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2colWide", &map, 12000, 0, &found[1]);
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2colWide", &map, 12000, 0, &found[1]);
  cudaGetDriverEntryPointByVersion("malloc", &none, 12000, 0, &found[2]);
  CUresult result = cuGetProcAddress("cuMulticastCreate", &none, 12030, 0, &asked);
  size_t left, whole;
  reinterpret_cast<decltype(&cuMemGetInfo)>(info)(&left, &whole);
  printf("%d %d %d, %d %d, %d of the whole is left\n", found[0], found[1], found[2], result, asked,
         left == whole);
  return map || none;
}

int main(int argc, char** argv) {
  constexpr int N = ROWS * COLUMNS * TILES;
  const char* what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "by-name"))
    return by_name();
  float host[N], back[N];
  for (int i = 0; i < N; i++)
    host[i] = i;
  Job job{};
  float* in;
  cudaMalloc(&in, sizeof host);
  cudaMalloc(&job.out, sizeof host);
  job.rows = ROWS;
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  CUresult made = encode(&job.map, in, !strcmp(what, "stride") ? 100 : COLUMNS * 4, COLUMNS);
  if (made)
    return printf("refused: %d\n", made) ? 5 : 0;
  if (!strcmp(what, "empty"))
    memset(&job.map, 7, sizeof job.map);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(TILES);
  config.blockDim = dim3(64);
  config.dynamicSmemBytes = ROWS * COLUMNS * 4;
  cudaLaunchAttribute cluster[1];
  cluster[0].id = cudaLaunchAttributeClusterDimension;
  cluster[0].val.clusterDim = {2, 1, 1};
  config.attrs = cluster;
  config.numAttrs = 1;
  float more[2] = {2, 3};
  if (!strcmp(what, "symbols")) {
    more[0] = 10, more[1] = 100;
    cudaMemcpyToSymbol(scale, more, sizeof more);
  }
  cudaError_t error = cudaLaunchKernelEx(&config, copy_tile, job);
  cudaDeviceSynchronize();
  cudaMemcpy(back, job.out, sizeof back, cudaMemcpyDeviceToHost);
  int wrong = 0, total = 0, *counted;
  for (int i = 0; i < N; i++)
    wrong += back[i] != host[i] * more[i / (ROWS * COLUMNS) % 2];
  cudaMalloc(&counted, 4);
  count<<<1, 1>>>(counted);
  cudaMemcpy(&total, counted, 4, cudaMemcpyDeviceToHost);
  cudaDeviceProp shown;
  cudaGetDeviceProperties(&shown, 0);
  int clusters, ctas;
  cudaOccupancyMaxActiveClusters(&clusters, copy_tile, &config);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, count, 128, 10000);
  printf("%d, %d wrong, %d done, %d seen, %d.%d with %d SMs, %d clusters, %d CTAs\n", error, wrong,
         total, seen, shown.major, shown.minor, shown.multiProcessorCount, clusters, ctas);
  return wrong != 0;
}
