// Random numbers that cuRAND's host calls make, and what their distributions are.
#include <cmath>
#include <cstdio>
#include <vector>

#include <curand.h>

__global__ void none(float*) {}

static void show(const char* what, const std::vector<float>& values) {
  double sum = 0, squares = 0, low = values[0], high = values[0];
  for (float v : values)
    sum += v, squares += double(v) * v, low = fmin(low, v), high = fmax(high, v);
  double mean = sum / values.size();
  printf("%s %.2f %.2f %d\n", what, mean, sqrt(squares / values.size() - mean * mean),
         low > 0 && high <= 1);
}

int main() {
  constexpr int N = 40001;
  std::vector<float> first(N), again(N);
  float *d, *e;
  cudaMalloc(&d, N * 4); cudaMalloc(&e, 4);
  none<<<1, 1>>>(e);
  curandGenerator_t generator;
  if (curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT))
    return 1;
  for (std::vector<float>* into : {&first, &again}) {
    curandSetPseudoRandomGeneratorSeed(generator, 1234);
    curandGenerateUniform(generator, d, N);
    cudaMemcpy(into->data(), d, N * 4, cudaMemcpyDeviceToHost);
  }
  show("uniform", first);
  printf("again %d\n", first == again);
  curandGenerateNormal(generator, d, N, 2, 3);
  cudaMemcpy(first.data(), d, N * 4, cudaMemcpyDeviceToHost);
  show("normal", first);
  printf("beyond %d\n", curandGenerateUniform(generator, d, N + 1));
  curandDestroyGenerator(generator);
  curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10);
  curandSetPseudoRandomGeneratorSeed(generator, 1234);
  curandGenerateUniform(generator, first.data(), N);
  printf("host %d\n", first == again);
  return curandDestroyGenerator(generator);
}
