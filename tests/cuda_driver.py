"""A stand-in for the CUDA driver: it does nothing, a batch of copies in 5 ms, a launch in 1 ms."""

from __future__ import annotations

import subprocess
from pathlib import Path

DRIVER = """
#include <cstdlib>
#include <cstring>
#include <ctime>
static double at = 0;
extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGet(int *device, int) {
  *device = 0;
  return std::getenv("CUDA_VISIBLE_DEVICES") == nullptr;
}
int cuDevicePrimaryCtxRetain(void **context, int) { *context = nullptr; return 0; }
int cuCtxSetCurrent(void *) { return 0; }
int cuDeviceGetName(char *name, int size, int) {
  std::strncpy(name, "NVIDIA H200", size);
  return 0;
}
int cuDeviceGetAttribute(int *value, int, int) { *value = 1; return 0; }
int cuModuleLoadData(void **, const char *) { return 0; }
int cuModuleGetFunction(void **, void *, const char *) { return 0; }
int cuMemAlloc_v2(unsigned long long *data, size_t) { *data = 4096; return MEMORY; }
int cuMemFree_v2(unsigned long long) { return 0; }
int cuLaunchKernel(void *, int, int, int, int, int, int, int, void *, void **, void *) {
  at += 0.001;
  return 0;
}
int cuMemcpyDtoDAsync_v2(unsigned long long, unsigned long long, size_t, void *) {
  at += 0.005 / 16;
  return 0;
}
int cuMemcpyDtoH_v2(char *to, unsigned long long, size_t size) {
  std::memset(to, 7, size);
  to[size - 1] = LAST;
  return 0;
}
int cuEventCreate(double **event, unsigned) { *event = new double(0); return 0; }
int cuEventRecord(double *event, void *) { *event = at; return 0; }
int cuEventSynchronize(double *) {
  const timespec pause{0, 1000000};
  return nanosleep(&pause, nullptr);
}
int cuEventElapsedTime(float *ms, double *from, double *to) { *ms = 1e3 * (*to - *from); return 0; }
int cuGetErrorString(int code, const char **text) { *text = "out of memory"; return 0; }
}
"""


def build_driver(folder: Path, *, memory: str = "0", last: str = "7") -> Path:
    """Return the library: `memory` is what an allocation returns, `last` the last byte of results.

    Without CUDA_VISIBLE_DEVICES there is no GPU.
    """
    folder.mkdir()
    source, library = folder / "cuda.cpp", folder / "libcuda.so.1"
    source.write_text(DRIVER.replace("MEMORY", memory).replace("LAST", last))
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    return library
