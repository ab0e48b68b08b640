"""Whether samples can be times, and clocks what a GPU has: nothing here is the kernel's fault.

Times come from the process that is to be judged. What cannot have been measured is an error, and
its figures are not shown.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence

from kernelrig.stages.harness.result import Clock, Clocks, DeviceSeen
from kernelrig.stages.timing.gpus import GpuFigures, span_of

FEW = 3
"""So many samples, and fewer, may agree to the last bit by chance."""

THROTTLE_REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown by software",
    0x40: "thermal slowdown by hardware",
    0x80: "power brake",
    0x100: "display clocks",
}
"""The bits of NVML's clocks event reasons (nvml.h)."""

MAX_POWER_W, MAX_TEMPERATURE_C = 2000.0, 130
"""More than any GPU of one board draws, and than any keeps running at."""

_HEX = re.compile(r"0x[0-9a-f]{16}")
_WALL_SLACK_S = 0.001
"""The agent rounds the seconds of a command to a thousandth."""


def find_untimely(samples_ms: Sequence[float | None], wall_s: float) -> str:
    """Return why samples cannot be times, empty if they can.

    `wall_s` is how long the agent saw their process run.
    """
    if not samples_ms:
        return "there are no samples"
    times: list[float] = []
    for i, sample in enumerate(samples_ms):
        if sample is None or not math.isfinite(sample) or sample < sys.float_info.min:
            return f"sample {i} is no time: {sample}"
        times.append(sample)
    if len(times) > FEW and len(set(times)) == 1:
        return f"all {len(times)} samples are {times[0]} ms to the last bit: none was measured"
    if sum(times) / 1e3 > wall_s + _WALL_SLACK_S:
        total = f"{sum(times) / 1e3:.4g} s"
        return f"the samples add up to {total}, the process that took them ran {wall_s:.3f} s"
    return ""


def find_uneven(samples_ms: Sequence[float | None], event_ns: int) -> str:
    """Return why samples are none of a clock that counts by `event_ns`; 0 = it is not known."""
    if not event_ns:
        return ""
    import numpy as np  # a process has thousands of samples

    ms = np.array([s for s in samples_ms if s is not None])  # as FP32 numbers
    ticks = ms * 1e6 / event_ns
    rounding = ticks * 2.0**-23
    off = (rounding < 0.25) & (np.abs(ticks - np.rint(ticks)) > np.maximum(rounding, 1e-3))
    for i in np.flatnonzero(off)[:1]:
        return f"sample {i} is {ms[i]} ms: the GPU's event clock counts by {event_ns} ns"
    return ""


def find_odd_clock(clocks: Clocks, gpu: GpuFigures) -> str:
    """Return why the sampled clocks are not those of a GPU under load, empty if they are."""
    if not any(c is not None for c in clocks.during):
        return "no clock was sampled while it was timed: NVML did not answer the program"
    return next((odd for c in clocks if (odd := _find_odd(c, gpu))), "")


def _find_odd(clock: Clock, gpu: GpuFigures) -> str:
    memory_mhz = math.ceil(gpu.memory_mhz)
    if not 0 < clock.sm_mhz <= gpu.sm_mhz:
        return f"an SM clock of {clock.sm_mhz} MHz was sampled, the GPU has at most {gpu.sm_mhz:g}"
    if not 0 < clock.memory_mhz <= memory_mhz:
        return f"a memory clock of {clock.memory_mhz} MHz was sampled, the GPU has {memory_mhz}"
    for what, watts in (("power", clock.power_w), ("power limit", clock.power_limit_w)):
        if not 0 < watts <= MAX_POWER_W:
            return f"a {what} of {watts} W was sampled"
    if not 0 < clock.temperature_c <= MAX_TEMPERATURE_C:
        return f"a temperature of {clock.temperature_c} C was sampled"
    if not _HEX.fullmatch(clock.throttle_reasons):
        return f"'{clock.throttle_reasons[:40]}' is no set of throttle reasons"
    return ""


def find_other_device(seen: DeviceSeen, gpu: GpuFigures) -> str:
    """Return what the program reports of its GPU that the host's driver does not.

    What the host does not give is compared with what a GPU of that model can have: how many sets of
    inputs are enough follows from the L2 cache that the program saw.
    """
    for key, (least, most) in gpu.bounds.items():
        reported, known = getattr(seen, key), gpu.said.get(key)
        if known is not None and reported != known:
            return f"the program reports {key} {reported}, the host's driver {known}"
        if not least <= reported <= most:
            return f"the program reports {key} {reported}, a {gpu.name} has {span_of(least, most)}"
    return ""


def name_reasons(bits: str) -> str:
    """`power cap (0x4)` for the bits of a Clock, `none` for none."""
    value = int(bits, 16)
    names = [name for bit, name in THROTTLE_REASONS.items() if value & bit]
    other = value & ~sum(THROTTLE_REASONS)
    names += [f"an unknown reason {other:#x}"] if other else []
    return f"{', '.join(names)} ({value:#x})" if value else "none"
