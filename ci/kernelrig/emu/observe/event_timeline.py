"""The order of a schedule's synchronisation, by warp and by asynchronous operation.

An emulated machine has no time: one unit is one half of an event, and two tracks are compared by
what came first. A wait lasts from the event of its warp before it to its return; arrivals, issues
and barriers of a CTA are points. What an arrival let go on is a flow from the arrival, thread's or
operation's, that completed the phase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from kernelrig.emu.machine.machine_state import Hooks, Machine, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.phase import Barrier
from kernelrig.emu.numerics.arrays import Mask
from kernelrig.model import Flow, Slice, Timeline, Track

MOST_EVENTS = 100_000
"""A browser shows so many; a launch of more has its first ones."""
UNIT = "half an event: order, not time"

_At = tuple[int, int]
"""A track and a time."""


@dataclass
class _Operation:
    """An operation in flight: where it is drawn, and since when."""

    track: int
    start: int
    name: str
    details: tuple[tuple[str, str], ...]


@dataclass
class TimelineObserver(Hooks):
    """Records a schedule; `timeline` is what it has recorded."""

    events: int = 0
    slices: list[Slice] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    _tracks: list[Track] = field(default_factory=list)
    _of_warp: dict[int, int] = field(default_factory=dict)  # on the machine: of this wave
    _free: dict[str, list[int]] = field(default_factory=dict)  # tracks of operations, by group
    _flying: dict[Op, _Operation] = field(default_factory=dict)
    _ends: Counter[int] = field(default_factory=Counter)  # of each track: of its last slice
    _functions: dict[int, Counter[str]] = field(default_factory=dict)
    _completed: dict[Hashable, _At] = field(default_factory=dict)  # by what was waited for

    def timeline(self, title: str) -> Timeline:
        """Return what was recorded; a warp is named by the function most of its events are in."""
        left_out = max(self.events - MOST_EVENTS, 0)
        for op in tuple(self._flying):  # their ends are no events
            self.op_done(op)
        tracks = list(self._tracks)
        for track, functions in self._functions.items():
            if function := functions.most_common(1)[0][0]:
                tracks[track] = replace(tracks[track], name=f"{tracks[track].name}: {function}")
        return Timeline(
            title,
            UNIT,
            tuple(tracks),
            tuple(sorted(self.slices, key=lambda s: (s.start, s.track))),
            tuple(self.flows),
            left_out,
        )

    def started(self, machine: Machine) -> None:
        self._of_warp.clear()
        self._free.clear()
        self._completed.clear()

    # Threads.
    def arrived(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        for at in self._points(batch, mask, f"arrive on {_name(barrier)}", _phase(barrier, phase)):
            self._completed[barrier, phase] = at

    def waited(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        name = f"wait for {_name(barrier)}"
        for at in self._points(batch, mask, name, _phase(barrier, phase), lasts=True):
            self._follow(name, self._completed.get((barrier, phase)), at)

    def barrier_arrived(
        self, batch: WarpBatch, mask: Mask, instance: object, scope: str, sem: str = "release"
    ) -> None:
        for at in self._points(batch, mask, f"arrive on the {scope} barrier"):
            self._completed[instance] = at

    def barrier_passed(
        self, batch: WarpBatch, mask: Mask, instance: object, scope: str, sem: str = "acquire"
    ) -> None:
        name = f"wait for the {scope} barrier"
        for at in self._points(batch, mask, name, lasts=True):
            self._follow(name, self._completed.get(instance), at)

    def tensor_waited(self, batch: WarpBatch, mask: Mask, ops: list[Op]) -> None:
        for at in self._points(batch, mask, "wait for tensor memory", lasts=True):
            self._after(ops, at)

    def group_waited(
        self, batch: WarpBatch, row: int, lanes: int, ops: list[Op], read: bool
    ) -> None:
        name = "wait for a group's reads" if read else "wait for a group"
        if at := self._point(batch, int(batch.warps[row]), name, (), lasts=True):
            self._after(ops, at)

    # Operations.
    def op_issued(self, op: Op) -> None:
        machine: Machine = op.machine
        now = self._now()
        if now is None:
            return
        track = self._warp(machine, op.warp)
        where = machine.program.where(op.at).source
        self._add(track, f"issue {op.name}", now, now + 1, (("source", where),))
        group = self._tracks[track].group
        free = self._free.setdefault(group, [])
        own = free.pop() if free else self._track(group, "operations in flight")
        self._flying[op] = _Operation(own, now + 1, op.name, (("source", where),))
        self.flows.append(Flow(f"issue {op.name}", track, now, own, now + 1))

    def op_arrived(self, op: Op, barrier: Barrier, phase: int, kind: str) -> None:
        flying = self._flying.get(op)
        now = self._now()
        if flying is not None and now is not None:
            self._completed[barrier, phase] = (flying.track, now)

    def op_done(self, op: Op) -> None:
        flying = self._flying.pop(op, None)
        now = self._now()
        if flying is None:
            return
        end = max(now if now is not None else 2 * MOST_EVENTS, flying.start + 1)
        self._add(flying.track, flying.name, flying.start, end, flying.details)
        self._completed[op] = (flying.track, end - 1)
        self._free.setdefault(self._tracks[flying.track].group, []).append(flying.track)

    # What all of them do.
    def _now(self) -> int | None:
        """Count an event and return its time, which is even; None where no more are kept."""
        self.events += 1
        return 2 * self.events if self.events <= MOST_EVENTS else None

    def _points(
        self,
        batch: WarpBatch,
        mask: Mask,
        name: str,
        details: tuple[tuple[str, str], ...] = (),
        *,
        lasts: bool = False,
    ) -> list[_At]:
        rows = np.flatnonzero(batch.mask_of(mask).any(axis=1)).tolist()
        warps = [int(batch.warps[row]) for row in rows]
        made = (self._point(batch, warp, name, details, lasts=lasts) for warp in warps)
        return [at for at in made if at is not None]

    def _point(
        self,
        batch: WarpBatch,
        warp: int,
        name: str,
        details: tuple[tuple[str, str], ...],
        *,
        lasts: bool,
    ) -> _At | None:
        """Record what a warp does now, or has done since its last event; return where it is."""
        now = self._now()
        if now is None:
            return None
        track = self._warp(batch.machine, warp)
        place = batch.machine.program.where(batch.at)
        self._functions.setdefault(track, Counter())[place.frame.function] += 1
        start = self._ends[track] if lasts else now
        self._add(track, name, start, now + 1, (*details, ("source", place.source)))
        return track, now

    def _follow(self, name: str, completed: _At | None, at: _At) -> None:
        if completed is not None and completed[1] < at[1]:
            self.flows.append(Flow(name, *completed, *at))

    def _after(self, ops: list[Op], at: _At) -> None:
        """Record that `at` could go on because `ops` were done."""
        for op in ops:
            self._follow(f"after {op.name}", self._completed.get(op), at)

    def _add(
        self, track: int, name: str, start: int, end: int, details: tuple[tuple[str, str], ...]
    ) -> None:
        self.slices.append(Slice(track, name, start, end, details))
        self._ends[track] = end

    def _warp(self, machine: Machine, warp: int) -> int:
        """Return the track of a warp of this wave."""
        if warp not in self._of_warp:
            cta, number = int(machine.cta_of[warp]), warp % machine.geometry.warps
            self._of_warp[warp] = self._track(f"CTA {cta}", f"warp {number}")
        return self._of_warp[warp]

    def _track(self, group: str, name: str) -> int:
        self._tracks.append(Track(group, name))
        return len(self._tracks) - 1


def _name(barrier: Barrier) -> str:
    return barrier.name or f"mbarrier {barrier.offset:#x}"


def _phase(barrier: Barrier, phase: int) -> tuple[tuple[str, str], ...]:
    return (("phase", str(phase)), ("barrier of CTA slot", str(barrier.slot)))
