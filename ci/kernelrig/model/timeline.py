"""What warps and asynchronous operations did, one after the other: the records behind a trace."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Track:
    """One line of a timeline: a warp, or operations of a CTA that are never in flight together."""

    group: str
    name: str


@dataclass(frozen=True, slots=True)
class Slice:
    """What happened on a track (its index) from `start` to `end`, in units of the timeline."""

    track: int
    name: str
    start: int
    end: int
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Flow:
    """That what happened on one track at one time let another one go on."""

    name: str
    from_track: int
    from_at: int
    to_track: int
    to_at: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Slices of one track never overlap. `unit` says what one unit is; `title` what was traced,
    where, and whether it is emulated or measured. `left_out` events came after the last ones kept.
    """

    title: str
    unit: str
    tracks: tuple[Track, ...]
    slices: tuple[Slice, ...]
    flows: tuple[Flow, ...]
    left_out: int = 0
