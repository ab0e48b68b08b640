// Work on streams, in order or with an order left out: program CASE.., each as `name` or `name-wrong`.
#include <cstdio>
#include <cstring>

#include <cuda_runtime.h>

constexpr int N = 1024, BYTES = N * 4;
__device__ int counter;

__global__ void scale(const int *from, int *to) { to[threadIdx.x] = 2 * from[threadIdx.x]; }
__global__ void set(int *to, int value) { to[threadIdx.x] = value; }
__global__ void count(bool atomic) {
  if (atomic)
    atomicAdd(&counter, 1);
  else if (threadIdx.x == 0)
    counter++;
}

struct Memory {
  int *in, *out, *pinned, *back;
  cudaStream_t copies, compute, apart;
  cudaEvent_t copied, computed;
};

void pipeline(Memory &m, bool waits, bool early, bool spares) {
  int *halves[] = {m.in, m.in + N};
  for (int step = 0; step < 4; step++) {
    if (step >= 2 && spares) cudaStreamWaitEvent(m.copies, m.computed, 0);
    if (early) cudaEventRecord(m.copied, m.copies);
    cudaMemcpyAsync(halves[step % 2], m.pinned + step * N, BYTES, cudaMemcpyHostToDevice, m.copies);
    if (!early) cudaEventRecord(m.copied, m.copies);
    if (waits) cudaStreamWaitEvent(m.compute, m.copied, 0);
    scale<<<1, N, 0, m.compute>>>(halves[step % 2], m.out + step * N);
    cudaEventRecord(m.computed, m.compute);
  }
}

// What the default stream does is behind and before blocking streams, and beside others.
void implicit(Memory &m, bool wrong) {
  cudaStream_t other = wrong ? m.apart : m.compute;
  cudaMemsetAsync(m.in, 0, BYTES);
  scale<<<1, 32, 0, other>>>(m.in, m.out);
  set<<<1, 32>>>(m.in, 3);
}

// To fill device memory the host does not wait for it; a synchronisation does.
void filled(Memory &m, bool wrong) {
  cudaMemset(m.in, 0, BYTES);
  if (!wrong) cudaDeviceSynchronize();
  scale<<<1, 32, 0, m.apart>>>(m.in, m.out);
}

// Two copies of which the second one takes the staging buffer too early.
void staging(Memory &m, bool wrong) {
  cudaMemcpyAsync(m.in, m.pinned, BYTES, cudaMemcpyHostToDevice, m.copies);
  if (!wrong) cudaStreamSynchronize(m.copies);
  cudaMemcpyAsync(m.pinned, m.out, BYTES, cudaMemcpyDeviceToHost, m.compute);
}

// A copy whose result another stream takes from pinned memory.
void returned(Memory &m, bool wrong) {
  cudaMemcpyAsync(m.back, m.in, BYTES, cudaMemcpyDeviceToHost, m.copies);
  if (!wrong) cudaEventRecord(m.copied, m.copies), cudaEventSynchronize(m.copied);
  cudaMemcpyAsync(m.out, m.back, BYTES, cudaMemcpyHostToDevice, m.compute);
}

void pageable(Memory &m, bool wrong) {
  static int host[N];
  cudaMemcpy(m.in, host, BYTES, cudaMemcpyHostToDevice);
  if (!wrong) cudaDeviceSynchronize();
  scale<<<1, 32, 0, m.apart>>>(m.in, m.out);
}

void pool(Memory &m, bool allocates, bool frees) {
  int *made;
  cudaMallocAsync(&made, BYTES, m.compute);
  cudaEventRecord(m.computed, m.compute);
  if (!allocates) cudaStreamWaitEvent(m.copies, m.computed, 0);
  cudaMemcpyAsync(made, m.pinned, BYTES, cudaMemcpyHostToDevice, m.copies);
  cudaEventRecord(m.copied, m.copies);
  if (!frees) cudaStreamWaitEvent(m.compute, m.copied, 0);
  cudaFreeAsync(made, m.compute);
}

