// A program of several small cases, chosen by its first argument: one compilation for many tests.
#include <algorithm>
#include <cassert>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

#include <cooperative_groups.h>

__global__ void axpy(float* y, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] += a * x[i];
}

__global__ void sum(float* out, const float* in) {
  __shared__ float part[128];
  part[threadIdx.x] = in[threadIdx.x];
  // __syncthreads() is missing here
  for (int step = 64; step; step /= 2) {
    if (threadIdx.x < step)
      part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    *out = part[0];
}

__global__ void spin(volatile int* flag) {
  while (!*flag) {
  }
}

// As tests/data/h200-printf.txt was printed.
__global__ void print() {
  if (threadIdx.x < 2)
    printf("i %d u %u x %x c %c s %s f %f e %e g %g lld %lld p %p pct %% w %5d|%-5d|%05d|%+d %.3f"
           " %10.2f %lu\n",
           -3, 7u, 255u, 'a', "text", 1.5, 2.5e10, 1e-5, 1234567890123ll, (void*)0x1234, 42, 42,
           42, 42, 3.14159, 2.71828, 99ul);
}

__global__ void claim(int x) { assert(x == 3 && "why"); }

__global__ void stop() { __trap(); }

__global__ void read(int* to, const int* from) { *to = *from; }

// Each CTA reads what the next one wrote.
__global__ void rotate(int* out, int* in) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  in[i] = i;
  cooperative_groups::this_grid().sync();
  out[i] = in[(i + blockDim.x) % n];
}

template <class T> static T* on_device(int n) {
  T* made = nullptr;
  if (cudaMalloc(&made, n * sizeof(T)))
    exit(70);
  return made;
}

static int add(int n) {
  float *x = (float*)malloc(4 * n), *y = (float*)malloc(4 * n);
  for (int i = 0; i < n; i++)
    x[i] = i, y[i] = 1;
  float *dx = on_device<float>(n), *dy = on_device<float>(n);
  cudaMemcpy(dx, x, 4 * n, cudaMemcpyHostToDevice);
  cudaMemcpy(dy, y, 4 * n, cudaMemcpyHostToDevice);
  axpy<<<(n + 127) / 128, 128>>>(dy, dx, 2.0f, n);
  axpy<<<(n + 127) / 128, 128>>>(dy, dx, 3.0f, n);
  cudaError_t error = cudaDeviceSynchronize();
  cudaMemcpy(y, dy, 4 * n, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; i++)
    if (y[i] != 1 + 5.0f * i)
      return 3;
  printf("%d right, %s\n", n, cudaGetErrorString(error));
  return 0;
}

static int race() {
  float h[128], r = -1;
  for (int i = 0; i < 128; i++)
    h[i] = i;
  float *in = on_device<float>(128), *out = on_device<float>(1);
  cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
  sum<<<1, 128>>>(out, in);
  cudaMemcpy(&r, out, 4, cudaMemcpyDeviceToHost);
  printf("%g\n", r);
  return 0;
}

static int beyond() {
  float* d = on_device<float>(32);
  cudaMemset(d, 0, 128);
  axpy<<<1, 64>>>(d, d, 1, 33);
  return 0;
}

static int errors() {
  float* d = on_device<float>(32);
  float h[64];
  axpy<<<1, 2048>>>(d, d, 1, 0);
  printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  printf("%d\n", cudaGetLastError());
  printf("%d\n", cudaMemcpy(h, d, 256, cudaMemcpyDeviceToHost));
  printf("%d\n", cudaMemcpy(h, d + 1, size_t(-4), cudaMemcpyDeviceToHost));
  printf("%d\n", cudaMemcpy(h, h + 1, 4, cudaMemcpyDeviceToHost));
  printf("%d\n", cudaFree(d + 1));
  printf("%d\n", cudaFree(d));
  printf("%d\n", cudaFree(d));
  return 4;
}

static int refused() {
  float* d = on_device<float>(32);
  axpy<<<1, 32>>>(d, d, 1, 0);
  axpy<<<1, 32, 64 << 10>>>(d, d, 1, 0);
  return cudaDeviceSynchronize();
}

