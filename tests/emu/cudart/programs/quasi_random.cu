// Quasirandom numbers of cuRAND's host calls: how evenly they lie, and what the calls refuse.
#include <cmath>
#include <cstdio>
#include <vector>

#include <curand.h>

__global__ void inside(const float* x, const float* y, int n, int* count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] * x[i] + y[i] * y[i] < 1)
    atomicAdd(count, 1);
}

int main() {
  constexpr int N = 4096, DIMENSIONS = 3;
  curandGenerator_t generator;
  float *d;
  int *count, found = 0;
  cudaMalloc(&d, N * DIMENSIONS * 4);
  cudaMalloc(&count, 4);
  cudaMemset(count, 0, 4);
  curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT);
  printf("pseudo %d\n", curandSetQuasiRandomGeneratorDimensions(generator, 2));
  curandDestroyGenerator(generator);
  curandCreateGenerator(&generator, CURAND_RNG_QUASI_SOBOL32);
  printf("refused %d %d\n", curandSetQuasiRandomGeneratorDimensions(generator, 0),
         curandSetQuasiRandomGeneratorDimensions(generator, 20001));
  curandSetQuasiRandomGeneratorDimensions(generator, DIMENSIONS);
  printf("count %d\n", curandGenerateUniform(generator, d, N * DIMENSIONS + 1));
  curandGenerateUniform(generator, d, N * DIMENSIONS);
  inside<<<N / 128, 128>>>(d, d + N, N, count);
  cudaMemcpy(&found, count, 4, cudaMemcpyDeviceToHost);
  printf("a quarter of a circle within 0.2 %% %d\n", std::fabs(found * 4.0 / N / 3.14159265 - 1) < 0.002);
  std::vector<float> all(N * DIMENSIONS), later(N * DIMENSIONS);
  cudaMemcpy(all.data(), d, N * DIMENSIONS * 4, cudaMemcpyDeviceToHost);
  std::vector<int> cells(16 * 16 * DIMENSIONS);  // of each pair of dimensions, 16 points a cell
  for (int pair = 0; pair < DIMENSIONS; pair++)
    for (int i = 0; i < N; i++)
      cells[(pair * 16 + int(all[pair * N + i] * 15.999f)) * 16 + int(all[(pair + 1) % DIMENSIONS * N + i] * 15.999f)]++;
  int least = N, most = 0;
  for (int n : cells)
    least = n < least ? n : least, most = n > most ? n : most;
  printf("every cell has some, none has many %d\n", least >= 4 && most <= 32);
  curandSetGeneratorOffset(generator, 100);
  curandGenerateUniform(generator, d, N * DIMENSIONS);
  cudaMemcpy(later.data(), d, N * DIMENSIONS * 4, cudaMemcpyDeviceToHost);
  printf("offset %d\n", later[2 * N] == all[2 * N + 100]);
  curandGenerateNormal(generator, d, N * DIMENSIONS, 2, 3);
  cudaMemcpy(all.data(), d, N * DIMENSIONS * 4, cudaMemcpyDeviceToHost);
  double sum = 0, squares = 0;
  for (int i = 0; i < N; i++)
    sum += all[N + i], squares += double(all[N + i]) * all[N + i];
  printf("normal %.2f %.1f\n", sum / N, std::sqrt(squares / N - sum / N * (sum / N)));
  printf("64 bits %d\n", curandGenerateLongLong(generator, (unsigned long long*)d, DIMENSIONS));
  return curandDestroyGenerator(generator);
}
