// A tile that a tensor copy brings by the swizzle of one map, and that a product, or a tensor store,
// reads by another: program MAP DESCRIPTOR STORE REWRITE.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "mbarrier.cuh"

constexpr int ROWS = 64, COLUMNS = 64, BYTES = ROWS * COLUMNS * 2;

__device__ uint64_t descriptor(const void *tile, int swizzle) {
  return (shared_address(tile) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | (uint64_t)swizzle << 62;
}

__global__ void product(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out,
                        float *sums, int swizzle, bool rewrite) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ __align__(8) uint64_t arrived;
  const uint32_t barrier = shared_address(&arrived);
  if (threadIdx.x == 0) {
    init(&arrived);
    expect(&arrived, BYTES);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],"
                 " [%1, {0, 0}], [%2];" ::"r"(shared_address(tile)),
                 "l"(&in), "r"(barrier)
                 : "memory");
  }
  __syncthreads();
  wait(&arrived, 0);
  if (rewrite) {
    uint32_t *words = reinterpret_cast<uint32_t *>(tile);
    for (int i = threadIdx.x; i < BYTES / 4; i += blockDim.x)
      words[i] += 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  const uint64_t a = descriptor(tile, swizzle);
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %4, 1, 1,"
               " 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "l"(a));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
  sums[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {0, 0}], [%1];" ::"l"(
                     &out),
                 "r"(shared_address(tile))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

static CUtensorMap map_of(void *base, int swizzle) {
  void *entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, 0, &found);
  CUtensorMap map;
  const cuuint64_t dims[2] = {COLUMNS, ROWS}, strides[1] = {COLUMNS * 2};
  const cuuint32_t box[2] = {COLUMNS, ROWS}, steps[2] = {1, 1};
  const CUresult made = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, base, dims, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (made)
    exit(5);
  return map;
}

int main(int, char **argv) {
  unsigned char *in, *out;
  float *sums;
  cudaMalloc(&in, BYTES);
  cudaMalloc(&out, BYTES);
  cudaMalloc(&sums, 128 * sizeof(float));
  cudaMemset(in, 0x3f, BYTES);
  product<<<1, 128, BYTES>>>(map_of(in, atoi(argv[1])), map_of(out, atoi(argv[3])), sums,
                             atoi(argv[2]), argv[4][0] == '1');
  return cudaDeviceSynchronize() != cudaSuccess;
}
