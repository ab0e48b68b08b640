"""The time of a launch as its busy units and its latency, and what is next when one is less.

Units work beside each other: arithmetic, L1, what lies below it, and the tensor pipe. One that is
far busier than the others takes the launch's time; of two that are about as busy neither hides the
other without gaps. So the time that they need is a norm of their busy shares. Latency that no warp
hides is one more part: what of the launch's time the units do not explain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelrig.analyse.explain.launch_evidence import Evidence, rising

REACHABLE = 0.92
"""Of a unit's peak: what copies and products that are tuned to it reach on an H200."""
ARITHMETIC = ("issue", "alu", "fma", "fp64", "special")
_BESIDE = 3
"""Norm of what the same warps need one after the other: each hides a part of the others."""
_FILLED = 0.85
"""Of the time of a launch: what the units that are next need of it, once another does less."""
_APART = 6
"""Norm of what hides others but for the gaps where they change: arithmetic, with short queues."""
_NEARLY_FULL, _FOR_UNIT = (0.7, 0.85), 4
"""Busy shares of memory that warps begin to wait for, and of a full one; what it counts for."""


def saved_by_less(e: Evidence, left: Mapping[str, float], latency: float = 0.0) -> float:
    """Return the share of the time that goes where these shares of units' work are left.

    `latency` is the share of the waits that go with it.
    """
    before = _norm(_parts(e.units), _BESIDE)
    after = _norm(_parts({u: use * left.get(u, 1.0) for u, use in e.units.items()}), _BESIDE)
    rest = (1.0 - before**_BESIDE) * (1.0 - latency) ** _BESIDE
    return max(0.0, 1.0 - max(after / _FILLED, float((after**_BESIDE + rest) ** (1 / _BESIDE))))


def saved_by_no_wait(e: Evidence, waits: float, *relieved: str) -> float:
    """Return the share of the time that goes where warps no longer wait for each other.

    `waits` is the share of the warps' time that they do. Memory has queues, which grow as more
    warps come: what goes is that share of the time that memory leaves. Where it is nearly full,
    the other waits are for memory: most of what it leaves is of those that go. Arithmetic hides
    all but what it needs itself.
    """
    units = {unit: use for unit, use in e.units.items() if unit not in relieved}
    arithmetic, l1, below, _ = _parts(units)
    memory = _norm((l1, below), _APART)
    power = 1.0 + _FOR_UNIT * rising(memory, *_NEARLY_FULL)
    left = memory + (1.0 - memory) * (1.0 - min(1.0, waits)) ** power
    needed = arithmetic**_APART
    return 1.0 - float((left**_APART * (1.0 - needed) + needed) ** (1 / _APART))


def _parts(units: Mapping[str, float]) -> tuple[float, float, float, float]:
    """Return what arithmetic, L1, what is below it, and the tensor pipe need of the time."""
    return (
        max(units.get(u, 0.0) for u in ARITHMETIC),
        units.get("l1", 0.0),
        min(1.0, max(units.get(u, 0.0) for u in ("l2", "dram")) / REACHABLE),
        min(1.0, units.get("tensor", 0.0) / REACHABLE),
    )


def _norm(parts: Sequence[float], norm: int) -> float:
    return float(min(1.0, sum(part**norm for part in parts) ** (1 / norm)))
