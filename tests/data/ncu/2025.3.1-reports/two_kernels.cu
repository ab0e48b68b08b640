// Two kernels for captures of ncu: a copy that is coalesced, and a transpose whose reads of shared
// memory meet in one bank and whose stores are uncoalesced. Each is launched three times.
#include <cstdio>

constexpr int N = 1024, TILE = 32;

__global__ void good_copy(float *to, const float *from) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  to[at] = 2.0f * from[at];
}

__global__ void slow_transpose(float *to, const float *from) {
  __shared__ float tile[TILE][TILE];
  const int column = threadIdx.x, row = threadIdx.y;
  tile[row][column] = from[(blockIdx.y * TILE + row) * N + blockIdx.x * TILE + column];
  __syncthreads();
  float sum = 0.0f;
  for (int turn = 0; turn < TILE; ++turn)
    sum += tile[column][(row + turn) % TILE];
  to[(blockIdx.x * TILE + column) * N + blockIdx.y * TILE + row] = sum;
}

int main() {
  float *from = nullptr, *to = nullptr;
  cudaMalloc(&from, N * N * sizeof(float));
  cudaMalloc(&to, N * N * sizeof(float));
  cudaMemset(from, 0, N * N * sizeof(float));
  for (int launch = 0; launch < 3; ++launch) {
    good_copy<<<N * N / 256, 256>>>(to, from);
    slow_transpose<<<dim3(N / TILE, N / TILE), dim3(TILE, TILE)>>>(to, from);
  }
  const cudaError_t ended = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(ended));
  return ended != cudaSuccess;
}
