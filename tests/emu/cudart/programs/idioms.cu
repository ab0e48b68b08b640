// Idioms of authors: each kernel as it is right (N is 0), and with the part of it left out that N counts.
// Every kernel gets zeroed memory of its own.
#include <cuda_runtime.h>

#include <cstdint>

static constexpr int WORDS = 1024, FLAG = 512, SECOND = 768;

__device__ uint32_t shared(const void* p) {
  return uint32_t(__cvta_generic_to_shared(p));
}

// A persistent kernel whose CTAs take tiles from a counter.
template <int N> __global__ void tiles(int* out) {
  __shared__ int tile;
  while (true) {
    if (threadIdx.x == 0)
      tile = atomicAdd(out + FLAG, 1);
    __syncthreads();
    const int mine = tile;
    if (N != 1)
      __syncthreads();
    if (mine >= 6)
      break;
    out[mine * 64 + threadIdx.x] = mine;
  }
}

// Decoupled look-back: a CTA waits for the sum of the one before.
template <int N> __global__ void look_back(int* out) {
  volatile int* flag = out + FLAG;
  const int cta = blockIdx.x;
  if (threadIdx.x)
    return;
  int before = 0;
  if (cta) {
    while (!flag[cta - 1]) {
    }
    if (N != 1)
      __threadfence();
    before = __ldcg(out + cta - 1);
  }
  __stcg(out + cta, before + 1);
  if (N != 2)
    __threadfence();
  flag[cta] = 1;
}

// CTAs add to one tile in their order, by a semaphore.
template <int N> __global__ void split_k(int* out) {
  int* turn = out + FLAG;
  const int cta = blockIdx.x;
  if (threadIdx.x == 0) {
    int now;
    do
      asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
    while (now != cta);
  }
  if (N != 1)
    __syncthreads();
  out[threadIdx.x] += 1;
  if (N != 2)
    __syncthreads();
  if (threadIdx.x)
    return;
  if (N == 3)
    asm volatile("st.global.relaxed.gpu.b32 [%0], %1;" ::"l"(turn), "r"(cta + 1) : "memory");
  else
    asm volatile("st.global.release.gpu.b32 [%0], %1;" ::"l"(turn), "r"(cta + 1) : "memory");
}

// A barrier of the grid: all fence, meet, one counts and waits.
template <int N> __global__ void grid(int* out) {
  const int next = (blockIdx.x + 1) % gridDim.x;
  out[blockIdx.x * 64 + threadIdx.x] = 1;
  if (N != 1)
    __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(out + FLAG, 1);
    while (*(volatile int*)(out + FLAG) < int(gridDim.x)) {
    }
    if (N != 2)
      __threadfence();
  }
  if (N != 3)
    __syncthreads();
  out[SECOND + blockIdx.x * 64 + threadIdx.x] = out[next * 64 + threadIdx.x];
}

// A CTA hands on what it made; a fence is no wait for the flag.
template <int N> __global__ void hand_on(int* out) {
  volatile int* flag = out + FLAG;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = 7;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
      *flag = 1;
    return;
  }
  if (N != 1 && threadIdx.x == 0)
    while (!*flag) {
    }
  __syncthreads();
  __threadfence();
  out[64 + threadIdx.x] = out[threadIdx.x];
}

// CTAs count, and one that knows that all have reads what another wrote. N is 1: nobody looks at the
// counter; 2: at what it was, and nobody waits.
template <int N> __global__ void tally(int* out) {
  const int next = (blockIdx.x + 1) % gridDim.x;
  out[blockIdx.x * 64 + threadIdx.x] = 1;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const int before = atomicAdd(out + FLAG, 1);
    if (N == 2)
      out[FLAG + 1 + blockIdx.x] = before;
    while (N == 0 && atomicAdd(out + FLAG, 0) < int(gridDim.x)) {
    }
    __threadfence();
  }
  __syncthreads();
  out[SECOND + blockIdx.x * 64 + threadIdx.x] = out[next * 64 + threadIdx.x];
}

// Every thread counts, and the last of all reads what they wrote.
template <int N> __global__ void last(int* out) {
  const int all = gridDim.x * blockDim.x;
  out[blockIdx.x * 64 + threadIdx.x] = 1;
  if (N != 1)
    __threadfence();
  if (atomicAdd(out + FLAG, 1) == all - 1) {
    __threadfence();
    int sum = 0;
    for (int i = 0; i < all; ++i)
      sum += out[i];
    out[SECOND] = sum;
  }
}

// A bulk copy fetches what another CTA wrote, which fenced for it. Two fence.sc order both, and the
// thread that counts has fenced nothing itself.
template <int N> __global__ void fetch(int* out) {
  __shared__ alignas(8) uint64_t full;
  __shared__ alignas(128) int box[64];
  const int next = (blockIdx.x + 1) % gridDim.x;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "fence.mbarrier_init.release.cluster;" ::"r"(shared(&full))
                 : "memory");
  out[blockIdx.x * 64 + threadIdx.x] = 1;
  if (N != 1 && N != 2)
    asm volatile("fence.proxy.async;" ::: "memory");
  __threadfence();
  if (N == 2)
    asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(out + FLAG, 1);
    while (atomicAdd(out + FLAG, 0) < int(gridDim.x)) {
    }
    if (N != 3)
      __threadfence();
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(shared(&full))
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], 256, [%2];" ::"r"(shared(box)),
                 "l"(__cvta_generic_to_global(out + next * 64)), "r"(shared(&full))
                 : "memory");
  }
  asm volatile("{\n.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n"
               "@!p bra W;\n}" ::"r"(shared(&full))
               : "memory");
  out[SECOND + blockIdx.x * 64 + threadIdx.x] = box[threadIdx.x];
}

