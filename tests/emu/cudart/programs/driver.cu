// What programs ask of the driver besides launches: each mode checks its own results.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    if (int error = int(call)) {                                                                   \
      printf("%s: %d\n", #call, error);                                                            \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)
#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("line %d: %s\n", __LINE__, #condition);                                               \
      wrong++;                                                                                     \
    }                                                                                              \
  } while (0)

static int wrong = 0;

__global__ void twice(int* values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] *= 2;
}

template <class T> static T asked(CUpointer_attribute which, const void* pointer) {
  T value{};
  if (cuPointerGetAttribute(&value, which, CUdeviceptr(pointer)))
    memset(&value, 0xEE, sizeof value);
  return value;
}

static int pointers() {
  int *device, *managed, *host, own[2048];
  CHECK(cudaMalloc(&device, 4096));
  CHECK(cudaMallocManaged(&managed, 4096));
  CHECK(cudaMallocHost(&host, 4096));
  auto* pages = static_cast<int*>(aligned_alloc(4096, 8192));
  memset(pages, 0, 8192);
  CHECK(cudaHostRegister(pages, 8192, 0));
  EXPECT(asked<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 7) == CU_MEMORYTYPE_DEVICE);
  EXPECT(asked<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host) == CU_MEMORYTYPE_HOST);
  EXPECT(asked<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pages + 9) == CU_MEMORYTYPE_HOST);
  EXPECT(asked<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed) == 1);
  EXPECT(asked<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, device) == 0);
  EXPECT(asked<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device) == 0);
  EXPECT(asked<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 7) ==
         CUdeviceptr(device));
  EXPECT(asked<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, device + 7) == 4096);
  EXPECT(asked<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, managed + 3) == managed + 3);
  auto there = asked<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pages + 3);
  EXPECT(asked<int*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, reinterpret_cast<void*>(there)) ==
         pages + 3);
  twice<<<1, 32>>>(reinterpret_cast<int*>(there), 32);
  CHECK(cudaDeviceSynchronize());
  CUcontext context;
  CHECK(cuCtxGetCurrent(&context));
  EXPECT(asked<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, device) == context);
  auto id = asked<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, device);
  EXPECT(id == asked<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, device + 1000));
  EXPECT(id != asked<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, managed));
  unsigned type = 9, is_managed = 9;
  void* at = own;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                 CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* values[] = {&type, &at, &is_managed};
  CHECK(cuPointerGetAttributes(3, which, values, CUdeviceptr(own)));
  EXPECT(type == 0 && !at && is_managed == 0);
  CHECK(cuPointerGetAttributes(3, which, values, CUdeviceptr(device)));
  EXPECT(type == CU_MEMORYTYPE_DEVICE && !at && is_managed == 0);
  EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(own)) ==
         CUDA_ERROR_INVALID_VALUE);
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