void graph(Memory &m, bool wrong) {
  cudaGraph_t made;
  cudaGraphNode_t nodes[3];
  cudaGraphCreate(&made, 0);
  int value = 1;
  void *of_set[] = {&m.in, &value}, *of_scale[] = {&m.in, &m.out};
  cudaKernelNodeParams params{(void *)set, dim3(1), dim3(32), 0, of_set, nullptr};
  cudaGraphAddKernelNode(&nodes[0], made, nullptr, 0, &params);
  params.func = (void *)scale, params.kernelParams = of_scale;
  cudaGraphAddKernelNode(&nodes[1], made, nodes, wrong ? 0 : 1, &params);
  cudaGraphAddMemcpyNode1D(&nodes[2], made, nodes + 1, 1, m.back, m.out, BYTES, cudaMemcpyDeviceToHost);
  cudaGraphExec_t exec;
  cudaGraphInstantiate(&exec, made, 0);
  cudaGraphLaunch(exec, m.compute);
  cudaGraphLaunch(exec, m.copies);  // behind the first: it runs beside none of its own
}

void captured(Memory &m, bool wrong) {
  cudaGraph_t made;
  cudaStreamBeginCapture(m.compute, cudaStreamCaptureModeGlobal);
  if (wrong) cudaEventRecord(m.computed, m.compute);
  set<<<1, 32, 0, m.compute>>>(m.in, 1);
  if (!wrong) cudaEventRecord(m.computed, m.compute);
  cudaStreamWaitEvent(m.copies, m.computed, 0);
  scale<<<1, 32, 0, m.copies>>>(m.in, m.out);
  cudaEventRecord(m.copied, m.copies);
  cudaStreamWaitEvent(m.compute, m.copied, 0);
  set<<<1, 32, 0, m.compute>>>(m.out, 2);
  cudaStreamEndCapture(m.compute, &made);
  cudaGraphExec_t exec;
  cudaGraphInstantiate(&exec, made, 0);
  cudaGraphLaunch(exec, m.compute);
}

void unjoined(Memory &m) {
  cudaGraph_t made;
  cudaStreamBeginCapture(m.compute, cudaStreamCaptureModeGlobal);
  cudaEventRecord(m.computed, m.compute);
  cudaStreamWaitEvent(m.copies, m.computed, 0);
  set<<<1, 32, 0, m.copies>>>(m.in, 1);
  printf("%s\n", cudaGetErrorName(cudaStreamEndCapture(m.compute, &made)));
}

void atomics(Memory &m, bool wrong) {
  count<<<1, 32, 0, m.compute>>>(!wrong);
  count<<<1, 32, 0, m.copies>>>(true);
}

void threads(Memory &m, bool wrong) {
  set<<<1, 32, 0, cudaStreamPerThread>>>(m.in, 1);
  scale<<<1, 32, 0, wrong ? m.compute : cudaStreamLegacy>>>(m.in, m.out);
}

void function(void *data) { *static_cast<int *>(data) = 1; }

void host_function(Memory &m, bool wrong) {
  cudaMemcpyAsync(m.back, m.in, BYTES, cudaMemcpyDeviceToHost, m.compute);
  if (!wrong) cudaLaunchHostFunc(m.compute, function, m.back);
  cudaMemcpyAsync(m.in, m.back, BYTES, cudaMemcpyHostToDevice, wrong ? m.copies : m.compute);
}

void freed(Memory &m, bool wrong) {
  int *made;
  if (wrong)
    cudaMallocAsync(&made, BYTES, m.compute), cudaStreamSynchronize(m.compute);
  else
    cudaMalloc(&made, BYTES);
  set<<<1, 32, 0, m.copies>>>(made, 1);
  cudaFree(made);  // of cudaMalloc's memory waits for all that goes on
}

// What a graph allocated is freed at once, as memory of a pool is.
void kept(Memory &m, bool wrong) {
  int *made;
  cudaGraph_t graph;
  cudaStreamBeginCapture(m.compute, cudaStreamCaptureModeGlobal);
  cudaMallocAsync(&made, BYTES, m.compute);
  cudaStreamEndCapture(m.compute, &graph);
  cudaGraphExec_t exec;
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, m.compute);
  set<<<1, N, 0, m.compute>>>(made, 1);
  if (!wrong) cudaStreamSynchronize(m.compute);
  cudaFree(made);
}

