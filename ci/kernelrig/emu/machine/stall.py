"""What a parked warp waits for, as a component of the machine describes it in a deadlock."""

from __future__ import annotations

from dataclasses import dataclass

BYTES, SOME, NONE, BARRIER = range(4)
"""How likely it is the fault: bytes do not add up; some arrivals are missing; none has come; a
barrier of threads, that waits for warps which wait for something else."""


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
