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

int main(int argc, char** argv) {
  CHECK(cuInit(0));
  CHECK(cudaFree(nullptr));
  const char* mode = argc > 1 ? argv[1] : "";
  if (!strcmp(mode, "pointers"))
    return pointers();
  if (!strcmp(mode, "copies"))
    return copies();
  return 2;
}
