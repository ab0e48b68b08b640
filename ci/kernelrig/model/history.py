"""The history of runs: what is remembered of each, and the figures that it observed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Observed:
    """One figure of a run: `value`, and the spread from `low` to `high` that was seen with it.

    A unit stands in the name of the metric (time_ms), or in `unit` where a tool named the metric.
    `samples` are those that the value is the median of; 0 = it is no statistic. `subject` is the
    candidate of a bench, empty for the run's own build. `host_class` is empty for what was read
    from the build, and runs nowhere. `dirty` builds had changes on top of their `commit`.
    """

    metric: str
    value: float
    low: float
    high: float
    unit: str = ""
    samples: int = 0
    stage: str = ""
    subject: str = ""
    kernel: str = ""
    arch: str = ""
    variant: str = ""
    case: str = ""
    regime: str = ""
    host_class: str = ""
    card: str = ""
    commit: str = ""
    dirty: bool = False
    build: str = ""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """What the history holds of a run; `word` is the run in the words of its reports.

    `problem` is why its run.json says nothing that counts: it is damaged, or was changed.
    """

    id: str
    started_utc: str = ""
    finished_utc: str = ""
    task: str = ""
    kernel: str = ""
    arch: str = ""
    variant: str = ""
    remote: str = ""
    plan: str = ""
    devices: str = ""
    state: str = ""
    outcome: str = ""
    word: str = ""
    commit: str = ""
    dirty: bool = False
    problem: str = ""
    observed: tuple[Observed, ...] = ()


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """The values of one metric at one commit: the median of the runs' values, and their spread.

    Of one run the spread is the one within it; `runs` are their ids, in the order of their start.
    `build` is given where a commit does not say what was built: on a tree with changes.
    """

    commit: str
    dirty: bool
    build: str
    started_utc: str
    value: float
    low: float
    high: float
    runs: tuple[str, ...]
    cards: int


@dataclass(frozen=True, slots=True)
class Trend:
    """The values of a metric over commits, of one kernel on one class of hosts."""

    metric: str
    unit: str
    kernel: str
    arch: str
    variant: str
    case: str
    regime: str
    host_class: str
    points: tuple[TrendPoint, ...] = ()