// That cudaFree waits for more than who uses the memory is no rule.
void frees(Memory &m, bool wrong) {
  int *made;
  cudaMalloc(&made, BYTES);
  set<<<1, 32, 0, m.apart>>>(m.in, 1);
  if (!wrong) cudaStreamSynchronize(m.apart);
  cudaFree(made);
  scale<<<1, 32, 0, m.compute>>>(m.in, m.out);
}

// The host waits for a stream that has no work, while another works: by the default stream, which waits
// for an event that has come or works itself.
void idle(Memory &m, bool waits, bool works) {
  cudaEventRecord(m.copied, m.copies);
  cudaEventSynchronize(m.copied);
  set<<<1, 32, 0, m.compute>>>(m.in, 1);
  if (works)
    set<<<1, 32>>>(m.out + N, 1);
  else
    cudaStreamWaitEvent(0, m.copied, 0);
  cudaStreamSynchronize(waits || works ? m.copies : cudaStreamLegacy);
  scale<<<1, 32, 0, m.apart>>>(m.in, m.out);
}

// A blocking stream goes on behind what the default stream waits for, and no other does.
void behind(Memory &m, bool wrong) {
  cudaEventRecord(m.copied, m.copies);
  cudaEventSynchronize(m.copied);
  set<<<1, 32, 0, m.compute>>>(m.in, 1);
  cudaStreamWaitEvent(0, m.copied, 0);
  scale<<<1, 32, 0, wrong ? m.apart : m.copies>>>(m.in, m.out);
}

// Fills of memory that the host reaches, and copies from pageable memory, wait for blocking streams.
void reached(Memory &m, bool wrong) {
  static int host[N];
  cudaStream_t stream = wrong ? m.apart : m.compute;
  set<<<1, 32, 0, stream>>>(m.in, 1);
  cudaMemset(m.back, 0, BYTES);
  cudaMemcpyAsync(m.out, m.in, BYTES, cudaMemcpyDeviceToDevice, m.copies);
  set<<<1, 32, 0, stream>>>(m.in + N, 1);
  cudaMemcpy(m.out + N, host, BYTES, cudaMemcpyHostToDevice);
  cudaMemcpyAsync(m.out, m.in + N, BYTES, cudaMemcpyDeviceToDevice, m.copies);
}

// From device memory to device memory the host waits for nothing.
void moved(Memory &m, bool wrong) {
  set<<<1, 32, 0, m.compute>>>(m.in, 1);
  cudaMemcpy(m.out, m.in, BYTES, cudaMemcpyDeviceToDevice);
  if (!wrong) cudaStreamSynchronize(0);
  scale<<<1, 32, 0, m.apart>>>(m.out, m.out + N);
}

// The host's own instructions: what it reads, or writes over, before CUDA has done with it.
void reads(Memory &m, bool wrong) {
  cudaMemcpyAsync(m.back, m.in, BYTES, cudaMemcpyDeviceToHost, m.copies);
  if (!wrong) cudaStreamSynchronize(m.copies);
  printf("%d\n", m.back[N - 1]);
}

void rewrites(Memory &m, bool wrong) {
  for (int i = 0; i < 2; i++) {
    memset(m.pinned, i, BYTES);
    cudaMemcpyAsync(m.in, m.pinned, BYTES, cudaMemcpyHostToDevice, m.copies);
    printf("%d\n", m.pinned[0]);  // reading is no harm
    if (!wrong) cudaStreamSynchronize(m.copies);
  }
}

void managed(Memory &m, bool wrong) {
  int *made;
  cudaMallocManaged(&made, BYTES);
  set<<<1, N, 0, m.compute>>>(made, 5);
  if (!wrong) cudaDeviceSynchronize();
  int sum = made[0] + made[N - 1];
  printf("%d\n", sum);
  cudaFree(made);
}