static int refused_copy(bool asked) {
  float *d = on_device<float>(32), h[33] = {};
  axpy<<<1, 32>>>(d, d, 1, 0);
  cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);  // a word too many: nothing is copied
  return asked && cudaGetLastError() != cudaErrorInvalidValue;
}

static int returned_copy() {
  float *d = on_device<float>(32), h[33] = {};
  axpy<<<1, 32>>>(d, d, 1, 0);
  return cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost) != cudaErrorInvalidValue;
}

static int attribute(int id) {
  cudaLaunchAttribute one{};
  one.id = cudaLaunchAttributeID(id);
  cudaLaunchConfig_t config{};
  config.gridDim = 1, config.blockDim = 32, config.attrs = &one, config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, stop);
}

static int cooperative() {
  int *in = on_device<int>(96), *out = on_device<int>(96), h[96];
  void* args[] = {&out, &in};
  if (cudaLaunchCooperativeKernel((void*)rotate, 3, 32, args, 0, 0))
    return 1;
  cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 96; i++)
    if (h[i] != (i + 32) % 96)
      return 2;
  return 0;
}

static int pinned_later() {
  float* h = (float*)malloc(1 << 16);
  float* mine = h + 3;  // not where a page begins
  for (int i = 0; i < 5000; i++)
    mine[i] = i;
  float* d;
  if (cudaHostRegister(mine, 4 * 5000, cudaHostRegisterMapped) ||
      cudaHostGetDevicePointer(&d, mine, 0))
    return 1;
  axpy<<<40, 128>>>(d, d, 1, 5000);
  cudaDeviceSynchronize();
  bool seen = mine[4999] == 2 * 4999.0f;
  mine[0] = 7;
  axpy<<<1, 1>>>(d, d, 1, 1);
  seen = seen && cudaHostUnregister(mine) == cudaSuccess && mine[0] == 14 && mine[17] == 34;
  printf("%d %d %d\n", seen, cudaHostUnregister(mine), cudaHostRegister(nullptr, 4, 0));
  free(h);
  return 0;
}

// Two streams are captured and joined: y = 0, y += 2 x, then host and copy. Nothing runs before the
// graph is launched.
static int captured() {
  float *x = on_device<float>(32), *y = on_device<float>(32), h[32];
  for (int i = 0; i < 32; i++)
    h[i] = i;
  cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
  cudaStream_t one, two;
  cudaEvent_t fork, join;
  cudaStreamCreate(&one), cudaStreamCreate(&two), cudaEventCreate(&fork), cudaEventCreate(&join);
  int count = 0;
  cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
  cudaMemsetAsync(y, 0, 128, one);
  cudaEventRecord(fork, one);
  cudaStreamWaitEvent(two, fork, 0);
  axpy<<<1, 32, 0, two>>>(y, x, 2, 32);
  cudaEventRecord(join, two);
  cudaStreamWaitEvent(one, join, 0);
  cudaLaunchHostFunc(one, [](void* at) { ++*static_cast<int*>(at); }, &count);
  cudaMemcpyAsync(h, y, sizeof h, cudaMemcpyDeviceToHost, one);
  cudaGraph_t graph;
  cudaError_t ended = cudaStreamEndCapture(one, &graph);
  cudaGraphExec_t exec;
  cudaError_t made = cudaGraphInstantiate(&exec, graph, 0);
  printf("%d %d, %d times %g, ", ended, made, count, h[31]);
  for (int i = 0; i < 2; i++)
    cudaGraphLaunch(exec, one);
  printf("%d times %g\n", count, h[31]);
  // What may not be done in a capture ends it.
  cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
  cudaError_t synced = cudaStreamSynchronize(one);
  printf("%d %d", synced, cudaStreamEndCapture(one, &graph));
  cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
  cudaError_t allocated = cudaMalloc(&x, 4);
  printf(" %d %d", allocated, cudaStreamEndCapture(one, &graph));
  cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
  cudaError_t copied = cudaMemcpy(h, y, 4, cudaMemcpyDeviceToHost);
  printf(" %d %d", copied, cudaStreamEndCapture(one, &graph));
  cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
  cudaEventRecord(fork, one);
  cudaStreamWaitEvent(two, fork, 0);
  cudaMemsetAsync(y, 0, 128, two);
  printf(" %d %d\n", cudaStreamEndCapture(one, &graph), cudaStreamEndCapture(two, &graph));
  return 0;
}

