// Tiles that a tensor map swizzles by atoms of 32 bytes: loaded, read back by plain loads at the
// places that PTX ISA 5.5.7 says, doubled, and stored through the same map. Checks itself.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "mbarrier.cuh"

constexpr int COLUMNS = 32, ROWS = 16, TILES = 3; // 128 bytes a row

// Where column `c` of row `r` lies: line r, its 32-byte atoms permuted by the line's number.
__device__ int place(int r, int c) { return r * COLUMNS + ((c / 8 ^ r % 4) * 8) + c % 8; }

__global__ void twice(const __grid_constant__ CUtensorMap from,
                      const __grid_constant__ CUtensorMap to) {
  __shared__ __align__(1024) float tile[ROWS * COLUMNS];
  __shared__ __align__(8) uint64_t arrived;
  const int row = blockIdx.x * ROWS;
  if (threadIdx.x == 0) {
    init(&arrived);
    expect(&arrived, sizeof tile);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],"
                 " [%1, {%2, %3}], [%4];" ::"r"(shared_address(tile)),
                 "l"(&from), "r"(0), "r"(row), "r"(shared_address(&arrived))
                 : "memory");
  }
  __syncthreads();
  wait(&arrived, 0);
  for (int i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x) {
    float &held = tile[place(i / COLUMNS, i % COLUMNS)];
    held = 2 * held + (row + i / COLUMNS) * 1000 + i % COLUMNS;
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::"l"(&to),
                 "r"(0), "r"(row), "r"(shared_address(tile))
                 : "memory");
}

int main(int count, char **arguments) {
  constexpr int N = ROWS * COLUMNS * TILES;
  std::vector<float> host(N), back(N);
  for (int i = 0; i < N; i++)
    host[i] = float(i);
  float *in, *out;
  cudaMalloc(&in, N * sizeof(float));
  cudaMalloc(&out, N * sizeof(float));
  cudaMemcpy(in, host.data(), N * sizeof(float), cudaMemcpyHostToDevice);
  CUtensorMap maps[2];
  alignas(64) char room[sizeof(CUtensorMap) + 64];
  // Where it is made: an unoptimised g++ 12 places what a function returns at any 16 bytes.
  auto *made = reinterpret_cast<CUtensorMap *>(room + (count > 1 ? atoi(arguments[1]) : 0));
  float *bases[2] = {in, out};
  for (int i = 0; i < 2; i++) {
    cuuint64_t dims[2] = {COLUMNS, ROWS * TILES}, strides[1] = {COLUMNS * sizeof(float)};
    cuuint32_t box[2] = {COLUMNS, ROWS}, steps[2] = {1, 1};
    CUresult refused = cuTensorMapEncodeTiled(
        made, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, bases[i], dims, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (refused)
      return printf("refused: %d\n", refused) ? 5 : 0;
    memcpy(&maps[i], static_cast<void *>(made), sizeof maps[i]);
  }
  twice<<<TILES, 64>>>(maps[0], maps[1]);
  cudaMemcpy(back.data(), out, N * sizeof(float), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < N; i++)
    wrong += back[i] != 2 * host[i] + i / COLUMNS * 1000 + i % COLUMNS;
  printf("%d wrong\n", wrong);
  return wrong != 0;
}
