/* Profiling calls of the CUDA driver, for toolkits whose packages leave this header out. */
#pragma once

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);
#ifdef __cplusplus
}
#endif