// y = 1 (memset of a word's bits), then y += a x twice, the second by changed parameters.
static int nodes() {
  float *x = on_device<float>(32), *y = on_device<float>(32), h[32], one = 1, a = 2;
  for (int i = 0; i < 32; i++)
    h[i] = i;
  cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
  cudaGraph_t graph;
  cudaGraphNode_t set, added, back;
  cudaGraphCreate(&graph, 0);
  int n = 32;
  void* args[] = {&y, &x, &a, &n};
  cudaKernelNodeParams kernel{(void*)axpy, dim3(1), dim3(32), 0, args, nullptr};
  cudaGraphAddKernelNode(&added, graph, nullptr, 0, &kernel);
  cudaMemsetParams word{y, 0, 0, 4, 32, 1};
  memcpy(&word.value, &one, 4);
  cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &word);
  cudaGraphAddDependencies(graph, &set, &added, nullptr, 1);
  cudaGraphAddMemcpyNode1D(&back, graph, &added, 1, h, y, sizeof h, cudaMemcpyDeviceToHost);
  cudaGraphExec_t exec;
  cudaError_t made = cudaGraphInstantiate(&exec, graph, 0);
  a = 9;  // the node has its own
  cudaGraphLaunch(exec, 0);
  printf("%d, %g, ", made, h[31]);
  cudaGraphExecKernelNodeSetParams(exec, added, &kernel);
  cudaGraphLaunch(exec, 0);
  size_t count = 0;
  cudaGraphGetNodes(graph, nullptr, &count);
  printf("%g, %zu nodes, ", h[31], count);
  cudaGraphAddDependencies(graph, &back, &set, nullptr, 1);
  printf("%d\n", cudaGraphInstantiate(&exec, graph, 0));
  return 0;
}

// Memory of a graph's own, freed outside it, is there again, unwritten, at the next launch.
static int graph_memory() {
  cudaGraph_t graph;
  cudaGraphNode_t node, set;
  cudaGraphCreate(&graph, 0);
  cudaMemAllocNodeParams wanted{};
  wanted.poolProps.allocType = cudaMemAllocationTypePinned;
  wanted.poolProps.location = {cudaMemLocationTypeDevice, 0};
  wanted.bytesize = 128;
  cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &wanted);
  cudaMemsetParams bytes{wanted.dptr, 0, 7, 1, 64, 1};
  cudaGraphAddMemsetNode(&set, graph, &node, 1, &bytes);
  cudaGraphExec_t exec;
  cudaGraphInstantiate(&exec, graph, 0);
  for (int i = 0; i < 2; i++) {
    unsigned char h[128] = {};
    cudaError_t launched = cudaGraphLaunch(exec, 0);
    cudaMemcpy(h, wanted.dptr, 64, cudaMemcpyDeviceToHost);
    cudaError_t freed = i ? cudaFreeAsync(wanted.dptr, 0) : cudaFree(wanted.dptr);
    printf("%d %d %d\n", launched, h[63], freed);
  }
  return 0;
}

static int unwritten() {
  float* d = on_device<float>(32);
  float h[32];
  cudaMemset(d, 0, 64);
  cudaMemcpy(h, d, 128, cudaMemcpyDeviceToHost);
  printf("%d of 32 are 0\n", int(std::count(h, h + 32, 0.0f)));
  float* pinned;
  cudaMallocHost(&pinned, 128);
  return cudaMemcpyAsync(pinned, d, 128, cudaMemcpyDeviceToHost);
}

