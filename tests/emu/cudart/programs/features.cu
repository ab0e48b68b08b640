// Arrays, textures, surfaces, the device heap, recursion: each mode checks its own results.
#include <cstdio>
#include <cstring>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    if (cudaError_t error = (call)) {                                                              \
      printf("%s: %s\n", #call, cudaGetErrorString(error));                                        \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

constexpr int WIDTH = 32, HEIGHT = 8;

__global__ void sample(float* out, cudaTextureObject_t texture) {
  out[blockIdx.x * WIDTH + threadIdx.x] = tex2D<float>(texture, threadIdx.x + 0.5f, blockIdx.x + 1);
}

__global__ void transpose(cudaSurfaceObject_t from, cudaSurfaceObject_t to) {
  float value = surf2Dread<float>(from, threadIdx.x * 4, blockIdx.x);
  surf2Dwrite(value, to, blockIdx.x * 4, threadIdx.x);
}

static int textures() {
  float image[HEIGHT][WIDTH], got[HEIGHT][WIDTH], turned[WIDTH][HEIGHT];
  for (int i = 0; i < HEIGHT * WIDTH; i++)
    image[0][i] = float(i * i % 101);
  auto format = cudaCreateChannelDesc<float>();
  cudaArray_t array, other;
  CHECK(cudaMallocArray(&array, &format, WIDTH, HEIGHT, cudaArraySurfaceLoadStore));
  CHECK(cudaMallocArray(&other, &format, HEIGHT, WIDTH, cudaArraySurfaceLoadStore));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, image, sizeof image[0], sizeof image[0], HEIGHT,
                            cudaMemcpyHostToDevice));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc how{};
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  how.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  float* out;
  CHECK(cudaMalloc(&out, sizeof got));
  sample<<<HEIGHT, WIDTH>>>(out, texture);
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++)
      wrong += got[y][x] != (image[y][x] + image[y + 1 < HEIGHT ? y + 1 : y][x]) / 2;
  cudaSurfaceObject_t from, to;
  CHECK(cudaCreateSurfaceObject(&from, &resource));
  resource.res.array.array = other;
  CHECK(cudaCreateSurfaceObject(&to, &resource));
  transpose<<<HEIGHT, WIDTH>>>(from, to);
  CHECK(cudaMemcpy2DFromArray(turned, sizeof turned[0], other, 0, 0, sizeof turned[0], WIDTH,
                              cudaMemcpyDeviceToHost));
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++)
      wrong += turned[x][y] != image[y][x];
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaDestroySurfaceObject(from));
  CHECK(cudaFreeArray(array));
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

__device__ int* kept[32];

__global__ void fill() {
  int* made = new int[4];
  for (int i = 0; i < 4; i++)
    made[i] = threadIdx.x * i;
  kept[threadIdx.x] = made;
}

__global__ void sum(int* out) {
  int* made = kept[threadIdx.x];
  out[threadIdx.x] = made[0] + made[1] + made[2] + made[3];
  delete[] made;
}

__global__ void again() { delete[] kept[threadIdx.x]; }

static int heap(bool twice) {
  int* out;
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 20));
  CHECK(cudaMallocManaged(&out, 128));
  fill<<<1, 32>>>();
  sum<<<1, 32>>>(out);
  if (twice)
    again<<<1, 32>>>();
  CHECK(cudaDeviceSynchronize());
  int wrong = 0;
  for (int i = 0; i < 32; i++)
    wrong += out[i] != 6 * i;
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

__device__ void sort(int* v, int first, int last) {
  int i = first, j = last, pivot = v[(first + last) / 2];
  while (i <= j) {
    while (v[i] < pivot)
      i++;
    while (v[j] > pivot)
      j--;
    if (i <= j) {
      int held = v[i];
      v[i++] = v[j];
      v[j--] = held;
    }
  }
  if (first < j)
    sort(v, first, j);
  if (i < last)
    sort(v, i, last);
}

__global__ void sort_all(int* v) { sort(v + threadIdx.x * 16, 0, 15); }

static int recursion() {
  int* v;
  CHECK(cudaMallocManaged(&v, 32 * 16 * 4));
  for (int i = 0; i < 32 * 16; i++)
    v[i] = i * 7919 % 101;
  sort_all<<<1, 32>>>(v);
  CHECK(cudaDeviceSynchronize());
  int wrong = 0;
  for (int i = 1; i < 32 * 16; i++)
    wrong += i % 16 && v[i] < v[i - 1];
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

__global__ void number(int* v) { v[blockIdx.x * 32 + threadIdx.x] = blockIdx.x; }

__global__ void next(int* to, const int* from) {
  int i = blockIdx.x * 32 + threadIdx.x;
  to[i] = from[i + 32];
}

static int launches() {
  int *v, *to;
  CHECK(cudaMalloc(&v, 5 * 128));
  CHECK(cudaMalloc(&to, 4 * 128));
  number<<<5, 32>>>(v);
  next<<<4, 32>>>(to, v);
  return cudaDeviceSynchronize();
}

static const char STORES[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .global .u32 number = 5;
.visible .entry stores(.param .u64 a) {
  .reg .b64 %d1; .reg .b32 %r1;
  ld.param.u64 %d1, [a]; cvta.to.global.u64 %d1, %d1;
  ld.global.u32 %r1, [number]; st.global.u32 [%d1], %r1; ret;
}
)";

__global__ void far_away(int* v) {
  extern __shared__ int shared[];
  shared[20000 + threadIdx.x] = threadIdx.x;
  v[threadIdx.x] = shared[20000 + threadIdx.x];
}

// A library that is loaded as the program runs, and a limit that its kernel's handle sets.
static int library() {
  int *v, seven = 7, wrong = 0;
  CHECK(cudaMallocManaged(&v, 128));
  cudaKernel_t kernel;
  CHECK(cudaGetKernel(&kernel, reinterpret_cast<const void*>(far_away)));
  CHECK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 90000,
                                        0));
  far_away<<<1, 32, 90000>>>(v);
  CHECK(cudaDeviceSynchronize());
  wrong += v[31] != 31;
  cudaLibrary_t loaded;
  CHECK(cudaLibraryLoadData(&loaded, STORES, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cudaLibraryGetKernel(&kernel, loaded, "stores"));
  void* address;
  size_t bytes;
  CHECK(cudaLibraryGetGlobal(&address, &bytes, loaded, "number"));
  CHECK(cudaMemcpy(address, &seven, bytes, cudaMemcpyHostToDevice));
  void* arguments[] = {&v};
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), 1, 1, arguments, 0, nullptr));
  CHECK(cudaDeviceSynchronize());
  wrong += v[0] != 7;
  CHECK(cudaLibraryUnload(loaded));
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

int main(int, char** argv) {
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  CHECK(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte));
  if (properties.maxTexture2D[0] < WIDTH || properties.maxTexture3D[2] < 2048)
    return 2;
  if (!strcmp(argv[1], "launches"))
    return launches();
  if (!strcmp(argv[1], "textures"))
    return textures();
  if (!strcmp(argv[1], "library"))
    return library();
  if (!strcmp(argv[1], "recursion"))
    return recursion();
  return heap(!strcmp(argv[1], "twice"));
}
