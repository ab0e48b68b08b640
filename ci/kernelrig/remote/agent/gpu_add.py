"""A separate program that checks whether the GPU still allocates, adds and synchronises.

It prints one JSON line: `healthy` (true, false, null without a driver) and `detail`.

It imports nothing of the agent: gpu_health passes its source text to the interpreter.
"""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any

ADD_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 data)
{
  .reg .u64 %rd<4>;
  .reg .u32 %r<4>;
  ld.param.u64 %rd1, [data];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  add.u32 %r3, %r2, %r1;
  st.global.u32 [%rd3], %r3;
  ret;
}
"""


class NoDriver(Exception):
    """There is no CUDA driver here."""


def add_on_gpu() -> None:
    """Allocate, copy, add, synchronise, compare; raises at the first thing that fails."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        raise NoDriver(str(e)) from e

    def call(name: str, *arguments: object) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            cuda.cuGetErrorString(code, ctypes.byref(text))
            reason = (text.value or b"unknown error").decode()
            raise RuntimeError(f"{name} returned {code}: {reason}")

    count = 32
    device, context, data = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    values = (ctypes.c_uint32 * count)(*range(100, 100 + count))
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(4 * count))
    call("cuMemcpyHtoD_v2", data, values, ctypes.c_size_t(4 * count))
    call("cuModuleLoadData", ctypes.byref(module), ADD_PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(data), ctypes.c_void_p))
    call("cuLaunchKernel", function, 1, 1, 1, count, 1, 1, 0, None, parameters, None)
    call("cuCtxSynchronize")
    call("cuMemcpyDtoH_v2", values, data, ctypes.c_size_t(4 * count))
    if list(values) != [100 + 2 * i for i in range(count)]:
        raise RuntimeError(f"the GPU adds wrongly: {list(values)[:4]}")


def health() -> None:
    """Print one JSON line: healthy true, false, or null without a CUDA driver."""
    answer: dict[str, Any] = {"healthy": True, "detail": "allocated, added and synchronised"}
    try:
        add_on_gpu()
    except NoDriver as e:
        answer = {"healthy": None, "detail": f"no CUDA driver: {e}"}
    except Exception as e:
        answer = {"healthy": False, "detail": str(e)}
    os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    health()
