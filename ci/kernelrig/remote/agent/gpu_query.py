"""A separate program that prints what the CUDA driver says of each GPU, as one JSON line.

The line is a list of objects: `uuid` as nvidia-smi prints it, and the figures of FIGURES as
integers. Without a driver it is an empty list; what the driver refuses to say is left out.

It imports nothing of the agent: gpu_figures passes its source text to the interpreter.
"""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any

FIGURES = {
    "sm_count": 16,
    "max_sm_clock_khz": 13,
    "memory_clock_khz": 36,
    "memory_bus_width_bits": 37,
    "l2_bytes": 38,
}
"""The numbers of CUdevice_attribute in cuda.h, under the names of the harness's result file."""


def uuid_text(raw: bytes) -> str:
    parts = (raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:16])
    return "GPU-" + "-".join(part.hex() for part in parts)


def query() -> list[dict[str, Any]]:
    """Return an object for each GPU; no context is made, so that nothing runs on any of them."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # all of them: they are told apart by their UUID
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []
    found = []
    for index in range(count.value):
        device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if cuda.cuDeviceGet(ctypes.byref(device), index):
            continue
        if cuda.cuDeviceGetUuid(ctypes.byref(uuid), device):
            continue
        gpu: dict[str, Any] = {"uuid": uuid_text(bytes(uuid))}
        for name, attribute in FIGURES.items():
            value = ctypes.c_int()
            if not cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
                gpu[name] = value.value
        found.append(gpu)
    return found


if __name__ == "__main__":
    os.write(1, json.dumps(query()).encode() + b"\n")
