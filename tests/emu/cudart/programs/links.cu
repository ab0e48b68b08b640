// Links PTX while it runs: one text that calls what another defines, from memory and from a file.
#include <cuda.h>

#include <cstdio>
#include <cstring>

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
static const char USER[] = HEAD
    ".extern .func (.param .b32 r) twice(.param .b32 x);\n"
    ".extern .global .u32 more;\n"
    ".visible .entry k(.param .u64 out) {\n"
    " .reg .b32 %r<6>; .reg .b64 %rd<4>; .param .b32 a; .param .b32 b;\n"
    " ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; st.param.b32 [a], %r1;\n"
    " call (b), twice, (a);\n"
    " ld.param.b32 %r2, [b]; ld.global.u32 %r3, [more]; add.u32 %r2, %r2, %r3;\n"
    " mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r2; ret;\n}\n";
static const char MAKER[] = HEAD
    ".visible .global .u32 more = 100;\n"
    ".visible .func (.param .b32 r) twice(.param .b32 x) {\n"
    " .reg .b32 %r<3>; ld.param.b32 %r1, [x]; shl.b32 %r2, %r1, 1; st.param.b32 [r], %r2; ret;\n}\n";

int main(int, char** arguments) {
  cuInit(0);
  CUdevice device;
  CUcontext context;
  cuDeviceGet(&device, 0);
  cuDevicePrimaryCtxRetain(&context, device);
  cuCtxSetCurrent(context);
  std::FILE* file = std::fopen(arguments[1], "w");
  std::fputs(MAKER, file);
  std::fclose(file);

  char log[64];
  std::memset(log, 'x', sizeof log);
  CUjit_option options[] = {CU_JIT_WALL_TIME, CU_JIT_INFO_LOG_BUFFER,
                            CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {nullptr, log, reinterpret_cast<void*>(sizeof log)};
  CUlinkState state;
  int wrong = cuLinkCreate(3, options, values, &state) != CUDA_SUCCESS;
  wrong += cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(USER), sizeof USER, "user", 0,
                         nullptr, nullptr) != CUDA_SUCCESS;
  wrong += cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/nowhere.ptx", 0, nullptr, nullptr) !=
           CUDA_ERROR_FILE_NOT_FOUND;
  wrong += cuLinkAddFile(state, CU_JIT_INPUT_PTX, arguments[1], 0, nullptr, nullptr) != CUDA_SUCCESS;
  void* image;
  size_t bytes;
  wrong += cuLinkComplete(state, &image, &bytes) != CUDA_SUCCESS;
  wrong += log[0] != 0 || values[2] != nullptr;
  char* kept = new char[bytes];  // a program may keep what was linked, and load it later
  std::memcpy(kept, image, bytes);
  cuLinkDestroy(state);

  CUmodule module;
  CUfunction function;
  cuLinkCreate(0, nullptr, nullptr, &state);
  wrong += cuLinkComplete(state, &image, &bytes) != CUDA_SUCCESS;  // of nothing
  wrong += cuModuleLoadData(&module, image) != CUDA_SUCCESS;
  wrong += cuModuleGetFunction(&function, module, "k") != CUDA_ERROR_NOT_FOUND;
  cuLinkDestroy(state);
  wrong += cuModuleLoadDataEx(&module, kept, 0, nullptr, nullptr) != CUDA_SUCCESS;
  wrong += cuModuleGetFunction(&function, module, "k") != CUDA_SUCCESS;
  CUdeviceptr out;
  cuMemAlloc(&out, 128);
  void* parameters[] = {&out};
  wrong += cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr) !=
           CUDA_SUCCESS;
  unsigned got[32];
  cuMemcpyDtoH(got, out, sizeof got);
  for (unsigned i = 0; i < 32; i++)
    wrong += got[i] != 2 * i + 100;
  std::printf("%d wrong\n", wrong);
  return wrong != 0;
}
