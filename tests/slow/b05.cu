// Density of weighted points at many places, by a kernel of compact support.
#include "program.cuh"

constexpr int THREADS = 512, PLACES = 2, CHUNK = THREADS * PLACES, CHUNKS = 1120, POINTS = 256;

struct Point {
  float x, y, z, weight;
};

__host__ __device__ inline Point unpacked(uint32_t word) {
  return {static_cast<float>(word & 31), static_cast<float>(word >> 5 & 31),
          static_cast<float>(word >> 10 & 31), static_cast<float>(word >> 15 & 3)};
}

template <int EACH> __global__ void __launch_bounds__(THREADS) work(const uint32_t *in, uint32_t *out) {
  __shared__ float4 points[POINTS];
  const int t = threadIdx.x;
  if (t < POINTS) {
    const Point p = unpacked(in[static_cast<size_t>(CHUNKS) * CHUNK + t]);
    points[t] = make_float4(p.x, p.y, p.z, p.weight);
  }
  __syncthreads();
#pragma unroll 1
  for (int c = 0; c < EACH; ++c) {
    const size_t first = (static_cast<size_t>(blockIdx.x) * EACH + c) * CHUNK + t;
    Point place[PLACES];
    float sum[PLACES] = {};
#pragma unroll
    for (int i = 0; i < PLACES; ++i)
      place[i] = unpacked(in[first + i * THREADS]);
#pragma unroll 8
    for (int k = 0; k < POINTS; ++k) {
      const float4 p = points[k];
#pragma unroll
      for (int i = 0; i < PLACES; ++i) {
        const float dx = place[i].x - p.x, dy = place[i].y - p.y, dz = place[i].z - p.z;
        const float near = fmaf(-dx, dx, fmaf(-dy, dy, fmaf(-dz, dz, 512.0f)));
        sum[i] = fmaf(p.w, fmaxf(near, 0.0f), sum[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < PLACES; ++i)
      out[first + i * THREADS] = __float_as_uint(sum[i]);
  }
}

struct Program {
  static constexpr size_t OUTPUTS = static_cast<size_t>(CHUNKS) * CHUNK, INPUTS = OUTPUTS + POINTS;
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return mixed(static_cast<uint32_t>(i) + 5);
  }
  static uint32_t expected(size_t i) {
    const Point place = unpacked(input<0>(i));
    float sum = 0;
    for (int k = 0; k < POINTS; ++k) {
      const Point p = unpacked(input<0>(OUTPUTS + k));
      const float dx = place.x - p.x, dy = place.y - p.y, dz = place.z - p.z;
      sum += p.weight * std::max(512 - dx * dx - dy * dy - dz * dz, 0.0f);
    }
    uint32_t word;
    memcpy(&word, &sum, 4);
    return word;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    constexpr int EACH = FORM == 0 ? 8 : 1;
    work<EACH><<<CHUNKS / EACH, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

int main(int argc, char **argv) { return run<Program>(argc, argv); }
