// One step of motion of particles: new positions along x and y in fixed point, from the position,
// the velocity, the charge and the inverse mass.
#include "program.cuh"

namespace {

constexpr size_t PARTICLES = 1 << 22;
constexpr int THREADS = 256, WORDS = 16;

struct Particle {
  uint32_t x, y, z, colour, age, inverse_mass, cell, next;
  uint32_t vx, vy, vz, spin, group, charge, flags, name;
};
static_assert(sizeof(Particle) == WORDS * 4);

__host__ __device__ inline void move(uint32_t x, uint32_t y, uint32_t z, uint32_t inverse_mass,
                                     uint32_t vx, uint32_t vy, uint32_t vz, uint32_t charge,
                                     uint32_t &new_x, uint32_t &new_y) {
  const uint32_t force = (z ^ charge) + 3u * vz;
  new_x = x + vx + (force * inverse_mass >> 4);
  new_y = y + vy - (force * inverse_mass >> 5);
}

template <int FORM>
__global__ void __launch_bounds__(THREADS) work(const uint32_t *__restrict__ in,
                                                uint32_t *__restrict__ out) {
  const size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
  uint32_t x, y;
  if constexpr (FORM == 0) {
    const Particle *const p = reinterpret_cast<const Particle *>(in) + i;
    move(p->x, p->y, p->z, p->inverse_mass, p->vx, p->vy, p->vz, p->charge, x, y);
  } else {
    const uint32_t *const p = in + i;
    move(p[0], p[PARTICLES], p[2 * PARTICLES], p[5 * PARTICLES], p[8 * PARTICLES],
         p[9 * PARTICLES], p[10 * PARTICLES], p[13 * PARTICLES], x, y);
  }
  out[i] = x;
  out[PARTICLES + i] = y;
}

struct Program {
  static constexpr size_t INPUTS = PARTICLES * WORDS, OUTPUTS = PARTICLES * 2;
  __host__ __device__ static uint32_t field(size_t particle, size_t word) {
    return mixed(static_cast<uint32_t>(particle * WORDS + word) + 5u);
  }
  template <int FORM> __host__ __device__ static uint32_t input(size_t i) {
    return FORM == 0 ? field(i / WORDS, i % WORDS) : field(i % PARTICLES, i / PARTICLES);
  }
  static uint32_t expected(size_t i) {
    const size_t p = i % PARTICLES;
    uint32_t x, y;
    move(field(p, 0), field(p, 1), field(p, 2), field(p, 5), field(p, 8), field(p, 9),
         field(p, 10), field(p, 13), x, y);
    return i < PARTICLES ? x : y;
  }
  template <int FORM> static void launch(const uint32_t *in, uint32_t *out) {
    work<FORM><<<PARTICLES / THREADS, THREADS>>>(in, out);
    CALL(cudaGetLastError());
  }
};

} // namespace

int main(int argc, char **argv) { return run<Program>(argc, argv); }