static int copies() {
  constexpr int WIDTH = 20, ROWS = 6, SLICES = 3;
  CUdeviceptr device;
  size_t pitch;
  CHECK(cuMemAllocPitch(&device, &pitch, WIDTH * 4, ROWS * SLICES, 4));
  int from[SLICES][ROWS][WIDTH], to[SLICES][ROWS][WIDTH];
  for (int i = 0; i < SLICES * ROWS * WIDTH; i++)
    from[0][0][i] = i, to[0][0][i] = -1;
  CUDA_MEMCPY3D all{};
  all.srcMemoryType = CU_MEMORYTYPE_HOST, all.srcHost = from;
  all.srcPitch = WIDTH * 4, all.srcHeight = ROWS;
  all.dstMemoryType = CU_MEMORYTYPE_DEVICE, all.dstDevice = device;
  all.dstPitch = pitch, all.dstHeight = ROWS;
  all.WidthInBytes = WIDTH * 4, all.Height = ROWS, all.Depth = SLICES;
  CHECK(cuMemcpy3D(&all));
  twice<<<1, 32>>>(reinterpret_cast<int*>(device + pitch), 4);  // of row 1
  CUDA_MEMCPY2D part{};
  part.srcMemoryType = CU_MEMORYTYPE_DEVICE, part.srcDevice = device, part.srcPitch = pitch;
  part.srcXInBytes = 8, part.srcY = 1;
  part.dstMemoryType = CU_MEMORYTYPE_HOST, part.dstHost = to, part.dstPitch = WIDTH * 4;
  part.dstXInBytes = 4, part.dstY = 2;
  part.WidthInBytes = 12, part.Height = 3;
  CUstream stream;
  CHECK(cuStreamCreate(&stream, 0));
  CHECK(cuMemcpy2DAsync(&part, stream));
  CHECK(cuStreamSynchronize(stream));
  for (int y = 0; y < ROWS; y++)
    for (int x = 0; x < WIDTH; x++) {
      bool copied = y >= 2 && y < 5 && x >= 1 && x < 4;
      int source = copied ? from[0][y - 1][x + 1] : -1;
      EXPECT(to[0][y][x] == (copied && y == 2 && x < 3 ? 2 * source : source));
    }
  CHECK(cuMemsetD2D32(device + 4, pitch, 77, 2, 3));
  CHECK(cuMemsetD2D8Async(device, pitch, 0, 4, 2, stream));
  part = {};
  part.srcMemoryType = CU_MEMORYTYPE_UNIFIED, part.srcDevice = device, part.srcPitch = pitch;
  part.dstMemoryType = CU_MEMORYTYPE_HOST, part.dstHost = to, part.dstPitch = WIDTH * 4;
  part.WidthInBytes = WIDTH * 4, part.Height = 3;
  CHECK(cuMemcpy2DUnaligned(&part));
  EXPECT(to[0][0][0] == 0 && to[0][1][0] == 0 && to[0][2][0] == from[0][2][0]);
  EXPECT(to[0][0][1] == 77 && to[0][2][2] == 77 && to[0][2][3] == from[0][2][3]);
  part.WidthInBytes = pitch + 4;
  EXPECT(cuMemcpy2D(&part) == CUDA_ERROR_INVALID_VALUE);
  auto format = cudaCreateChannelDesc<int>();
  cudaArray_t array;
  CHECK(cudaMallocArray(&array, &format, WIDTH, ROWS));
  part = {};
  part.srcMemoryType = CU_MEMORYTYPE_HOST, part.srcHost = from, part.srcPitch = WIDTH * 4;
  part.dstMemoryType = CU_MEMORYTYPE_ARRAY, part.dstArray = reinterpret_cast<CUarray>(array);
  part.WidthInBytes = WIDTH * 4, part.Height = ROWS;
  CHECK(cuMemcpy2D(&part));
  part = {};
  part.srcMemoryType = CU_MEMORYTYPE_ARRAY, part.srcArray = reinterpret_cast<CUarray>(array);
  part.srcXInBytes = 16, part.srcY = 2;
  part.dstMemoryType = CU_MEMORYTYPE_HOST, part.dstHost = to, part.dstPitch = WIDTH * 4;
  part.WidthInBytes = 8, part.Height = 1;
  CHECK(cuMemcpy2D(&part));
  EXPECT(to[0][0][0] == from[0][2][4] && to[0][0][1] == from[0][2][5]);
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

__global__ void count(int* values, size_t from, size_t step) {
  values[from + (blockIdx.x * blockDim.x + threadIdx.x) * step] += 1;
}

// A vector that grows: 6 MiB of addresses, of which parts of 2 MiB become memory.
static int mapped(bool without_access) {
  constexpr size_t PART = 2 << 20;
  CUmemAllocationProp how{};
  how.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  how.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  size_t granularity;
  CHECK(cuMemGetAllocationGranularity(&granularity, &how, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT(granularity == PART);
  CUdeviceptr start;
  CHECK(cuMemAddressReserve(&start, 3 * PART, 0, 0, 0));
  CUmemGenericAllocationHandle memory[3];
  for (auto& one : memory)
    CHECK(cuMemCreate(&one, PART, &how, 0));
  CUmemAccessDesc access{how.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  auto* values = reinterpret_cast<int*>(start);
  CHECK(cuMemMap(start, PART, 0, memory[0], 0));
  if (without_access) {
    count<<<1, 1>>>(values, 0, 1);
    return cudaDeviceSynchronize();
  }
  CHECK(cuMemMap(start + PART, PART, 0, memory[1], 0));
  CHECK(cuMemSetAccess(start, 2 * PART, &access, 1));
  CHECK(cuMemRelease(memory[1]));
  CHECK(cudaMemset(values, 0, 2 * PART));  // across both
  count<<<2, 64>>>(values, PART / 4 - 64, 1);
  CHECK(cuMemMap(start + 2 * PART, PART, 0, memory[2], 0));
  CHECK(cuMemSetAccess(start + 2 * PART, PART, &access, 1));
  CHECK(cuMemsetD32(start + 2 * PART, 5, PART / 4));
  count<<<3, 1>>>(values, 3, PART / 4);
  int got[4] = {}, first;
  for (int n = 0; n < 3; n++)
    CHECK(cudaMemcpy(got + n, values + n * PART / 4 + 3, 4, cudaMemcpyDeviceToHost));
  EXPECT(got[0] == 1 && got[1] == 2 && got[2] == 6);
  unsigned long long flags;
  CHECK(cuMemGetAccess(&flags, &how.location, start + PART + 12));
  EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  // The third part elsewhere, with what it holds; the second is gone.
  CHECK(cuMemUnmap(start + PART, 2 * PART));
  EXPECT(cudaMemcpy(&first, values + PART / 4, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cuMemMap(start + PART, PART, 0, memory[2], 0));
  CHECK(cuMemSetAccess(start + PART, PART, &access, 1));
  count<<<2, 1>>>(values, 3, PART / 4);
  for (int n = 0; n < 2; n++)
    CHECK(cudaMemcpy(got + n, values + n * PART / 4 + 3, 4, cudaMemcpyDeviceToHost));
  EXPECT(got[0] == 2 && got[1] == 7);
  CHECK(cuMemUnmap(start, 2 * PART));
  CHECK(cuMemRelease(memory[0]));
  CHECK(cuMemRelease(memory[2]));
  EXPECT(cuMemRelease(memory[2]) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAddressFree(start, 3 * PART));
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

__global__ void add(int* values, int by) { values[threadIdx.x] += by; }
__device__ int symbol[32];

static cudaGraphNodeParams kernel_node(void* function, void** arguments) {
  cudaGraphNodeParams how{};
  how.type = cudaGraphNodeTypeKernel;
  how.kernel.func = function;
  how.kernel.gridDim = dim3(1), how.kernel.blockDim = dim3(32);
  how.kernel.kernelParams = arguments;
  return how;
}

static void count_up(void* counter) { ++*static_cast<int*>(counter); }

// Five, twice it, and three more: (5 * 2) + 3, by nodes that are added in another order.
static int graphs(const char* path) {
  int *values, host[32], calls = 0, three = 3, seven = 7, all = 32;
  CHECK(cudaMalloc(&values, sizeof host));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  void *of_add[] = {&values, &three}, *of_twice[] = {&values, &all};
  cudaGraphNode_t set, doubled, added, back, called;
  auto how = kernel_node(reinterpret_cast<void*>(add), of_add);
  CHECK(cudaGraphAddNode(&added, graph, nullptr, nullptr, 0, &how));
  how = {};
  how.type = cudaGraphNodeTypeMemset;
  how.memset = {values, 0, 5, 4, 32, 1};
  CHECK(cudaGraphAddNode(&set, graph, nullptr, nullptr, 0, &how));
  how = kernel_node(reinterpret_cast<void*>(twice), of_twice);
  CHECK(cudaGraphAddNode(&doubled, graph, &set, nullptr, 1, &how));
  CHECK(cudaGraphAddDependencies(graph, &doubled, &added, nullptr, 1));
  how = {};
  how.type = cudaGraphNodeTypeMemcpy;
  how.memcpy.copyParams.srcPtr = {values, sizeof host, sizeof host, 1};
  how.memcpy.copyParams.dstPtr = {host, sizeof host, sizeof host, 1};
  how.memcpy.copyParams.extent = {sizeof host, 1, 1};
  how.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaGraphAddNode(&back, graph, &added, nullptr, 1, &how));
  how = {};
  how.type = cudaGraphNodeTypeHost;
  how.host = {count_up, &calls};
  CHECK(cudaGraphAddNode(&called, graph, &back, nullptr, 1, &how));
  size_t edges = 0, needed = 9;
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  EXPECT(edges == 4);
  cudaGraphNode_t first[2] = {set, set};
  needed = 2;
  CHECK(cudaGraphNodeGetDependencies(added, first, nullptr, &needed));
  EXPECT(needed == 1 && first[0] == doubled && !first[1]);
  CHECK(cudaGraphDebugDotPrint(graph, path, 0));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, nullptr));
  CHECK(cudaDeviceSynchronize());
  EXPECT(host[31] == 13 && calls == 1);
  void* of_more[] = {&values, &seven};
  how = kernel_node(reinterpret_cast<void*>(add), of_more);
  CHECK(cudaGraphExecNodeSetParams(exec, added, &how));
  CHECK(cudaGraphLaunch(exec, nullptr));
  CHECK(cudaDeviceSynchronize());
  EXPECT(host[0] == 17 && calls == 2);
  how = {};
  how.type = cudaGraphNodeTypeMemFree;
  EXPECT(cudaGraphAddNode(&back, graph, nullptr, nullptr, 0, &how) == cudaErrorInvalidValue);

  CUgraph drivers;
  CUfunction function;
  CHECK(cuGraphCreate(&drivers, 0));
  CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<void*>(add)));
  CUDA_MEMSET_NODE_PARAMS fill{CUdeviceptr(values), 0, 1, 4, 32, 1};
  CUgraphNode zero, one;
  CHECK(cuGraphAddMemsetNode(&zero, drivers, nullptr, 0, &fill, nullptr));
  CUDA_KERNEL_NODE_PARAMS run{};
  run.func = function, run.gridDimX = run.gridDimY = run.gridDimZ = 1;
  run.blockDimX = 32, run.blockDimY = run.blockDimZ = 1, run.kernelParams = of_add;
  CHECK(cuGraphAddKernelNode(&one, drivers, &zero, 1, &run));
  CHECK(cudaGraphAddMemcpyNodeToSymbol(&back, drivers, &one, 1, symbol, values, sizeof host, 0,
                                       cudaMemcpyDeviceToDevice));
  CUgraphNodeType type;
  CHECK(cuGraphNodeGetType(one, &type));
  EXPECT(type == CU_GRAPH_NODE_TYPE_KERNEL);
  CUgraphExec made;
  CHECK(cuGraphInstantiate(&made, drivers, 0));
  CHECK(cuGraphLaunch(made, nullptr));
  CHECK(cuCtxSynchronize());
  CHECK(cudaMemcpyFromSymbol(host, symbol, sizeof host));
  EXPECT(host[7] == 4);
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, of_more, nullptr));
  CHECK(cuStreamEndCapture(stream, &drivers));
  CHECK(cuGraphInstantiate(&made, drivers, 0));
  CHECK(cuGraphLaunch(made, stream));
  CHECK(cuGraphLaunch(made, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost));
  EXPECT(host[7] == 4 + 14);

  // Into a graph that has a node: twice it, behind the fill of ones, and three more.
  cudaGraph_t given;
  CHECK(cudaGraphCreate(&given, 0));
  CHECK(cuGraphAddMemsetNode(&zero, given, nullptr, 0, &fill, nullptr));
  CHECK(cudaStreamBeginCaptureToGraph(stream, given, &zero, nullptr, 1,
                                      cudaStreamCaptureModeGlobal));
  twice<<<1, 32, 0, stream>>>(values, 32);
  add<<<1, 32, 0, stream>>>(values, 3);
  cudaGraph_t ended;
  CHECK(cudaStreamEndCapture(stream, &ended));
  EXPECT(ended == given);
  edges = 0;
  CHECK(cudaGraphGetEdges(given, nullptr, nullptr, nullptr, &edges));
  EXPECT(edges == 2);
  CHECK(cudaGraphInstantiate(&exec, given, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost));
  EXPECT(host[31] == 5);
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