// A lock.
template <int N> __global__ void lock(int* out) {
  if (threadIdx.x)
    return;
  while (atomicCAS(out + FLAG, 0, 1)) {
  }
  __threadfence();
  out[0] += 1;
  if (N != 1)
    __threadfence();
  if (N == 2)
    out[FLAG] = 0;
  else
    atomicExch(out + FLAG, 0);
}

// A counter that a thread sets to 0 and that all count on.
template <int N> __global__ void counter(int* out) {
  if (threadIdx.x)
    return;
  if (N == 1 && blockIdx.x == 0)
    out[FLAG] = 0;
  const int before = atomicAdd(out + FLAG, 1);
  if (N == 0 && before == int(gridDim.x) - 1)
    out[FLAG] = 0;
}

// Copies in two stages, the next one in flight while one is read.
template <int N> __global__ void stages(int* out) {
  __shared__ alignas(16) int box[2][256];
  const int own = threadIdx.x * 4;
  const auto load = [&](int stage) {
    const int* from = out + FLAG;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;" ::"r"(
                     shared(&box[stage & 1][own])),
                 "l"(__cvta_generic_to_global(from + own))
                 : "memory");
  };
  load(0);
  for (int stage = 0; stage < 3; ++stage) {
    if (stage < 2)
      load(stage + 1);
    else if (N != 1)
      asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    if (N != 2)
      __syncthreads();
    out[stage * 64 + threadIdx.x] = box[stage & 1][own ^ 132];
    if (N != 3)
      __syncthreads();
  }
}

// Lanes exchange by shared memory, twice.
template <int N> __global__ void exchange(int* out) {
  __shared__ int box[64];
  for (int turn = 0; turn < 2; ++turn) {
    box[threadIdx.x] = turn + threadIdx.x;
    if (N != 1)
      __syncwarp();
    out[turn * 64 + threadIdx.x] = box[threadIdx.x ^ 31];
    if (N != 2)
      __syncwarp();
  }
}

// A box that is stored by a bulk copy and written again.
template <int N> __global__ void store(int* out) {
  __shared__ alignas(128) int box[64];
  for (int turn = 0; turn < 3; ++turn) {
    box[threadIdx.x] = turn;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;\n"
                   "cp.async.bulk.commit_group;" ::"l"(__cvta_generic_to_global(out + turn * 64)),
                   "r"(shared(box))
                   : "memory");
      if (N != 1)
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    if (N != 2)
      __syncthreads();
  }
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// The CTAs of a cluster send one another a box.
template <int N> __global__ void __cluster_dims__(2) send(int* out) {
  __shared__ alignas(8) uint64_t full;
  __shared__ int box[32];
  const int rank = blockIdx.x;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "fence.mbarrier_init.release.cluster;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(shared(&full))
                 : "memory");
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  uint32_t to, bar;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared(box)), "r"(rank ^ 1));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar) : "r"(shared(&full)), "r"(rank ^ 1));
  if (threadIdx.x < 32)
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                     to + 4 * threadIdx.x),
                 "r"(rank), "r"(bar)
                 : "memory");
  if (N != 1)
    asm volatile("{\n.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n"
                 "@!p bra W;\n}" ::"r"(shared(&full))
                 : "memory");
  if (threadIdx.x < 32)
    out[rank * 32 + threadIdx.x] = box[threadIdx.x];
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

static void run(void (*kernel)(int*), int ctas) {
  int* out;
  cudaMalloc(&out, WORDS * sizeof(int));
  cudaMemset(out, 0, WORDS * sizeof(int));
  kernel<<<ctas, 64>>>(out);
}

int main() {
  void (*const of_three[])(int*) = {
      tiles<0>,   tiles<1>,  look_back<0>, look_back<1>, look_back<2>, split_k<0>, split_k<1>,
      split_k<2>, split_k<3>, grid<0>,     grid<1>,      grid<2>,      grid<3>,    lock<0>,
      lock<1>,    lock<2>,    counter<0>,  counter<1>,
      tally<0>,   tally<1>,  tally<2>,     last<0>,      last<1>,      fetch<0>,   fetch<1>,
      fetch<2>,   fetch<3>};
  for (auto kernel : of_three)
    run(kernel, 3);
  for (auto kernel : {hand_on<0>, hand_on<1>, send<0>, send<1>})
    run(kernel, 2);
  void (*const of_one[])(int*) = {stages<0>,   stages<1>,   stages<2>, stages<3>, exchange<0>,
                                  exchange<1>, exchange<2>, store<0>,  store<1>,  store<2>};
  for (auto kernel : of_one)
    run(kernel, 1);
  return cudaDeviceSynchronize() != cudaSuccess;
}
