"""How many CTAs of a kernel fit on an SM, from what each of them takes."""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
REGISTER_UNIT = 256
"""The allocation unit of registers, per warp: a thread's registers are rounded up to 8."""
SHARED_UNIT = 128


@dataclass(frozen=True, slots=True)
class Limits:
    """What an SM has; `reserved_bytes` of shared memory go to the system for each CTA."""

    registers: int = 65536
    partitions: int = 4
    threads: int = 2048
    ctas: int = 32
    thread_registers: int = 255
    shared_bytes: int = 233472
    cta_shared_bytes: int = 232448
    reserved_bytes: int = 1024


LIMITS: dict[str, Limits] = {arch: Limits() for arch in ("sm_90", "sm_100", "sm_103")}
"""CUDA C++ programming guide, technical specifications by compute capability."""


def limits_of(arch: str) -> Limits | None:
    return LIMITS.get(arch.rstrip("af"))


def ctas_per_sm(limits: Limits, threads: int, registers: int, shared_bytes: int) -> dict[str, int]:
    """Return how many CTAs fit by each resource; the minimum is the occupancy."""
    warps = -(-threads // WARP)
    warp_registers = _rounded(max(registers, 1) * WARP, REGISTER_UNIT)
    resident_warps = limits.registers // limits.partitions // warp_registers * limits.partitions
    cta_bytes = _rounded(shared_bytes + limits.reserved_bytes, SHARED_UNIT)
    return {
        "CTAs": limits.ctas,
        "threads": limits.threads // (warps * WARP),
        "registers": resident_warps // warps,
        "shared memory": limits.shared_bytes // cta_bytes,
    }


def _rounded(number: int, unit: int) -> int:
    return -(-number // unit) * unit
