// cuRAND's host calls, computed on the CPU. The numbers have the distributions of cuRAND's and are
// the same in each run of one seed and offset, but they are not cuRAND's own: number i of a seed is
// a hash of both (splitmix64). Quasirandom point i has as its coordinate j the fraction of
// 1/2 + (i + 1) * sqrt(prime j), in place of Sobol's, and lies as evenly; as in cuRAND, all first
// coordinates of a call come first, then all second ones.

#include "graphs.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#pragma GCC visibility push(default)
#include "include/curand.h"
#pragma GCC visibility pop

struct curandGenerator_st {
  bool on_host;
  curandRngType_t type;
  uint64_t seed = 0, next = 0;
  unsigned dimensions = 1;      // of quasirandom points; `next` counts those
  std::vector<uint64_t> roots;  // of these: fractions, in 64 bits

  bool quasi() const { return type >= CURAND_RNG_QUASI_DEFAULT; }
  bool wide() const { return type >= CURAND_RNG_QUASI_SOBOL64; }
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
double uniform_of(uint64_t bits) { return double((bits >> 11) + 1) * 0x1p-53; }
double uniform(const curandGenerator_st& generator, uint64_t index) {
  return uniform_of(bits(generator, index));
}

// The inverse of the normal distribution: Abramowitz and Stegun 26.2.23, then Newton's steps.
double normal_of(double uniform) {
  const double tail = std::max(std::min(uniform, 1 - uniform), 0x1p-54);
  const double t = std::sqrt(-2 * std::log(tail));
  double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (int step = 0; step < 3; step++)
    x += (std::erfc(x / std::sqrt(2.0)) / 2 - tail) * std::sqrt(TWO_PI) * std::exp(x * x / 2);
  return uniform < 0.5 ? -x : x;
}

uint64_t quasi_bits(uint64_t root, uint64_t point) { return (point + 1) * root + (1ull << 63); }

double normal(const curandGenerator_st& generator, uint64_t index) {
  uint64_t pair = index / 2 * 2;  // two numbers of one radius and angle (Box and Muller)
  double radius = std::sqrt(-2 * std::log(uniform(generator, pair)));
  double angle = TWO_PI * uniform(generator, pair + 1);
  return radius * (index % 2 ? std::sin(angle) : std::cos(angle));
}

// The fractions of the square roots of the first primes.
void set_dimensions(curandGenerator_st& generator, unsigned count) {
  generator.dimensions = count;
  generator.roots.clear();
  for (unsigned n = 2; generator.roots.size() < count; n++) {
    bool prime = true;
    for (unsigned d = 2; prime && d * d <= n; d++)
      prime = n % d != 0;
    if (!prime)
      continue;
    const long double root = std::sqrt(static_cast<long double>(n));
    generator.roots.push_back(uint64_t((root - std::floor(root)) * 0x1p64L));
  }
}

curandStatus_t create(curandGenerator_t* out, curandRngType_t type, bool on_host) {
  if (!out || type < CURAND_RNG_PSEUDO_DEFAULT || type > CURAND_RNG_QUASI_SCRAMBLED_SOBOL64)
    return CURAND_STATUS_TYPE_ERROR;
  *out = new curandGenerator_st{on_host, type};
  set_dimensions(**out, 1);
  return CURAND_STATUS_SUCCESS;
}

// `make` takes a generator and a number of a pseudorandom sequence, `place` the bits of a coordinate.
template <class T, class Make, class Place>
curandStatus_t generate(curandGenerator_t generator, T* out, size_t count, Make make, Place place) {
  if (!generator)
    return CURAND_STATUS_NOT_INITIALIZED;
  auto made = std::make_shared<std::vector<T>>(count);
  if (generator->quasi()) {
    if (count % generator->dimensions)
      return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    const size_t points = count / generator->dimensions;
    for (size_t i = 0; i < count; i++)
      (*made)[i] = T(place(quasi_bits(generator->roots[i / points], generator->next + i % points)));
    generator->next += points;
  } else {
    for (size_t i = 0; i < count; i++)
      (*made)[i] = T(make(*generator, generator->next + i));
    generator->next += count;
  }
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
curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator,
                                                       unsigned dimensions) {
  if (!generator)
    return CURAND_STATUS_NOT_INITIALIZED;
  if (!generator->quasi())
    return CURAND_STATUS_TYPE_ERROR;
  if (!dimensions || dimensions > 20000)
    return CURAND_STATUS_OUT_OF_RANGE;
  set_dimensions(*generator, dimensions);
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
  if (generator && generator->quasi() && generator->wide())
    return CURAND_STATUS_TYPE_ERROR;
  return generate(
      generator, out, count, [](auto& g, uint64_t i) { return unsigned(bits(g, i) >> 32); },
      [](uint64_t bits) { return unsigned(bits >> 32); });
}
curandStatus_t curandGenerateLongLong(curandGenerator_t generator, unsigned long long* out,
                                      size_t count) {
  if (generator && generator->quasi() && !generator->wide())
    return CURAND_STATUS_TYPE_ERROR;
  return generate(
      generator, out, count, [](auto& g, uint64_t i) { return bits(g, i); },
      [](uint64_t bits) { return bits; });
}
curandStatus_t curandGenerateUniform(curandGenerator_t generator, float* out, size_t count) {
  return generate(generator, out, count, uniform, uniform_of);
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double* out,
                                           size_t count) {
  return generate(generator, out, count, uniform, uniform_of);
}
curandStatus_t curandGenerateNormal(curandGenerator_t generator, float* out, size_t count,
                                    float mean, float deviation) {
  const auto of = [=](double x) { return mean + deviation * x; };
  return generate(
      generator, out, count, [=](auto& g, uint64_t i) { return of(normal(g, i)); },
      [=](uint64_t bits) { return of(normal_of(uniform_of(bits))); });
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double* out, size_t count,
                                          double mean, double deviation) {
  const auto of = [=](double x) { return mean + deviation * x; };
  return generate(
      generator, out, count, [=](auto& g, uint64_t i) { return of(normal(g, i)); },
      [=](uint64_t bits) { return of(normal_of(uniform_of(bits))); });
}
curandStatus_t curandGenerateLogNormal(curandGenerator_t generator, float* out, size_t count,
                                       float mean, float deviation) {
  const auto of = [=](double x) { return std::exp(mean + deviation * x); };
  return generate(
      generator, out, count, [=](auto& g, uint64_t i) { return of(normal(g, i)); },
      [=](uint64_t bits) { return of(normal_of(uniform_of(bits))); });
}
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator, double* out,
                                             size_t count, double mean, double deviation) {
  const auto of = [=](double x) { return std::exp(mean + deviation * x); };
  return generate(
      generator, out, count, [=](auto& g, uint64_t i) { return of(normal(g, i)); },
      [=](uint64_t bits) { return of(normal_of(uniform_of(bits))); });
}
}