__global__ void sample(float* out, cudaTextureObject_t texture, cudaSurfaceObject_t surface) {
  float value = tex2D<float>(texture, threadIdx.x + 0.5f, blockIdx.x + 0.5f);
  out[blockIdx.x * 32 + threadIdx.x] = value;
  surf2Dwrite(static_cast<unsigned char>(threadIdx.x), surface, threadIdx.x, blockIdx.x);
}

static int objects() {
  unsigned char image[4][32], stored[4][32];
  float host[4][32], *out;
  for (int i = 0; i < 128; i++)
    image[0][i] = static_cast<unsigned char>(7 * i);
  CUarray array;
  CUDA_ARRAY3D_DESCRIPTOR how{32, 4, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_SURFACE_LDST};
  CHECK(cuArray3DCreate(&array, &how));
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = image, copy.srcPitch = 32;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
  copy.WidthInBytes = 32, copy.Height = 4;
  CHECK(cuMemcpy2D(&copy));
  CUDA_RESOURCE_DESC of{};
  of.resType = CU_RESOURCE_TYPE_ARRAY, of.res.array.hArray = array;
  CUDA_TEXTURE_DESC read{};
  read.addressMode[0] = read.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
  CUtexObject texture;
  CUsurfObject surface;
  CHECK(cuTexObjectCreate(&texture, &of, &read, nullptr));
  CUarray other;
  CHECK(cuArray3DCreate(&other, &how));
  of.res.array.hArray = other;
  CHECK(cuSurfObjectCreate(&surface, &of));
  CHECK(cudaMalloc(&out, sizeof host));
  sample<<<4, 32>>>(out, texture, surface);
  CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.srcArray = other;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = stored, copy.dstPitch = 32;
  CHECK(cuMemcpy2D(&copy));
  for (int i = 0; i < 128; i++)
    EXPECT(host[0][i] == image[0][i] / 255.0f && stored[0][i] == i % 32);
  CHECK(cuTexObjectDestroy(texture));
  CHECK(cuSurfObjectDestroy(surface));
  CHECK(cuArrayDestroy(array));
  CUfunction function;
  CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<void*>(sample)));
  const char* name;
  CHECK(cuFuncGetName(&name, function));
  EXPECT(strstr(name, "sample"));
  size_t offset, bytes;
  CHECK(cuFuncGetParamInfo(function, 2, &offset, &bytes));
  EXPECT(offset == 16 && bytes == 8);
  int grid, block, grids, blocks;
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, sample));
  CHECK(cuOccupancyMaxPotentialBlockSize(&grids, &blocks, function, nullptr, 0, 0));
  EXPECT(grid == grids && block == blocks);
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

