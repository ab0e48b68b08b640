"""What the clocks of a trace build recorded, as a timeline of warp roles."""

from __future__ import annotations

from itertools import pairwise

from kernelrig.errors import ProtocolError
from kernelrig.model import Slice, Timeline, Track
from kernelrig.stages.harness.result import HarnessResult, PhaseTrace, TracedClock

UNIT = "1 ns"
LONGEST_NS = 10**12
"""A launch of 1,000 s would have been stopped: a time beyond it was never read from a timer."""


def phase_timeline(seen: HarnessResult) -> Timeline:
    """Return the timeline of a result: a track for each role of a CTA, a slice for each phase.

    ProtocolError where the result has no trace, or one that no launch can have recorded.
    """
    trace = seen.trace
    if trace is None:
        raise ProtocolError("the result has no trace: it is not of a trace build")
    if seen.device is None or not trace.clocks:
        raise ProtocolError("the trace is empty: the kernel recorded no phase")
    tracks: dict[tuple[int, str], int] = {}
    ends: dict[int, int] = {}
    places: dict[int, int] = {}
    slices: list[Slice] = []
    for clock in sorted(trace.clocks, key=lambda c: (c.cta, c.first_phase, c.start)):
        role = _require_sound(clock, trace)
        if places.setdefault(clock.cta, clock.sm) != clock.sm:
            raise _odd(clock, f"on SM {clock.sm}, but its CTA runs on SM {places[clock.cta]}")
        track = tracks.setdefault((clock.cta, role), len(tracks))
        if clock.start < ends.get(track, 0):
            raise _odd(clock, "starts before the record before it ends")
        details = (("row of phase_clocks", str(clock.row)), ("SM", str(clock.sm)))
        begin = clock.start
        for phase, end in clock.marks:
            name = trace.phases[clock.first_phase + phase].partition(": ")[2]
            slices.append(Slice(track, name, begin, end, details))
            begin = end
        ends[track] = begin
    step = _smallest_step(trace)
    seen_step = f"smallest step seen {step} ns" if step else "no two times differ"
    title = (
        f"{seen.kernel}, images={seen.case.get('images', 0)}, measured on {seen.device.name};"
        f" SMs aligned by globaltimer, {seen_step}"
    )
    return Timeline(
        title,
        UNIT,
        tuple(Track(f"CTA {cta} on SM {places[cta]}", role) for cta, role in tracks),
        tuple(sorted(slices, key=lambda s: (s.start, s.track, s.end))),
        (),
        sum(c.marked - len(c.marks) for c in trace.clocks),
    )


def _require_sound(clock: TracedClock, trace: PhaseTrace) -> str:
    """Return the name of the role; ProtocolError if the record cannot be one."""
    if not 0 <= clock.first_phase < len(trace.phases):
        raise _odd(clock, f"its role starts at phase {clock.first_phase} of {len(trace.phases)}")
    role = trace.phases[clock.first_phase].partition(": ")[0]
    if clock.marked < len(clock.marks):
        raise _odd(clock, f"{len(clock.marks)} phases are kept of {clock.marked}")
    for phase, _ in clock.marks:
        at = clock.first_phase + phase
        known = phase >= 0 and at < len(trace.phases)
        if not known or trace.phases[at].partition(": ")[0] != role:
            raise _odd(clock, f"{role} has no phase {phase}")
    times = (0, clock.start, *(end for _, end in clock.marks))
    if any(later < earlier for earlier, later in pairwise(times)):
        raise _odd(clock, "its times go back")
    if times[-1] > LONGEST_NS:
        raise _odd(clock, f"it ends after {times[-1]} ns, longer than any launch")
    return role


def _odd(clock: TracedClock, what: str) -> ProtocolError:
    return ProtocolError(f"the trace of CTA {clock.cta}, row {clock.row}, is none: {what}")


def _smallest_step(trace: PhaseTrace) -> int:
    """Return the smallest difference of two times, 0 where there is none."""
    times = {end for clock in trace.clocks for _, end in clock.marks}
    times.update(clock.start for clock in trace.clocks)
    return min((later - earlier for earlier, later in pairwise(sorted(times))), default=0)