static int managed() {
  float* d;
  cudaMallocManaged(&d, 4096 + 128);
  for (int i = 0; i < 32; i++)
    d[i] = i;
  axpy<<<1, 32>>>(d, d, 1, 32);
  cudaDeviceSynchronize();
  printf("%g\n", d[31]);
  return d[31] != 62;
}

static int after_free() {
  float* d = on_device<float>(32);
  cudaMemset(d, 0, 128);
  cudaFree(d);
  on_device<float>(32);
  axpy<<<1, 32>>>(d, d, 1, 32);
  return 0;
}

static int host_pointer() {
  float h[32] = {};
  axpy<<<1, 32>>>(h, h, 1, 32);
  return 0;
}

static int hang() {
  int* d = on_device<int>(1);
  cudaMemset(d, 0, 4);
  spin<<<1, 1>>>(d);
  cudaError_t error = cudaDeviceSynchronize();
  printf("%s, then %s\n", cudaGetErrorName(error), cudaGetErrorName(cudaMalloc(&d, 4)));
  return 1;
}

static int failed(const char* what) {
  cudaError_t error = cudaGetLastError();
  cudaError_t sync = cudaDeviceSynchronize();
  int* d;
  cudaError_t later = cudaMalloc(&d, 4);
  printf("%s: %d %d %d %d\n", what, error, sync, later, cudaGetLastError());
  return 0;
}

static int printed() {
  print<<<1, 32>>>();
  return cudaDeviceSynchronize();
}

static int claimed() {
  claim<<<2, dim3(2, 2)>>>(1);
  return failed("assert");
}

static int stopped() {
  stop<<<1, 1>>>();
  return failed("trap");
}

static int null() {
  read<<<1, 1>>>(on_device<int>(1), nullptr);
  return failed("null");
}

static int skewed() {
  char* d = on_device<char>(64);
  cudaMemset(d, 0, 64);
  read<<<1, 1>>>((int*)d, (int*)(d + 5));
  return failed("skewed");
}

static int forked(bool early) {
  if (!early)
    cudaFree(nullptr);
  int* d;
  if (fork() == 0)
    _exit(cudaMalloc(&d, 4) == cudaErrorInitializationError ? 0 : 1);
  return cudaMalloc(&d, 4);
}

int main(int argc, char** argv) {
  std::string what = argc > 1 ? argv[1] : "add";
  if (what == "add")
    return add(argc > 2 ? atoi(argv[2]) : 1000);
  if (what == "race")
    return race();
  if (what == "beyond")
    return beyond();
  if (what == "errors")
    return errors();
  if (what == "refused")
    return refused();
  if (what == "refused-copy")
    return refused_copy(argc > 2);
  if (what == "returned-copy")
    return returned_copy();
  if (what == "attribute")
    return attribute(atoi(argv[2]));
  if (what == "cooperative")
    return cooperative();
  if (what == "captured")
    return captured();
  if (what == "graph-memory")
    return graph_memory();
  if (what == "nodes")
    return nodes();
  if (what == "pinned-later")
    return pinned_later();
  if (what == "unwritten")
    return unwritten();
  if (what == "managed")
    return managed();
  if (what == "after-free")
    return after_free();
  if (what == "host-pointer")
    return host_pointer();
  if (what == "hang")
    return hang();
  if (what == "fork")
    return forked(argc > 2);
  if (what == "print")
    return printed();
  if (what == "assert")
    return claimed();
  if (what == "trap")
    return stopped();
  if (what == "null")
    return null();
  if (what == "skewed")
    return skewed();
  if (what == "touch" && argc > 2)  // the program's own handler must not hide it
    signal(SIGSEGV, [](int) { _exit(0); });
  if (what == "touch")
    return *on_device<int>(1);
  if (what == "alone") {
    rotate<<<2, 32>>>(on_device<int>(64), on_device<int>(64));
    return 0;
  }
  if (what == "abort")
    abort();
  if (what == "echo") {
    char line[64];
    while (fgets(line, sizeof line, stdin))
      fputs(line, stdout);
    for (int i = 2; i < argc; i++)
      printf("<%s>", argv[i]);
    return 0;
  }
  return 2;
}
