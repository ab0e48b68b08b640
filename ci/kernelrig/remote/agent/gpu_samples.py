"""A separate program that keeps what the driver's own samples say of how busy GPUs are.

It reads the driver's buffer every few seconds until its standard input ends, or its parent does,
and prints one JSON line: an object by UUID, or why there are no samples. A sample is the share of
its period in which a kernel ran. Nothing is started on a GPU, and no context is made.

It imports nothing of the agent: gpu_watch passes its source text to the interpreter.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import sys
from typing import Any

GPU_UTILIZATION = 1
"""NVML_GPU_UTILIZATION_SAMPLES of nvml.h."""
WHOLE_NUMBERS = (1, 2, 3)
"""Value types of nvml.h: unsigned int, unsigned long, unsigned long long."""
READ_S = 4.0
LONGEST_S = 2.5
"""A sample stands for the time since the one before, if that is no longer: else some are lost."""


class Sample(ctypes.Structure):
    """nvmlSample_t: microseconds since 1970, and a union of numbers."""

    _fields_ = [("time_us", ctypes.c_ulonglong), ("value", ctypes.c_ulonglong)]


class Gpu:
    """The samples of one GPU, added up from its first kernel to its last."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self.handle = handle
        self.last_us = 0
        self.first_s = self.end_s = 0.0
        self.busy_s = self.known_s = 0.0
        self.pending_s = 0.0  # known and idle, counted if a kernel follows

    def add(self, time_us: int, percent: int) -> None:
        since_s = (time_us - self.last_us) / 1e6
        before_s, self.last_us = self.last_us / 1e6, time_us
        known = since_s <= LONGEST_S
        if not percent:
            self.pending_s += since_s if known and self.first_s else 0.0
            return
        if not self.first_s:
            self.first_s = before_s if known else time_us / 1e6
        self.end_s = time_us / 1e6
        if known:
            self.busy_s += since_s * min(percent, 100) / 100
            self.known_s += since_s + self.pending_s
        else:
            self.known_s += self.pending_s
        self.pending_s = 0.0

    def shown(self) -> dict[str, float]:
        window_s = self.end_s - self.first_s
        figures = {"window_s": window_s, "known_s": self.known_s, "busy_s": self.busy_s}
        return {name: round(value, 3) for name, value in figures.items()}


class Watch:
    """The GPUs that are watched; `trouble` is why nothing is known of them."""

    def __init__(self, uuids: list[str]) -> None:
        self.gpus: dict[str, Gpu] = {}
        self.trouble = ""
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as e:
            self.trouble = f"NVML cannot be loaded: {e}"
            return
        if code := self.nvml.nvmlInit_v2():
            self.trouble = f"NVML does not start (code {code})"
            return
        for uuid in uuids:
            handle = ctypes.c_void_p()
            if code := self.nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
                self.trouble = f"NVML does not know {uuid} (code {code})"
                return
            self.gpus[uuid] = Gpu(handle)
        self.read(start=True)

    def read(self, *, start: bool = False) -> None:
        """Add the samples since the last time; those of before the `start` count for nothing."""
        for gpu in self.gpus.values():
            for time_us, percent in self.samples(gpu):
                if start:
                    gpu.last_us = time_us
                elif time_us > gpu.last_us:
                    gpu.add(time_us, percent)

    def samples(self, gpu: Gpu) -> list[tuple[int, int]]:
        kind, count = ctypes.c_int(), ctypes.c_uint()
        asked = (gpu.handle, GPU_UTILIZATION, ctypes.c_ulonglong(gpu.last_us), ctypes.byref(kind))
        code = self.nvml.nvmlDeviceGetSamples(*asked, ctypes.byref(count), None)
        if code or not count.value:
            self.note(code)
            return []
        found = (Sample * count.value)()
        code = self.nvml.nvmlDeviceGetSamples(*asked, ctypes.byref(count), found)
        if code or kind.value not in WHOLE_NUMBERS:
            self.note(code or -kind.value)
            return []
        bits = 32 if kind.value == 1 else 64
        return [(s.time_us, s.value & ((1 << bits) - 1)) for s in found[: count.value]]

    def note(self, code: int) -> None:
        """Keep why there are no samples; 6 says that there is none since the last time."""
        if code not in (0, 6):
            self.trouble = f"the driver keeps no samples of its use (code {code})"

    def run(self) -> dict[str, Any]:
        parent = os.getppid()
        while os.getppid() == parent and not select.select([0], [], [], READ_S)[0]:
            self.read()
        self.read()
        found = {uuid: gpu.shown() for uuid, gpu in self.gpus.items()}
        return {"gpus": found, "trouble": self.trouble}


if __name__ == "__main__":
    os.write(1, json.dumps(Watch(sys.argv[1:]).run()).encode() + b"\n")
