"""A comparison of builds: who takes part, what each process measured, what the pairs come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kernelrig.model.configuration import Kernel


class Change(StrEnum):
    """What is said of B compared with A; inconclusive is an answer, and asks for more slots."""

    FASTER = "faster"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A build that takes part; `kernel` is what its own commit says of it.

    `place` names its folder, as a variant's: empty = the run's own build.
    """

    name: str
    place: str
    kernel: Kernel
    variant: str
    arch: str
    key: str
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """A stretch of time on the GPU: the contender whose it is, the round, and which of its
    processes takes it, counted from 0.

    Round 0 warms the card up, round -1 is the first contender beside itself.
    """

    candidate: int
    round: int
    process: int = 0


@dataclass(frozen=True, slots=True)
class Bench:
    """What `invoke bench` was asked: in each round each contender has a turn.

    In a relay `processes` of each contender are started together and take its turns one after the
    other; 0 = each turn is a process of its own, started when the one before has ended.
    """

    candidates: tuple[Candidate, ...]
    rounds: int
    settle_s: float
    gate_percent: float | None = None
    force: bool = False
    processes: int = 0


@dataclass(frozen=True, slots=True)
class Environment:
    """What must be alike where two times are compared."""

    gpu: str = ""
    driver: str = ""
    power_limit_w: float = 0.0
    regime: str = ""
    case: str = ""


@dataclass(frozen=True, slots=True)
class Clocked:
    """What the card did meanwhile, over all readings of a process under load."""

    sm_mhz: tuple[int, ...] = ()
    power_w: tuple[float, ...] = ()
    temperature_c: tuple[int, ...] = ()
    throttle_reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timed:
    """One turn: whose it was, in which round, and every sample of it; `process` as in Turn."""

    candidate: int
    round: int
    samples_ms: tuple[float, ...]
    seconds: float = 0.0
    environment: Environment = field(default_factory=Environment)
    clocked: Clocked = field(default_factory=Clocked)
    process: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """B beside A in one session; percents are of A's time, more than 0 = B takes longer.

    `noise_percent` is what the same build came to beside itself, `resolves_percent` the least
    difference that a session like this would tell; `more_minutes` what the difference that was seen
    would take to be told, None where it was told, or where no time would tell it.
    """

    a: str
    b: str
    word: Change
    a_ms: float
    b_ms: float
    percent: float
    low_percent: float
    high_percent: float
    noise_percent: float | None
    mdd_percent: float
    slots: int
    more_minutes: float | None = None

    @property
    def ratio(self) -> float:
        return 1.0 + self.percent / 100


@dataclass(frozen=True, slots=True)
class BenchResult:
    """bench.json: the turns in their order, and what they come to."""

    run: str
    names: tuple[str, ...]
    slots: tuple[Timed, ...]
    comparisons: tuple[Comparison, ...]
    schema: int = 2
