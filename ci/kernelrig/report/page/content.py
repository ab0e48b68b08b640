"""What a page shows of a run, besides its record: read from the run directory, computed elsewhere.

What a run does not have is empty or None, and the page says so in a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelrig.model import (
    Explanation,
    Run,
    SourceAnalysis,
    SourceCounters,
    TimingAnalysis,
    Trend,
)


@dataclass(frozen=True, slots=True)
class TimedSamples:
    """The samples of a timing stage that ran on a GPU, in the order in which they were taken."""

    stage: str
    case: str
    regime: str
    samples_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """A run, and what its page shows of its measurements.

    `trends` are of the run's time up to this run. `sources` has the lines of the files that
    counters name. `absent` says why a part is not there, by the part's name.
    """

    run: Run
    timed: tuple[TimedSamples, ...] = ()
    trends: tuple[Trend, ...] = ()
    phases: tuple[tuple[str, TimingAnalysis], ...] = ()
    explanation: Explanation | None = None
    counters: SourceCounters | None = None
    source: SourceAnalysis | None = None
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
