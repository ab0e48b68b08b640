"""Misuse of instructions that need all lanes of a warp: found when nothing else can run.

An `.aligned` instruction that only some lanes of a warp reach is undefined (PTX ISA 9.7.13.1).
Lanes that come late are no fault, so it is only when the whole machine is stuck that the emulator
knows that the others do not arrive.
"""

from __future__ import annotations

import numpy as np

from kernelrig.emu.machine.divergence import ConvergenceWaiters
from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import Machine, ReconvergencePoint, WarpBatch
from kernelrig.emu.machine.program import EXIT
from kernelrig.emu.numerics.arrays import full_mask
from kernelrig.ptx.rules import ALIGNED_BY_ONE_LANE


def report_missing_lanes(
    machine: Machine, waiters: ConvergenceWaiters, point: ReconvergencePoint
) -> None:
    """Report lanes that wait for the rest of their warp where that does not come along.

    Who goes nowhere but to its exit is not waited for, then.
    """
    behind = machine.program.segments[point.segment]
    if behind.end == EXIT and behind.last - behind.first <= 1:
        return
    for (_, warp), batch in waiters.waiting.items():
        segment = machine.program.segments[batch.pc]
        missing = point.missing.get(warp)
        if missing is None or segment.condition is None or segment.condition.collective != "warp":
            continue
        here = full_mask(batch.lanes, 1) & missing
        if here.any():
            batch.at = segment.first
            name = machine.program.label(segment.first)
            batch.report(
                "barrier-misuse",
                f"lanes reach {name} on one side of a branch, and the rest of their warp takes"
                " the other",
                here,
                same="diverged",
                context=Context(ALIGNED_BY_ONE_LANE.name),
            )


def report_divergent_waiters(machine: Machine, waiters: ConvergenceWaiters) -> None:
    """Report lanes of a warp that wait for one another at different instructions."""
    places: dict[int, list[WarpBatch]] = {}
    for (_, warp), batch in waiters.waiting.items():
        places.setdefault(warp, []).append(batch)
    for warp, batches in places.items():
        here = np.any([full_mask(c.lanes, 1)[0] for c in batches], axis=0)
        if len(batches) < 2 or (machine.alive[warp] & ~here).any():
            continue
        named = [machine.program.label(machine.program.segments[c.pc].first) for c in batches]
        for batch, name in zip(batches, named, strict=True):
            condition = machine.program.segments[batch.pc].condition
            if condition is None or condition.collective != "warp":
                continue
            batch.at = machine.program.segments[batch.pc].first
            others = ", ".join(n for n in named if n != name)
            batch.report(
                "barrier-misuse",
                f"lanes wait at {name} for the rest of their warp, which waits at {others}",
                same="diverged",
                context=Context(ALIGNED_BY_ONE_LANE.name),
            )
