"""The least time a shape can take on a device: a sample below it is an error."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.stages.harness.result import ShapeSeen
from kernelrig.stages.timing.gpus import GpuFigures

OUT_BYTES = 2
"""BF16 out; FP8 in takes one byte."""


@dataclass(frozen=True, slots=True)
class Lightspeed:
    """The two floors of a shape, and what they were computed from."""

    memory_ms: float
    compute_ms: float
    sm_mhz: float
    source: str

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


def lightspeed(shape: ShapeSeen, gpu: GpuFigures) -> Lightspeed:
    """Return the floors at the highest SM clock of the device.

    The clocks that were sampled come from the program: one that it made up would move the floor.
    """
    return Lightspeed(
        memory_ms=least_bytes(shape, gpu.l2_bytes) / gpu.bytes_per_s * 1e3,
        compute_ms=product_flop(shape) / gpu.flop_per_s * 1e3,
        sm_mhz=gpu.sm_mhz,
        source=gpu.source,
    )
