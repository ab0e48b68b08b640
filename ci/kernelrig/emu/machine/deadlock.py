"""A deadlock as one finding: the barrier that is likeliest to be at fault first, then all others.

Nothing can run and nothing is in flight, so no barrier that a warp waits for can complete. Most of
them only wait for warps that wait themselves. Those to look at first are an mbarrier
whose bytes do not add up, then one that some but not all have arrived at. A warp whose own arrivals
completed a phase that no wait has observed comes after the others: its consumer waits elsewhere.
Where all look alike the lowest warp leads: kernels put the warp that loads, the head of the chain,
first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.stall import BARRIER, Stall, name_ctas, name_warps
from kernelrig.emu.numerics.arrays import full_mask, lane_bits


@dataclass(slots=True)
class _Waiters:
    """Who waits for one thing: warp and lanes, and the instruction they wait at."""

    stall: Stall
    at: int
    warps: dict[int, int] = field(default_factory=dict)

    @property
    def rank(self) -> tuple[int, int]:
        return self.stall.rank, min(self.warps)


def report_step_limit(machine: Machine, steps: int, at: int) -> None:
    """Report that a wave of CTAs has taken all its steps, where it was then.

    That is the beginning of the straight code around `at`: engines may be at different instructions
    in it.
    """
    around = (s.first for s in machine.program.segments if s.first <= at < s.last)
    text = f"these CTAs still run after {steps} steps, and were here then: a hang, or too much work"
    machine.report("step-limit", text, at=next(around, -1))


def report_endless_loops(machine: Machine, at: int) -> None:
    """Report that a wave of CTAs is known to run on for ever; `at` is where a loop begins."""
    text = "these CTAs are in a loop that they never leave: each turn reads the same, and nothing"
    machine.report("step-limit", f"{text} that runs writes memory any more", at=at)


def report_deadlock(machine: Machine, parked: list[WarpBatch], converging: list[WarpBatch]) -> None:
    """Report that nothing can go on. `converging` wait for other lanes of their own warps."""
    segments = machine.program.segments
    found: dict[tuple[object, int], _Waiters] = {}
    for batch in parked:
        at = segments[batch.pc].first
        for key in batch.waiting:
            stall = _stall(machine, key)
            if stall is not None:
                _add(found.setdefault((key, at), _Waiters(stall, at)), batch)
    found = {key: waiters for key, waiters in found.items() if waiters.warps}
    warps = frozenset(int(w) for batch in converging for w in batch.warps)
    lanes = Stall("", "the other lanes of their warps", BARRIER, warps)
    named = Stall("", "the other lanes that its mask names", BARRIER, warps, "lanes-never-meet")
    for batch in converging:
        segment = segments[batch.pc]
        by_mask = segment.condition is not None and segment.condition.collective == "mask"
        waiters = _Waiters(named if by_mask else lanes, segment.first)
        _add(found.setdefault((None, segment.first), waiters), batch)
    ordered = sorted(found.values(), key=lambda w: w.rank)
    if not ordered:
        machine.report("deadlock", "nothing can run and nothing is in flight")
        return
    first, lines = ordered[0], _lines(machine, ordered)
    objects = dict.fromkeys(w.stall.name for w in ordered if w.stall.name)
    warp = min(first.warps)
    machine.report(
        "deadlock",
        f"{lines[0]}; nothing can run and nothing is in flight"
        + "".join(f"\n  {line}" for line in lines[1:]),
        warp,
        first.warps[warp],
        first.at,
        count=sum(bits.bit_count() for bits in first.warps.values()),
        context=Context(first.stall.rule, tuple(objects)),
        warps=[*first.warps],
    )
    for component in machine.components:
        if hasattr(component, "stuck"):
            component.stuck()


def _stall(machine: Machine, key: object) -> Stall | None:
    """Ask the components which of them `key` belongs to, and what it waits for."""
    for component in machine.components:
        if hasattr(component, "describe"):
            stall: Stall | None = component.describe(key)
            if stall is not None:
                return stall
    return None


def _add(waiters: _Waiters, batch: WarpBatch) -> None:
    lanes = full_mask(batch.lanes, batch.size)
    for row, warp in enumerate(batch.warps.tolist()):
        if warp in waiters.stall.warps:
            waiters.warps[warp] = waiters.warps.get(warp, 0) | lane_bits(lanes[row])


def _lines(machine: Machine, ordered: list[_Waiters]) -> list[str]:
    """Return a line for each; CTAs that wait alike share one, which speaks of the first."""
    lines: dict[str, str] = {}
    alike: dict[str, list[int]] = {}
    for waiters in ordered:
        line = key = _line(machine, waiters)
        ctas = sorted({int(machine.cta_of[warp]) for warp in waiters.warps})
        if len(ctas) == 1:
            key = re.sub(rf"\bCTA {ctas[0]}\b", "CTA", line)
            alike.setdefault(key, []).extend(ctas)
        lines.setdefault(key, line)
    for key, ctas in alike.items():
        if others := sorted(ctas[1:]):
            lines[key] += f"; {name_ctas(others)} alike"
    return list(lines.values())


def _line(machine: Machine, waiters: _Waiters) -> str:
    """Return who waits for what, where: `CTA 0 warps 2, 3 wait for accum_ready[0] ... at ...`."""
    who = name_warps(machine, waiters.warps)
    verb = "waits" if len(waiters.warps) == 1 else "wait"
    return f"{who} {verb} for {waiters.stall.text}, at {machine.program.label(waiters.at)}"