static int pools() {
  CUmemoryPool pool, mine;
  CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
  CUmemPoolProps how{};
  how.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  how.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CHECK(cuMemPoolCreate(&mine, &how));
  EXPECT(pool != mine);
  cuuint64_t keep = ~0ull, kept = 0, used = 0;
  CHECK(cuMemPoolSetAttribute(mine, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  CHECK(cuMemPoolGetAttribute(mine, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept));
  EXPECT(kept == keep);
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr at;
  CHECK(cuMemAllocFromPoolAsync(&at, 128, mine, stream));
  CHECK(cuMemsetD32Async(at, 4, 32, stream));
  twice<<<1, 32, 0, stream>>>(reinterpret_cast<int*>(at), 32);
  int host[32];
  CHECK(cuMemcpyDtoHAsync(host, at, sizeof host, stream));
  CHECK(cuStreamSynchronize(stream));
  EXPECT(host[0] == 8 && host[31] == 8);
  CHECK(cuMemPoolGetAttribute(mine, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  EXPECT(used >= 128);
  CHECK(cuMemFreeAsync(at, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemPoolDestroy(mine));
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

int main(int argc, char** argv) {
  CHECK(cuInit(0));
  CHECK(cudaFree(nullptr));
  const char* mode = argc > 1 ? argv[1] : "";
  if (!strcmp(mode, "pointers"))
    return pointers();
  if (!strcmp(mode, "copies"))
    return copies();
  if (!strcmp(mode, "pools"))
    return pools();
  if (!strcmp(mode, "objects"))
    return objects();
  if (!strcmp(mode, "mapped") || !strcmp(mode, "no-access"))
    return mapped(!strcmp(mode, "no-access"));
  if (!strcmp(mode, "graphs") && argc > 2)
    return graphs(argv[2]);
  return 2;
}
