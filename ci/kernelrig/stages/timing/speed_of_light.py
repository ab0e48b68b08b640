"""The least time a shape can take on a device: a sample below it is an error."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.stages.harness.result import Clocks, DeviceSeen, ShapeSeen

FP8_FLOP_PER_CLOCK_PER_SM = {"9.0": 8192, "10.0": 16384}
"""Dense FP8 tensor throughput, a product and a sum counted as two."""

OUT_BYTES = 2
"""BF16 out; FP8 in takes one byte."""


@dataclass(frozen=True, slots=True)
class Lightspeed:
    """The two floors of a shape, and what they were computed from."""

    memory_ms: float
    compute_ms: float
    sm_mhz: float
    clock_source: str

    @property
    def floor_ms(self) -> float:
        return max(self.memory_ms, self.compute_ms)

    @property
    def bound(self) -> str:
        return "memory" if self.memory_ms >= self.compute_ms else "compute"


def product_flop(shape: ShapeSeen) -> int:
    return 2 * shape.m * shape.n * shape.k


def least_bytes(shape: ShapeSeen, l2_bytes: int) -> int:
    """Return the bytes that memory must move in one launch: A and B in, C out.

    As much of C as the L2 holds may still be on its way when the launch ends: it is not counted.
    """
    moved = shape.m * shape.k + shape.n * shape.k + OUT_BYTES * shape.m * shape.n
    return max(0, moved - l2_bytes)


def lightspeed(shape: ShapeSeen, device: DeviceSeen, clocks: Clocks) -> Lightspeed | None:
    """Return the floors at the highest SM clock that was sampled; None for an unknown device."""
    flop_per_clock = FP8_FLOP_PER_CLOCK_PER_SM.get(device.compute_capability)
    sampled = max((c.sm_mhz for c in clocks), default=0)
    sm_mhz = sampled or device.max_sm_clock_khz / 1e3
    bytes_per_s = device.memory_bus_width_bits / 8 * device.memory_clock_khz * 1e3 * 2
    if flop_per_clock is None or min(sm_mhz, bytes_per_s, device.sm_count) <= 0:
        return None
    flop_per_s = device.sm_count * flop_per_clock * sm_mhz * 1e6
    return Lightspeed(
        memory_ms=least_bytes(shape, device.l2_bytes) / bytes_per_s * 1e3,
        compute_ms=product_flop(shape) / flop_per_s * 1e3,
        sm_mhz=sm_mhz,
        clock_source="highest sampled" if sampled else "highest of the device, none was sampled",
    )
