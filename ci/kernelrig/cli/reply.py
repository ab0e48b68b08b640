"""What the body of a task returns: text for people, and the records that --json shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelrig.build.toolchain import Item
    from kernelrig.model import (
        Baselines,
        Build,
        CounterComparison,
        EmulatedProgram,
        Experiment,
        Explanation,
        HostRun,
        Run,
        RunEntry,
        SessionResult,
        SourceAnalysis,
        SweepResult,
        TimingAnalysis,
        Trend,
    )


@dataclass(frozen=True, slots=True)
class Reply:
    """`text` is what a terminal shows. The exit code is that of `run`, or else `exit_code`."""

    text: str = ""
    exit_code: int = 0
    run: Run | None = None
    builds: tuple[Build, ...] = ()
    baselines: tuple[Baselines, ...] = ()
    tools: tuple[Item, ...] = ()
    runs: tuple[RunEntry, ...] = ()
    on_host: tuple[HostRun, ...] = ()
    trends: tuple[Trend, ...] = ()
    phases: TimingAnalysis | None = None
    experiments: tuple[Experiment, ...] = ()
    counters: SourceAnalysis | None = None
    compared: CounterComparison | None = None
    explanation: Explanation | None = None
    program: EmulatedProgram | None = None
    sweep: SweepResult | None = None
    session: SessionResult | None = None
    tasks: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> int:
        if self.run is None:
            return self.exit_code
        from kernelrig.report import exit_code

        return exit_code(self.run)


def of_run(run: Run, body: str = "") -> Reply:
    """Return the reply of a task that made a run; `body` is what it shows besides the verdict."""
    from kernelrig.report import render_run

    return Reply(render_run(run, body), run=run)
