"""Reviewed baselines: the times of accepted builds on a class of hosts."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelrig.model.bench import BenchVerdict

BASELINE_CHECK = "baseline"
"""The check of a timing stage that compares its time with the baseline."""


@dataclass(frozen=True, slots=True)
class HostClass:
    """Hosts whose times may be compared; the cards of one class differ by their UUID."""

    gpu: str
    power_limit_w: int
    driver_branch: str

    def __str__(self) -> str:
        return f"{self.gpu}, {self.power_limit_w} W, driver {self.driver_branch}"


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One run of a baseline: one observation, however many samples it has.

    Clocks, power and temperature are None of a plain program, in which nobody samples them.
    """

    run: str
    started_utc: str
    commit: str
    dirty_sha256: str
    card: str
    driver: str
    median_ms: float
    p5_ms: float
    p95_ms: float
    least_ms: float
    most_ms: float
    samples: int
    sm_mhz: tuple[int, int] | None = None
    power_w: tuple[float, float] | None = None
    temperature_c: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The times of one build in one case; comparable where host class and `regime` are equal.

    `standards` are the checks that the build had passed when it was accepted (run.standards).
    """

    kernel: str
    arch: str
    variant: str
    case: str
    regime: str
    build: str
    standards: tuple[str, ...]
    runs: tuple[TimedRun, ...]

    @property
    def key(self) -> str:
        return f"{self.kernel}-{self.arch}-{self.variant} {self.case}"


@dataclass(frozen=True, slots=True)
class Baselines:
    """artifacts/baselines/<host class>.json: by KERNEL-ARCH-VARIANT CASE."""

    host_class: HostClass
    baselines: dict[str, Baseline] = field(default_factory=dict)
    schema: int = 2


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """One run compared with a baseline; percents are of the baseline's time, more than 0 = slower.

    `basis` names the runs from which the spread was estimated. Without an interval (None) there
    were too few of them, and the result is inconclusive.
    """

    result: BenchVerdict
    percent: float
    baseline_ms: float
    basis: str
    low_percent: float | None = None
    high_percent: float | None = None
