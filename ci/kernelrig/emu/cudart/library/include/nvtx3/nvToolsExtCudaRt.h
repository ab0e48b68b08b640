/* NVTX's names for devices and streams of the runtime: they do nothing here. */
#pragma once

#include <cuda_runtime_api.h>

#include "nvToolsExt.h"

static inline void nvtxNameCudaDeviceA(int device, const char* name) {}
static inline void nvtxNameCudaStreamA(cudaStream_t stream, const char* name) {}
