"""What costs a launch time, and the share of its time that each cause explains: a model of ours.

A cause makes a unit do work that need not be, or makes warps stand while nothing issues. What it
costs is estimated as the time for which it keeps its unit busy, as the share of idle issue slots
whose stalls lie where the cause is, or, of waits and of instructions that go, as the share of the
warps' time that is spent there while no other warp could issue. The largest that a cause has is the
estimate. What is gained can be no more than what the next unit leaves: a unit does not get beyond
REACHABLE of its peak. L2 sets no such limit: its busiest part goes beyond what ncu counts as its
peak once caches are warm.

The interval ends at the estimate times the square root of two, or at that most, and is no wider
than a factor of two, in the time that is saved and in how many times as fast the launch becomes.
All of it follows from the counters: neither the kernel's name nor the one of a source is looked at.
What is said here of L2, power and stalls was set on kernels slowed for one known cause each, on an
H200 and an H100.

Two units that are both busy do not overlap without gaps: busy_time has what is left where one does
less, and where warps no longer wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from kernelrig.analyse.explain.busy_time import ARITHMETIC, REACHABLE
from kernelrig.analyse.explain.launch_evidence import Evidence, opcode
from kernelrig.model import CostCause, CountedInstruction

_DRAM_REACHES = 0.94
"""Of its peak: more than most programs, as was seen of one that only reads."""
_ARITHMETIC_REACHES = 0.96
"""Of its peak, as was seen; L1 gets to its peak."""
_TENSOR_BOUND = 0.7
_SPREAD = math.sqrt(2)
_MOST_PERCENT = 99.9
"""That is said to be saved: something of a launch is left, and a speedup is finite."""
_AT = 3


def estimated(
    name: str,
    means: str,
    do: str,
    estimate: float,
    most: float,
    at: Iterable[str] = (),
    **figures: float,
) -> Iterator[CostCause]:
    """Yield the cause with its interval; nothing where it explains nothing."""
    low, high = interval(estimate, most)
    if high > 0:
        least, most_percent = (min(round(100 * end, 1), _MOST_PERCENT) for end in (low, high))
        shown = {name: float(f"{value:.4g}") for name, value in figures.items()}
        yield CostCause(name, means, do, least, most_percent, shown, tuple(dict.fromkeys(at))[:_AT])


def interval(estimate: float, most: float) -> tuple[float, float]:
    """Return the least and the largest share of the time that may be saved, 0 to 1.

    Neither the shares nor the speedups 1 / (1 - share) differ by more than a factor of two.
    """
    high = min(estimate * _SPREAD, 1.0 - (1.0 - estimate) / _SPREAD, most)
    return max(high / 2, 2 * high - 1), high


def most_saved(e: Evidence, *relieved: str) -> float:
    """Return the share of time that can go at the most, where these units do less than before."""
    pipes = max((e.units.get(u, 0.0) for u in ARITHMETIC if u not in relieved), default=0.0)
    l1, dram = (e.units.get(u, 0.0) if u not in relieved else 0.0 for u in ("l1", "dram"))
    tensor = e.units.get("tensor", 0.0) / REACHABLE
    left = max(0.0, 1.0 - max(pipes / _ARITHMETIC_REACHES, l1, dram / _DRAM_REACHES, tensor))
    # A tensor pipe that is busy draws the power: at the limit fewer cycles are slower ones.
    return min(left, (1.0 - tensor) * e.idle_cost) if tensor > _TENSOR_BOUND else left


def waiting(c: CountedInstruction) -> int:
    return sum(n for reason, n in c.stalls.items() if reason not in ("selected", "not_selected"))


def places(held: Sequence[CountedInstruction]) -> list[str]:
    return [
        f"{c.line.file.rpartition('/')[2]}:{c.line.line}" if c.line else opcode(c.sass)
        for c in held
    ]


def place(line: object, at: int) -> str:
    file, number = getattr(line, "file", ""), getattr(line, "line", 0)
    return f"{file.rpartition('/')[2]}:{number}" if file and number else f"{at:#06x}"
