"""A sweep: the sets of tunables that were tried, and what is known of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kernelrig.model.verdict import Outcome


@dataclass(frozen=True, slots=True)
class TunableSet:
    """A value for each tunable. `id` follows from the values; `name` says what differs from the
    defaults, which are called `defaults`.
    """

    id: str
    name: str
    values: dict[str, int]


class SweepPhase(StrEnum):
    """What a set went through last."""

    PENDING = "pending"
    STATIC = "static"
    EMULATED = "emulated"
    BUILT = "built"
    VERIFIED = "verified"
    TIMED = "timed"


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A set and what is known of it. `rank` counts from 1 among the sets that were timed.

    `standing` is its place in the race, empty where it was not timed. Percents are of the time of
    the best set: more than 0 = it takes longer.
    """

    set: TunableSet
    phase: SweepPhase = SweepPhase.PENDING
    outcome: Outcome | None = None
    summary: str = ""
    evidence: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    rank: int | None = None
    standing: str = ""
    rounds: int = 0
    median_ms: float | None = None
    percent: float | None = None
    low_percent: float | None = None
    high_percent: float | None = None


@dataclass(frozen=True, slots=True)
class SweepResult:
    """A sweep as far as it has got; `why` says why it is not complete, empty if it is.

    `best` is the id of the best set that was timed. `slots` are the measurement slots that the GPU
    spent, of `exhaustive_slots` that seven rounds of every set would have taken; `gpu_s` are the
    seconds for which its stages had the GPU. Where every set was measured besides, the race alone
    took `race_gpu_s`, and its winner was `race_best`.
    """

    id: str
    folder: str
    kernel: str
    arch: str
    remote: str
    rows: tuple[SweepRow, ...]
    best: str = ""
    slots: int = 0
    exhaustive_slots: int = 0
    runs: tuple[str, ...] = ()
    why: str = ""
    default_failed: bool = False
    gpu_s: float = 0.0
    race_gpu_s: float | None = None
    race_best: str = ""
    schema: int = 1

    @property
    def exit_code(self) -> int:
        """0 complete, 1 the set of the defaults is wrong, 6 to be gone on with."""
        if self.default_failed:
            return 1
        return 6 if self.why else 0
