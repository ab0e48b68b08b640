"""A comparison of builds: the candidates, what each process measured, and the results."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kernelrig.model.configuration import Kernel

MORE_MINUTES = "minutes to detect"
"""The fact of an inconclusive pair: how much longer a session detects the difference seen."""


class BenchVerdict(StrEnum):
    """The result for B compared with A; an inconclusive one needs more slots."""

    FASTER = "faster"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A build that is compared; `kernel` is its definition in its own commit.

    `place` names its folder, as a variant's does: empty = the run's own build.
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
    """A measurement slot: time on the GPU for one process of one candidate in one round.

    `candidate` and `process` count from 0. Round 0 warms the card up; round -1 is the first
    candidate once more, to compare it with itself.
    """

    candidate: int
    round: int
    process: int = 0


@dataclass(frozen=True, slots=True)
class Bench:
    """What `invoke bench` was asked to do: in each round each candidate has one slot.

    In a relay `processes` of each candidate are started together and take its slots in turn;
    0 = each slot is a process of its own, started when the one before has ended. Of more candidates
    than are to be on the GPU `together` (0 = all are), groups take their turn, one relay after the
    other; the first candidate is in each.
    """

    candidates: tuple[Candidate, ...]
    rounds: int
    settle_s: float
    gate_percent: float | None = None
    force: bool = False
    processes: int = 0
    together: int = 0


@dataclass(frozen=True, slots=True)
class Environment:
    """What must be equal where two times are compared."""

    gpu: str = ""
    driver: str = ""
    power_limit_w: float = 0.0
    regime: str = ""
    case: str = ""


@dataclass(frozen=True, slots=True)
class Clocked:
    """Clocks, power and temperature of the card: all readings while a process kept it loaded."""

    sm_mhz: tuple[int, ...] = ()
    power_w: tuple[float, ...] = ()
    temperature_c: tuple[int, ...] = ()
    throttle_reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timed:
    """A measured slot with all its samples; `candidate`, `round` and `process` as in Slot.

    `spot_checked` is whether outputs of timed launches were checked, which older harnesses do not.
    """

    candidate: int
    round: int
    samples_ms: tuple[float, ...]
    seconds: float = 0.0
    environment: Environment = field(default_factory=Environment)
    clocked: Clocked = field(default_factory=Clocked)
    process: int = 0
    spot_checked: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """B compared with A in one session; percents are of A's time, more than 0 = B takes longer.

    `noise_percent` is what a build compared with itself shows by chance. `mdd_percent` is the
    minimum detectable difference of a session like this one. `more_minutes` is how much longer to
    measure until the difference seen is detected: None where it was, or is not detectable at all.
    """

    a: str
    b: str
    result: BenchVerdict
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
    """bench.json: the measured slots in their order, and the comparisons made of them."""

    run: str
    names: tuple[str, ...]
    slots: tuple[Timed, ...]
    comparisons: tuple[Comparison, ...]
    schema: int = 2
