"""Profiles: what a plan asks of ncu, and what a report holds of a launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class ProfileRule:
    """What numbers of a profile mean, and what to do then.

    `when` is an expression over the plan's metrics and values. `chips` are those that it is for;
    empty = every chip of the plan.
    """

    name: str
    when: str
    means: str
    do: str
    chips: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """One question to a profile: what is measured, over which launches, and what answers mean.

    `kernel` is a regular expression of the function's name; empty = the kernel's own. `values` are
    named expressions over the metrics. `on_chip` are further metrics of one chip; `chips` are those
    that the plan is for, empty = all. `launch_skip` is None for as many as the program warms up by.
    """

    name: str
    question: str
    hypothesis: str
    metrics: tuple[str, ...] = ()
    on_chip: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sections: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict)
    rules: tuple[ProfileRule, ...] = ()
    chips: tuple[str, ...] = ()
    kernel: str = ""
    launch_skip: int | None = None
    launch_count: int = 1
    replay: Literal["kernel", "application"] = "kernel"
    clocks: Literal["none", "base"] = "none"
    caches: Literal["all", "none"] = "all"
    options: dict[str, str | int] = field(default_factory=dict)
    schema: Literal[1] = 1

    def metrics_on(self, chip: str) -> tuple[str, ...]:
        """Return the metrics that it measures on `chip`."""
        return (*self.metrics, *self.on_chip.get(chip, ()))

    def rules_on(self, chip: str) -> tuple[ProfileRule, ...]:
        return tuple(r for r in self.rules if not r.chips or chip in r.chips)


@dataclass(frozen=True, slots=True)
class RuleResult:
    """Whether a rule fired on a profile: None if it could not be told, and why not.

    `numbers` are those that it compares, by the names it uses.
    """

    plan: str
    rule: ProfileRule
    fired: bool | None
    numbers: dict[str, float]
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class ProfileRun:
    """One run of the program under ncu, which answers several plans at once."""

    name: str
    plans: tuple[str, ...]
    kernel: str
    launch_skip: int
    launch_count: int
    replay: Literal["kernel", "application"]
    clocks: Literal["none", "base"]
    caches: Literal["all", "none"]
    options: dict[str, str | int]
    metrics: tuple[str, ...]
    sections: tuple[str, ...]

    @property
    def report(self) -> str:
        """The name of its report in the stage's folder."""
        return f"{self.name}.ncu-rep"


@dataclass(frozen=True, slots=True)
class Profiling:
    """What `profile` measures: its plans, and the runs of the program that they were merged into.

    `chip` is ncu's name of it (gb100 is in a B200, gh100 in an H200), `ncu` the version whose
    catalogue of metrics they were checked against, `before` the run that this one is compared with.
    """

    chip: str
    ncu: str
    plans: tuple[ProfilePlan, ...]
    runs: tuple[ProfileRun, ...]
    before: str = ""

    def plans_of(self, run: ProfileRun) -> Iterator[ProfilePlan]:
        return (plan for plan in self.plans if plan.name in run.plans)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a launch in its base unit; `by_pc` are its parts by the instruction's address.

    `value` is None where ncu has none, or one that is no finite number. `text` is for the few that
    are words.
    """

    name: str
    value: float | None
    unit: str = ""
    text: str = ""
    by_pc: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Advice:
    """What a rule of ncu's own says; `speedup_percent` is its estimate, None without one.

    `scope` says of what that is the gain: the whole launch (`global`) or a part of it (`local`).
    """

    rule: str
    kind: str
    title: str
    text: str
    speedup_percent: float | None = None
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A SASS instruction of a profiled kernel; `address` is absolute, as in `Metric.by_pc`."""

    address: int
    sass: str
    file: str = ""
    line: int = 0
    ptx: str = ""


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """A launch in a report. `kernel` is the function's bare name, `signature` as it was declared.

    `instructions` are in the order of their addresses; none where the report holds no code.
    """

    kernel: str
    signature: str
    metrics: dict[str, Metric]
    sections: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    instructions: tuple[Instruction, ...] = ()

    def values(self) -> dict[str, float]:
        """Return the numbers by the metrics' names."""
        return {n: m.value for n, m in self.metrics.items() if m.value is not None}


def merge_values(launches: Iterable[ProfiledLaunch]) -> dict[str, float]:
    """Return the numbers of several launches by the metrics' names: the mean where several agree.

    Runs of one program measure different metrics of the same launch.
    """
    found: dict[str, list[float]] = {}
    for launch in launches:
        for name, value in launch.values().items():
            found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}


PROFILE_FIGURES = "profile-figures.json"


@dataclass(frozen=True, slots=True)
class ProfileFigures:
    """profile-figures.json of a run: the numbers of a profile that passed, by the metrics' names.

    They are in ncu's base units. The history and the rules of experiments read them here: a report
    needs a library of NVIDIA's to be read.
    """

    run: str
    stage: str
    values: dict[str, float]
    units: dict[str, str]
    schema: int = 1


def profile_figures(run: str, stage: str, launches: Iterable[ProfiledLaunch]) -> ProfileFigures:
    """Return the numbers of the launches of a profile; the mean where several have a metric."""
    held = tuple(launches)
    metrics = {name: m for launch in held for name, m in launch.metrics.items()}
    values = merge_values(held)
    return ProfileFigures(
        run, stage, values, {n: metrics[n].unit for n in values if metrics[n].unit}
    )