void registered(Memory &m, bool wrong) {
  static int memory[4 * N] __attribute__((aligned(4096)));
  cudaHostRegister(memory, sizeof memory, 0);
  cudaMemcpyAsync(memory + N, m.in, BYTES, cudaMemcpyDeviceToHost, m.copies);
  memory[0] = 1;  // another page
  if (!wrong) cudaStreamSynchronize(m.copies);
  memory[N + 1] = 2;
  cudaHostUnregister(memory);
}

// Part of a page is in flight, and the host goes to the rest of it.
void beside(Memory &m, bool) {
  cudaMemcpyAsync(m.back, m.in, BYTES - 64, cudaMemcpyDeviceToHost, m.copies);
  printf("%d\n", m.back[N - 1]);
}

__global__ void tell(volatile int *flag, int *data) {
  data[threadIdx.x] = 7;
  __threadfence_system();
  if (threadIdx.x == 0) *flag = 1;
}

// A kernel that tells the host by a flag in mapped memory.
void flagged(Memory &m, bool) {
  m.pinned[0] = 0;
  tell<<<1, 32, 0, m.compute>>>(m.pinned, m.back);
  while (!*(volatile int *)m.pinned) {}
  printf("%d\n", m.back[0]);
}

void looks(void *data) { printf("%d\n", *static_cast<int *>(data)); }
void looked(Memory &m, bool) {
  cudaMemcpyAsync(m.back, m.in, BYTES, cudaMemcpyDeviceToHost, m.compute);
  cudaLaunchHostFunc(m.compute, looks, m.back);
}

int main(int argc, char **argv) {
  Memory m;
  cudaMalloc(&m.in, 2 * BYTES);
  cudaMalloc(&m.out, 4 * BYTES);
  cudaMallocHost(&m.pinned, 4 * BYTES);
  cudaMallocHost(&m.back, BYTES);
  memset(m.pinned, 0, 4 * BYTES);
  cudaMemset(m.out, 0, 4 * BYTES);
  cudaStreamCreate(&m.copies);
  cudaStreamCreate(&m.compute);
  cudaStreamCreateWithFlags(&m.apart, cudaStreamNonBlocking);
  cudaEventCreate(&m.copied);
  cudaEventCreate(&m.computed);
  for (int i = 1; i < argc; i++) {
    cudaDeviceSynchronize();
    cudaMemset(m.in, 0, 2 * BYTES);
    cudaDeviceSynchronize();
    char *dash = strchr(argv[i], '-');
    bool wrong = dash;
    if (dash) *dash++ = 0;
    auto is = [&](const char *name) { return !strcmp(argv[i], name); };
    auto how = [&](const char *name) { return wrong && !strcmp(dash, name); };
    if (is("pipeline")) pipeline(m, !how("waits"), how("early"), !how("spares"));
    if (is("implicit")) implicit(m, wrong);
    if (is("filled")) filled(m, wrong);
    if (is("staging")) staging(m, wrong);
    if (is("returned")) returned(m, wrong);
    if (is("pageable")) pageable(m, wrong);
    if (is("pool")) pool(m, how("allocates"), how("frees"));
    if (is("graph")) graph(m, wrong);
    if (is("captured")) captured(m, wrong);
    if (is("unjoined")) unjoined(m);
    if (is("atomics")) atomics(m, wrong);
    if (is("threads")) threads(m, wrong);
    if (is("function")) host_function(m, wrong);
    if (is("freed")) freed(m, wrong);
    if (is("kept")) kept(m, wrong);
    if (is("frees")) frees(m, wrong);
    if (is("idle")) idle(m, how("waits"), how("works"));
    if (is("behind")) behind(m, wrong);
    if (is("reached")) reached(m, wrong);
    if (is("moved")) moved(m, wrong);
    if (is("reads")) reads(m, wrong);
    if (is("rewrites")) rewrites(m, wrong);
    if (is("managed")) managed(m, wrong);
    if (is("registered")) registered(m, wrong);
    if (is("beside")) beside(m, wrong);
    if (is("flagged")) flagged(m, wrong);
    if (is("looked")) looked(m, wrong);
  }
  return cudaDeviceSynchronize() != cudaSuccess;
}
