"""The least time a shape can take on a device: a sample below it is an error."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.config.operation_sizes import operation_at
from kernelrig.model import Case, Kernel, Operation
from kernelrig.stages.harness.result import HarnessResult, ShapeSeen
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


Problem = ShapeSeen | Operation
"""What a launch computes: the product of patch_embed, or an operation at a case."""


def problem_of(seen: HarnessResult, kernel: Kernel) -> Problem:
    """Return the problem of a result that was compared with what was asked for."""
    if not kernel.is_operation:
        return seen.shape
    return operation_at(kernel, Case("", numbers=tuple(seen.case.items())))


def flop_of(problem: Problem) -> int:
    """Return all operations of a launch, 0 where kernels.yaml gives none."""
    if isinstance(problem, ShapeSeen):
        return product_flop(problem)
    return sum(count for _, count in problem.flop)


def least_bytes(problem: Problem, l2_bytes: int) -> int:
    """Return the bytes that memory must move in one launch: A and B in, C out.

    As much of the output as the L2 holds may still be on its way when the launch ends: it is not
    counted.
    """
    return max(0, bytes_of(problem) - l2_bytes)


def bytes_of(problem: Problem) -> int:
    """Return the bytes of what a launch reads and writes."""
    if isinstance(problem, Operation):
        return problem.bytes_moved
    inputs = problem.m * problem.k + problem.n * problem.k
    return inputs + OUT_BYTES * problem.m * problem.n


def lightspeed(problem: Problem, gpu: GpuFigures) -> Lightspeed:
    """Return the floors at the highest SM clock of the device.

    The clocks that were sampled come from the program: one that it made up would move the floor.
    Units of different types may work at the same time: the slowest of them is the floor.
    """
    if isinstance(problem, Operation):
        compute_s = max((count / gpu.rate(of) for of, count in problem.flop), default=0.0)
    else:
        compute_s = product_flop(problem) / gpu.flop_per_s
    return Lightspeed(
        memory_ms=least_bytes(problem, gpu.l2_bytes) / gpu.bytes_per_s * 1e3,
        compute_ms=compute_s * 1e3,
        sm_mhz=gpu.sm_mhz,
        source=gpu.source,
    )


def throughput(problem: Problem, ms: float) -> str:
    """Return what a time means: TFLOP/s, or GB/s where no operations are declared."""
    if flop := flop_of(problem):
        return f"{flop / ms / 1e9:.2f} TFLOP/s"
    return f"{bytes_of(problem) / ms / 1e6:.0f} GB/s"
