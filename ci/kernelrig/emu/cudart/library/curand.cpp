// cuRAND's host calls, computed on the CPU. The numbers have the distributions of cuRAND's and are
// the same in each run of one seed and offset, but they are not cuRAND's own: number i of a seed is
// a hash of both (splitmix64).

#include "graphs.hpp"

#include <cmath>

#pragma GCC visibility push(default)
#include "include/curand.h"
#pragma GCC visibility pop

struct curandGenerator_st {
  bool on_host;
  uint64_t seed = 0, next = 0;
  cudaStream_t stream = nullptr;
};

using namespace cudart;

namespace {

constexpr double TWO_PI = 6.283185307179586;

uint64_t mixed(uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

uint64_t bits(const curandGenerator_st& generator, uint64_t index) {
  return mixed(mixed(generator.seed) ^ (index * 0x9E3779B97F4A7C15));
}

// In (0, 1], as cuRAND's are.
double uniform(const curandGenerator_st& generator, uint64_t index) {
  return double((bits(generator, index) >> 11) + 1) * 0x1p-53;
}

double normal(const curandGenerator_st& generator, uint64_t index) {
  uint64_t pair = index / 2 * 2;  // two numbers of one radius and angle (Box and Muller)
  double radius = std::sqrt(-2 * std::log(uniform(generator, pair)));
  double angle = TWO_PI * uniform(generator, pair + 1);
  return radius * (index % 2 ? std::sin(angle) : std::cos(angle));
}

curandStatus_t create(curandGenerator_t* out, curandRngType_t type, bool on_host) {
  if (!out || type < CURAND_RNG_PSEUDO_DEFAULT || type >= CURAND_RNG_QUASI_DEFAULT)
    return CURAND_STATUS_TYPE_ERROR;
  *out = new curandGenerator_st{on_host};
  return CURAND_STATUS_SUCCESS;
}

template <class T, class Make>
curandStatus_t generate(curandGenerator_t generator, T* out, size_t count, Make make) {
  if (!generator)
    return CURAND_STATUS_NOT_INITIALIZED;
  auto made = std::make_shared<std::vector<T>>(count);
  for (size_t i = 0; i < count; i++)
    (*made)[i] = T(make(*generator, generator->next + i));
  generator->next += count;
  auto kind = generator->on_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  auto work = [=] { return copy(out, made->data(), count * sizeof(T), kind, nullptr); };
  const Doing doing{What::OTHER, callers_of(__builtin_return_address(0))};
  cudaError_t error = generator->on_host
                          ? work()
                          : enqueue(generator->stream, node_of(cudaGraphNodeTypeMemcpy, doing, work));
  return error ? CURAND_STATUS_LAUNCH_FAILURE : CURAND_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

curandStatus_t curandCreateGenerator(curandGenerator_t* out, curandRngType_t type) {
  return create(out, type, false);
}
curandStatus_t curandCreateGeneratorHost(curandGenerator_t* out, curandRngType_t type) {
  return create(out, type, true);
}
curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
  delete generator;
  return generator ? CURAND_STATUS_SUCCESS : CURAND_STATUS_NOT_INITIALIZED;
}
curandStatus_t curandGetVersion(int* version) {
  *version = 10400;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
  generator->stream = stream;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator,
                                                  unsigned long long seed) {
  generator->seed = seed;
  generator->next = 0;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
  generator->next = offset;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOrdering(curandGenerator_t, curandOrdering_t) {
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGenerateSeeds(curandGenerator_t) { return CURAND_STATUS_SUCCESS; }

curandStatus_t curandGenerate(curandGenerator_t generator, unsigned* out, size_t count) {
  return generate(generator, out, count,
                  [](auto& g, uint64_t i) { return unsigned(bits(g, i) >> 32); });
}
curandStatus_t curandGenerateLongLong(curandGenerator_t generator, unsigned long long* out,
                                      size_t count) {
  return generate(generator, out, count, [](auto& g, uint64_t i) { return bits(g, i); });
}
curandStatus_t curandGenerateUniform(curandGenerator_t generator, float* out, size_t count) {
  return generate(generator, out, count, uniform);
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double* out,
                                           size_t count) {
  return generate(generator, out, count, uniform);
}
curandStatus_t curandGenerateNormal(curandGenerator_t generator, float* out, size_t count,
                                    float mean, float deviation) {
  return generate(generator, out, count,
                  [=](auto& g, uint64_t i) { return mean + deviation * normal(g, i); });
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double* out, size_t count,
                                          double mean, double deviation) {
  return generate(generator, out, count,
                  [=](auto& g, uint64_t i) { return mean + deviation * normal(g, i); });
}
curandStatus_t curandGenerateLogNormal(curandGenerator_t generator, float* out, size_t count,
                                       float mean, float deviation) {
  return generate(generator, out, count,
                  [=](auto& g, uint64_t i) { return std::exp(mean + deviation * normal(g, i)); });
}
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator, double* out,
                                             size_t count, double mean, double deviation) {
  return generate(generator, out, count,
                  [=](auto& g, uint64_t i) { return std::exp(mean + deviation * normal(g, i)); });
}
}
