"""What a parked warp waits for, as a component of the machine describes it in a deadlock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelrig.emu.machine.machine_state import Machine

ALL_LANES = 0xFFFF_FFFF

BYTES, SOME, NONE, AHEAD, BARRIER = range(5)
"""In the order in which they are likely the fault: the bytes do not add up; some arrivals are
missing; none has arrived; none has arrived, and the waiting warp has completed a phase that no wait
has observed, so that its consumer waits elsewhere; a barrier of threads, which waits for warps that
wait for something else."""


@dataclass(frozen=True, slots=True)
class Stall:
    """`name` is the object concerned, "" for none; `text` says what of it is missing.

    `warps` are those that may wait for it: what a batch waits for is known for all its warps only.
    """

    name: str
    text: str
    rank: int
    warps: frozenset[int]
    rule: str = "barrier-never-completes"


def name_warps(machine: Machine, lanes_of: dict[int, int]) -> str:
    """Name warps, those with the same lanes together: `CTAs 0, 1 warps 2 to 5 and CTA 2 ...`."""
    by_cta: dict[tuple[int, int], list[int]] = {}
    for warp in sorted(lanes_of):
        cta, number = int(machine.cta_of[warp]), warp % machine.geometry.warps
        by_cta.setdefault((cta, lanes_of[warp]), []).append(number)
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for (cta, lanes), warps in by_cta.items():
        alike.setdefault((lanes, tuple(warps)), []).append(cta)
    return " and ".join(_named(ctas, *of) for of, ctas in alike.items())


def name_ctas(ctas: Sequence[int]) -> str:
    """`CTA 3`, or `CTAs 1, 2, 8 to 20`."""
    return f"CTA{'s' * (len(ctas) > 1)} {_ranges(ctas)}"


def _named(ctas: Sequence[int], lanes: int, warps: Sequence[int]) -> str:
    some = f" (lanes {lanes:#010x})" if lanes != ALL_LANES else ""
    if lanes.bit_count() == 1:
        some = f" lane {lanes.bit_length() - 1}"
    return f"{name_ctas(ctas)} warp{'s' * (len(warps) > 1)} {_ranges(warps)}{some}"


def _ranges(numbers: Iterable[int]) -> str:
    """`0 to 3, 5`: runs of ascending numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(_run(run) for run in runs)


def _run(run: list[int]) -> str:
    return f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run))
