// The names that nvcc gives calls under --default-stream per-thread: their default stream is that of
// the thread that calls.

#include "graphs.hpp"

using namespace cudart;

#define PARAMS(...) (__VA_ARGS__)
#define OF_THREAD(name, params, ...)                                                               \
  cudaError_t name params {                                                                        \
    ThreadDefault now;                                                                             \
    return __VA_ARGS__;                                                                            \
  }

// CUDA's headers declare them where programs are compiled so.
#pragma GCC visibility push(default)
extern "C" {

OF_THREAD(cudaMemcpy_ptds, PARAMS(void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
          cudaMemcpy(to, from, bytes, kind))
OF_THREAD(cudaMemcpyToSymbol_ptds,
          PARAMS(const void* symbol, const void* from, size_t bytes, size_t at, cudaMemcpyKind kind),
          cudaMemcpyToSymbol(symbol, from, bytes, at, kind))
OF_THREAD(cudaMemcpyFromSymbol_ptds,
          PARAMS(void* to, const void* symbol, size_t bytes, size_t at, cudaMemcpyKind kind),
          cudaMemcpyFromSymbol(to, symbol, bytes, at, kind))
OF_THREAD(cudaMemcpy2D_ptds,
          PARAMS(void* to, size_t to_pitch, const void* from, size_t pitch, size_t width,
                 size_t rows, cudaMemcpyKind kind),
          cudaMemcpy2D(to, to_pitch, from, pitch, width, rows, kind))
OF_THREAD(cudaMemcpy3D_ptds, PARAMS(const cudaMemcpy3DParms* how), cudaMemcpy3D(how))
OF_THREAD(cudaMemset_ptds, PARAMS(void* to, int value, size_t bytes), cudaMemset(to, value, bytes))
OF_THREAD(cudaMemset2D_ptds,
          PARAMS(void* to, size_t pitch, int value, size_t width, size_t rows),
          cudaMemset2D(to, pitch, value, width, rows))

OF_THREAD(cudaMemcpyAsync_ptsz,
          PARAMS(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
          cudaMemcpyAsync(to, from, bytes, kind, stream))
OF_THREAD(cudaMemcpyToSymbolAsync_ptsz,
          PARAMS(const void* symbol, const void* from, size_t bytes, size_t at,
                 cudaMemcpyKind kind, cudaStream_t stream),
          cudaMemcpyToSymbolAsync(symbol, from, bytes, at, kind, stream))
OF_THREAD(cudaMemcpyFromSymbolAsync_ptsz,
          PARAMS(void* to, const void* symbol, size_t bytes, size_t at, cudaMemcpyKind kind,
                 cudaStream_t stream),
          cudaMemcpyFromSymbolAsync(to, symbol, bytes, at, kind, stream))
OF_THREAD(cudaMemcpy2DAsync_ptsz,
          PARAMS(void* to, size_t to_pitch, const void* from, size_t pitch, size_t width,
                 size_t rows, cudaMemcpyKind kind, cudaStream_t stream),
          cudaMemcpy2DAsync(to, to_pitch, from, pitch, width, rows, kind, stream))
OF_THREAD(cudaMemcpy3DAsync_ptsz, PARAMS(const cudaMemcpy3DParms* how, cudaStream_t stream),
          cudaMemcpy3DAsync(how, stream))
OF_THREAD(cudaMemsetAsync_ptsz, PARAMS(void* to, int value, size_t bytes, cudaStream_t stream),
          cudaMemsetAsync(to, value, bytes, stream))
OF_THREAD(cudaMemset2DAsync_ptsz,
          PARAMS(void* to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream),
          cudaMemset2DAsync(to, pitch, value, width, rows, stream))
OF_THREAD(cudaMallocAsync_ptsz, PARAMS(void** out, size_t bytes, cudaStream_t stream),
          cudaMallocAsync(out, bytes, stream))
OF_THREAD(cudaMallocFromPoolAsync_ptsz,
          PARAMS(void** out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
          cudaMallocFromPoolAsync(out, bytes, pool, stream))
OF_THREAD(cudaFreeAsync_ptsz, PARAMS(void* pointer, cudaStream_t stream),
          cudaFreeAsync(pointer, stream))
OF_THREAD(cudaMemPrefetchAsync_ptsz,
          PARAMS(const void* at, size_t bytes, cudaMemLocation to, unsigned flags,
                 cudaStream_t stream),
          cudaMemPrefetchAsync(at, bytes, to, flags, stream))

OF_THREAD(cudaStreamSynchronize_ptsz, PARAMS(cudaStream_t stream), cudaStreamSynchronize(stream))
OF_THREAD(cudaStreamQuery_ptsz, PARAMS(cudaStream_t stream), cudaStreamQuery(stream))
OF_THREAD(cudaStreamWaitEvent_ptsz,
          PARAMS(cudaStream_t stream, cudaEvent_t event, unsigned flags),
          cudaStreamWaitEvent(stream, event, flags))
OF_THREAD(cudaStreamGetFlags_ptsz, PARAMS(cudaStream_t stream, unsigned* flags),
          cudaStreamGetFlags(stream, flags))
OF_THREAD(cudaStreamGetPriority_ptsz, PARAMS(cudaStream_t stream, int* priority),
          cudaStreamGetPriority(stream, priority))
OF_THREAD(cudaStreamAddCallback_ptsz,
          PARAMS(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags),
          cudaStreamAddCallback(stream, function, data, flags))
OF_THREAD(cudaEventRecord_ptsz, PARAMS(cudaEvent_t event, cudaStream_t stream),
          cudaEventRecord(event, stream))
OF_THREAD(cudaEventRecordWithFlags_ptsz,
          PARAMS(cudaEvent_t event, cudaStream_t stream, unsigned flags),
          cudaEventRecordWithFlags(event, stream, flags))
OF_THREAD(cudaLaunchHostFunc_ptsz,
          PARAMS(cudaStream_t stream, cudaHostFn_t function, void* data),
          cudaLaunchHostFunc(stream, function, data))

OF_THREAD(cudaLaunchKernel_ptsz,
          PARAMS(const void* stub, dim3 grid, dim3 block, void** args, size_t shared,
                 cudaStream_t stream),
          cudaLaunchKernel(stub, grid, block, args, shared, stream))
OF_THREAD(cudaLaunchCooperativeKernel_ptsz,
          PARAMS(const void* stub, dim3 grid, dim3 block, void** args, size_t shared,
                 cudaStream_t stream),
          cudaLaunchCooperativeKernel(stub, grid, block, args, shared, stream))
OF_THREAD(cudaLaunchKernelExC_ptsz,
          PARAMS(const cudaLaunchConfig_t* how, const void* stub, void** args),
          cudaLaunchKernelExC(how, stub, args))

OF_THREAD(cudaGraphLaunch_ptsz, PARAMS(cudaGraphExec_t exec, cudaStream_t stream),
          cudaGraphLaunch(exec, stream))
OF_THREAD(cudaGraphUpload_ptsz, PARAMS(cudaGraphExec_t exec, cudaStream_t stream),
          cudaGraphUpload(exec, stream))
OF_THREAD(cudaStreamBeginCapture_ptsz, PARAMS(cudaStream_t stream, cudaStreamCaptureMode mode),
          cudaStreamBeginCapture(stream, mode))
OF_THREAD(cudaStreamEndCapture_ptsz, PARAMS(cudaStream_t stream, cudaGraph_t* out),
          cudaStreamEndCapture(stream, out))
OF_THREAD(cudaStreamIsCapturing_ptsz,
          PARAMS(cudaStream_t stream, cudaStreamCaptureStatus* out),
          cudaStreamIsCapturing(stream, out))
}
#pragma GCC visibility pop
