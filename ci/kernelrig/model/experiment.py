"""The notebook: what was tried on a kernel, what was expected of it, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Literal


class Rank(StrEnum):
    """How soon an experiment is worth its effort."""

    SHOULD_TRY = "should try"
    COULD_TRY = "could try"
    LAST_RESORT = "last resort"
    RULED_OUT = "ruled out"


class ExperimentState(StrEnum):
    """OPEN is to be done; PARKED waits for its re-open condition; CLOSED has its verdict."""

    OPEN = "open"
    PARKED = "parked"
    CLOSED = "closed"


class Size(StrEnum):
    """Of an effort or a risk."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Decision(StrEnum):
    """What the rule of an experiment says of its figures."""

    GO = "go"
    NO_GO = "no-go"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Experiment:
    """One hypothesis about a kernel: kernel/experiments/NAME.md, whose front matter this is.

    `expected_percent` is the change of `metric` that was estimated before, from least to most.
    `rule` is true where the figures say go. It names metrics of the result, and with `baseline.`
    before them those of the baseline. `observed` are these figures: a number, or the least and
    the most of several. `source` says where figures are from that no run of this notebook has.
    """

    name: str
    schema: Literal[1]
    title: str
    kernel: str
    arch: str
    state: ExperimentState
    rank: Rank
    hypothesis: str
    metric: str
    rule: str
    effort: Size
    risk: Size
    opened: date | None = None
    closed: date | None = None
    variant: str = "production"
    case: str = ""
    expected_percent: tuple[float, float] | None = None
    reopen: str = ""
    why_parked: str = ""
    baseline: str = ""
    result: str = ""
    commit: str = ""
    source: str = ""
    observed: dict[str, float | tuple[float, float]] = field(default_factory=dict)
    verdict: Decision | None = None
