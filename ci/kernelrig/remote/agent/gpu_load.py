"""A separate program that loads the GPU for three seconds and prints what it gave: a JSON line.

First the driver copies random numbers from the GPU's memory to the GPU's memory, then its tensor
cores multiply random bf16 numbers that lie in registers (mma.sync, which each GPU since sm_80 has).
Both are measured by events once clocks and power have had time to settle; NVML is asked meanwhile
for clocks, power, temperature and throttle reasons. All CTAs compute the same: those that differ
are counted.

It imports nothing of the agent: gpu_rates passes its source text to the interpreter. Its argument
is the UUID of the GPU.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

COPY_S, TENSOR_S = 0.9, 2.0
MEASURED = 0.5
"""The part of each load, at its end, that is measured: a power limit answers after 0.8 s."""

SAMPLE_S = 0.025
BUFFER_BYTES = 1 << 30
COPIES = 16
"""In a batch; two batches are under way, so that the GPU never waits for this process."""

FILL_THREADS, FILL_CTAS_PER_SM = 1024, 2
MMA_THREADS, MMA_CTAS_PER_SM = 128, 2
ROWS, COLUMNS = 4, 4
"""Fragments of A and of B that a warp holds: so many products of 16x8x16 in a step."""

MMA_FLOP = 2 * 16 * 8 * 16
STEPS = 1 << 16
"""Of a launch; even: a step takes away the products that the one before added."""

DRAW = """
  shl.b32 %mixed, %value, 13;
  xor.b32 %value, %value, %mixed;
  shr.u32 %mixed, %value, 17;
  xor.b32 %value, %value, %mixed;
  shl.b32 %mixed, %value, 5;
  xor.b32 %value, %value, %mixed;"""
"""The next random number (xorshift)."""


def fill_ptx() -> str:
    """Return the kernel that fills memory with numbers that look random."""
    return f"""
.visible .entry fill(.param .u64 target, .param .u32 rounds)
{{
  .reg .pred %p;
  .reg .u32 %index, %total, %cta, %thread, %left, %value, %mixed;
  .reg .u64 %to, %stride, %offset;
  ld.param.u64 %to, [target];
  ld.param.u32 %left, [rounds];
  mov.u32 %cta, %ctaid.x;
  mov.u32 %index, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %total, %nctaid.x;
  mul.lo.u32 %total, %total, %index;
  mad.lo.u32 %index, %cta, %index, %thread;
  mul.wide.u32 %offset, %index, 4;
  mul.wide.u32 %stride, %total, 4;
  add.u64 %to, %to, %offset;
  mad.lo.u32 %value, %index, 2654435769, 1;
again:{DRAW}
  st.global.u32 [%to], %value;
  add.u64 %to, %to, %stride;
  sub.u32 %left, %left, 1;
  setp.ne.u32 %p, %left, 0;
  @%p bra again;
  ret;
}}
"""


def multiply_ptx() -> str:
    """Return the kernel of products: bf16 in [0.5, 2) of either sign, the sign of B changing."""
    a = [[f"%a{4 * i + k}" for k in range(4)] for i in range(ROWS)]
    b = [[f"%b{2 * j + k}" for k in range(2)] for j in range(COLUMNS)]
    d = {
        (i, j): [f"%d{4 * (COLUMNS * i + j) + k}" for k in range(4)]
        for i in range(ROWS)
        for j in range(COLUMNS)
    }
    draw = "".join(
        f"""{DRAW}
  and.b32 %mixed, %value, 0x80ff80ff;
  or.b32 {register}, %mixed, 0x3f003f00;"""
        for fragment in (*a, *b)
        for register in fragment
    )
    zeros = "".join(f"\n  mov.f32 {r}, 0f00000000;" for tile in d.values() for r in tile)
    products = "".join(
        f"""
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
    {{{", ".join(tile)}}}, {{{", ".join(a[i])}}}, {{{", ".join(b[j])}}}, {{{", ".join(tile)}}};"""
        for (i, j), tile in d.items()
    )
    flips = "".join(f"\n  xor.b32 {r}, {r}, 0x80008000;" for fragment in b for r in fragment)
    folded = "".join(
        f"""
  mov.b32 %mixed, {r};
  shf.l.wrap.b32 %value, %value, %value, 5;
  xor.b32 %value, %value, %mixed;"""
        for tile in d.values()
        for r in tile
    )
    return f"""
.visible .entry multiply(.param .u64 target, .param .u32 steps)
{{
  .reg .pred %p;
  .reg .u32 %index, %cta, %thread, %left, %value, %mixed;
  .reg .b32 %a<{4 * ROWS}>, %b<{2 * COLUMNS}>;
  .reg .f32 %d<{4 * ROWS * COLUMNS}>;
  .reg .u64 %to, %offset;
  ld.param.u64 %to, [target];
  ld.param.u32 %left, [steps];
  mov.u32 %cta, %ctaid.x;
  mov.u32 %index, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %index, %cta, %index, %thread;
  mad.lo.u32 %value, %thread, 2654435769, 1;{draw}{zeros}
again:{products}{flips}
  sub.u32 %left, %left, 1;
  setp.ne.u32 %p, %left, 0;
  @%p bra again;
{products}
  mov.u32 %value, 0;{folded}
  mul.wide.u32 %offset, %index, 4;
  add.u64 %to, %to, %offset;
  st.global.u32 [%to], %value;
  ret;
}}
"""


def module_ptx() -> str:
    head = "\n.version 7.0\n.target sm_80\n.address_size 64\n"
    return head + fill_ptx() + multiply_ptx()


class NoDriver(Exception):
    """There is no CUDA driver here."""


class Cuda:
    """The driver, called by ctypes; an error is a sentence."""

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as e:
            raise NoDriver(str(e)) from e

    def __getattr__(self, name: str) -> Callable[..., None]:
        function = getattr(self.library, name)

        def call(*arguments: object) -> None:
            code = function(*arguments)
            if code:
                text = ctypes.c_char_p()
                self.library.cuGetErrorString(code, ctypes.byref(text))
                reason = (text.value or b"unknown error").decode()
                raise RuntimeError(f"{name} returned {code}: {reason}")

        return call


class Nvml:
    """Clocks, power, temperature and throttle reasons of the GPU; nothing where NVML is absent."""

    def __init__(self, uuid: str) -> None:
        self.device = ctypes.c_void_p()
        self.library: Any = None
        self.samples: list[dict[str, int | None]] = []
        self.sampled = 0.0
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        by_uuid = library.nvmlInit_v2() or library.nvmlDeviceGetHandleByUUID(
            uuid.encode(), ctypes.byref(self.device)
        )
        self.library = None if by_uuid else library

    def ask(self, name: str, *words: object, kind: Any = ctypes.c_uint) -> int | None:  # noqa: ANN401 - a type of ctypes
        value = kind()
        function = getattr(self.library, name, None)
        if function is None or function(self.device, *words, ctypes.byref(value)):
            return None
        return int(value.value)

    def sample(self) -> None:
        """Take a sample, if the last one is old enough."""
        now = time.monotonic()
        if self.library is None or now - self.sampled < SAMPLE_S:
            return
        self.sampled = now
        reasons = "nvmlDeviceGetCurrentClocksEventReasons"
        if not hasattr(self.library, reasons):  # before driver 535
            reasons = "nvmlDeviceGetCurrentClocksThrottleReasons"
        self.samples.append(
            {
                "sm_mhz": self.ask("nvmlDeviceGetClockInfo", 1),
                "power_mw": self.ask("nvmlDeviceGetPowerUsage"),
                "temperature_c": self.ask("nvmlDeviceGetTemperature", 0),
                "reasons": self.ask(reasons, kind=ctypes.c_ulonglong),
            }
        )

    def figures(self) -> dict[str, Any]:
        """Return what the later half of the samples says; a figure that none has is left out."""
        late = self.samples[len(self.samples) // 2 :]
        known = {
            name: [value for sample in late if (value := sample[name]) is not None]
            for name in (late[0] if late else ())
        }
        reasons = 0
        for value in known.get("reasons", ()):
            reasons |= value
        found: dict[str, Any] = {"throttle_reasons": f"0x{reasons:016x}"}
        if not known.get("reasons"):
            found = {}
        if clocks := known.get("sm_mhz"):
            found["sm_mhz"] = round(median(clocks))
        if powers := known.get("power_mw"):
            found["power_w"] = round(median(powers) / 1e3, 1)
        if degrees := known.get("temperature_c"):
            found["temperature_c"] = max(degrees)
        return found


class Load:
    """The GPU with its kernels."""

    def __init__(self) -> None:
        self.cuda = cuda = Cuda()
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cuInit(0)
        cuda.cuDeviceGet(ctypes.byref(device), 0)
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        cuda.cuCtxSetCurrent(context)
        name, sms = ctypes.create_string_buffer(100), ctypes.c_int()
        cuda.cuDeviceGetName(name, 100, device)
        cuda.cuDeviceGetAttribute(ctypes.byref(sms), 16, device)
        self.name, self.sms = name.value.decode(errors="replace"), sms.value
        cuda.cuModuleLoadData(ctypes.byref(module), module_ptx().encode())
        self.functions = {}
        for kernel in ("fill", "multiply"):
            self.functions[kernel] = function = ctypes.c_void_p()
            cuda.cuModuleGetFunction(ctypes.byref(function), module, kernel.encode())

    def allocate(self, size: int) -> ctypes.c_uint64:
        data = ctypes.c_uint64()
        self.cuda.cuMemAlloc_v2(ctypes.byref(data), ctypes.c_size_t(size))
        return data

    def launch(self, kernel: str, ctas: int, threads: int, *words: Any) -> None:  # noqa: ANN401 - of ctypes
        values = (ctypes.c_void_p * len(words))(
            *(ctypes.cast(ctypes.byref(word), ctypes.c_void_p) for word in words)
        )
        self.cuda.cuLaunchKernel(
            self.functions[kernel], ctas, 1, 1, threads, 1, 1, 0, None, values, None
        )

    def event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self.cuda.cuEventCreate(ctypes.byref(event), 0)
        self.cuda.cuEventRecord(event, None)
        return event

    def repeat(self, seconds: float, batch: Callable[[], None], nvml: Nvml) -> list[float]:
        """Repeat batches for so long; return the seconds of each of the last ones."""
        events, end = [self.event()], time.monotonic() + seconds
        while time.monotonic() < end:
            batch()
            events.append(self.event())
            if len(events) > 3:
                self.cuda.cuEventSynchronize(events[-3])
            nvml.sample()
        self.cuda.cuEventSynchronize(events[-1])
        times = []
        for before, after in zip(events, events[1:]):
            ms = ctypes.c_float()
            self.cuda.cuEventElapsedTime(ctypes.byref(ms), before, after)
            times.append(ms.value / 1e3)
        skipped, early = (1 - MEASURED) * sum(times), 0.0
        while early + times[0] < skipped:
            early += times.pop(0)
        return times

    def copy(self, nvml: Nvml) -> tuple[list[float], int]:
        """Return the seconds of batches of copies, and the bytes that one reads and writes."""
        source, target = (self.allocate(BUFFER_BYTES) for _ in range(2))
        ctas = self.sms * FILL_CTAS_PER_SM
        words = ctypes.c_uint32(BUFFER_BYTES // (4 * ctas * FILL_THREADS))
        self.launch("fill", ctas, FILL_THREADS, source, words)
        size = ctypes.c_size_t(BUFFER_BYTES)

        def batch() -> None:
            for _ in range(COPIES):
                self.cuda.cuMemcpyDtoDAsync_v2(target, source, size, None)

        times = self.repeat(COPY_S, batch, nvml)
        for data in (source, target):
            self.cuda.cuMemFree_v2(data)
        return times, 2 * COPIES * BUFFER_BYTES

    def multiply(self, nvml: Nvml) -> tuple[list[float], int, int]:
        """Return the seconds of launches, the operations of one, and how many CTAs differ."""
        ctas = self.sms * MMA_CTAS_PER_SM
        out = self.allocate(4 * ctas * MMA_THREADS)
        steps = ctypes.c_uint32(STEPS)
        times = self.repeat(
            TENSOR_S, lambda: self.launch("multiply", ctas, MMA_THREADS, out, steps), nvml
        )
        words = (ctypes.c_uint32 * (ctas * MMA_THREADS))()
        self.cuda.cuMemcpyDtoH_v2(words, out, ctypes.c_size_t(ctypes.sizeof(words)))
        raw, size = bytes(words), 4 * MMA_THREADS
        differ = sum(raw[at : at + size] != raw[:size] for at in range(0, len(raw), size))
        warps = ctas * MMA_THREADS // 32
        return times, (STEPS + 1) * ROWS * COLUMNS * MMA_FLOP * warps, differ


def rates(what: str, times: list[float], each: float) -> dict[str, float]:
    """Return the rate over all batches, and that of the slowest beside it."""
    return {
        f"{what}_per_s": each * len(times) / sum(times),
        f"{what}_least_per_s": each / max(times),
    }


def measure(uuid: str) -> dict[str, Any]:
    load, nvml = Load(), Nvml(uuid)
    copies, size = load.copy(nvml)
    nvml.samples.clear()  # those of the products are kept
    products, work, differ = load.multiply(nvml)
    return {
        "name": load.name,
        **rates("copy_bytes", copies, size),
        **rates("tensor_flop", products, work),
        "differing_ctas": differ,
        **nvml.figures(),
    }


def main() -> None:
    """Print one JSON line: the figures, or `trouble`; null figures without a CUDA driver."""
    os.environ["CUDA_VISIBLE_DEVICES"] = uuid = sys.argv[1]
    answer: dict[str, Any]
    try:
        answer = measure(uuid)
    except NoDriver as e:
        answer = {"trouble": f"no CUDA driver: {e}", "broken": False}
    except Exception as e:
        answer = {"trouble": str(e), "broken": True}
    os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
