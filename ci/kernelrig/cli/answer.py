"""The JSON document that a task prints with --json: one shape for every task, errors too.

schemas/answer.schema.json is made from these records (`python -m kernelrig.cli.answer_schema`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from kernelrig.model import (
    CounterComparison,
    EmulatedProgram,
    Experiment,
    Explanation,
    Finding,
    HostRun,
    Outcome,
    RunEntry,
    SessionResult,
    SourceAnalysis,
    SweepResult,
    TimingAnalysis,
    Trend,
)


class Ending(StrEnum):
    """How a task ended: pass, fail (the kernel's fault), error (ours or the host's), incomplete."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class FoundBy:
    """A finding, and the stage and the check of it that reported it."""

    stage: str
    check: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """One check of a stage: a case of the JUnit report."""

    name: str
    verdict: Outcome
    summary: str
    evidence: tuple[str, ...]
    facts: dict[str, str]


@dataclass(frozen=True, slots=True)
class StageAnswer:
    """One stage of a run."""

    name: str
    kind: str
    device: str
    machine: str
    verdict: Outcome
    summary: str
    evidence: tuple[str, ...]
    seconds: float
    checks: tuple[CheckAnswer, ...]


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """The run that a task made or went on with.

    `only` are the stages that --only left of its plan. `word` is its first line: `pass, of smoke
    only`. `not_established` says why a run without a fault is an error.
    """

    id: str
    folder: str
    kernel: str
    arch: str
    variant: str
    remote: str
    missing: tuple[str, ...]
    only: tuple[str, ...] = ()
    word: str = ""
    not_established: str = ""


@dataclass(frozen=True, slots=True)
class BuildAnswer:
    """One build."""

    kernel: str
    arch: str
    variant: str
    folder: str
    key: str
    reused: bool
    compile_s: float
    registers: int | None
    spill_bytes: int | None
    shared_bytes: int | None


@dataclass(frozen=True, slots=True)
class BaselineAnswer:
    """One reviewed baseline."""

    host_class: str
    kernel: str
    arch: str
    variant: str
    case: str
    regime: str
    build: str
    median_ms: tuple[float, ...]
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """One thing that `doctor` looked at."""

    name: str
    ok: bool
    text: str
    fix: str
    level: str = ""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """One task of `--list`."""

    name: str
    summary: str


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """What ended a task before it had a result."""

    message: str
    hint: str
    details: str
    folder: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a task found, as one JSON document on stdout."""

    task: str
    exit_code: int
    verdict: Ending
    run: RunAnswer | None = None
    stages: tuple[StageAnswer, ...] = ()
    findings: tuple[FoundBy, ...] = ()
    builds: tuple[BuildAnswer, ...] = ()
    baselines: tuple[BaselineAnswer, ...] = ()
    tools: tuple[ToolAnswer, ...] = ()
    runs: tuple[RunEntry, ...] = ()
    on_host: tuple[HostRun, ...] = ()
    trends: tuple[Trend, ...] = ()
    experiments: tuple[Experiment, ...] = ()
    tasks: tuple[TaskAnswer, ...] = ()
    phases: TimingAnalysis | None = None
    counters: SourceAnalysis | None = None
    compared: CounterComparison | None = None
    explanation: Explanation | None = None
    program: EmulatedProgram | None = None
    sweep: SweepResult | None = None
    session: SessionResult | None = None
    text: str = ""
    error: ErrorAnswer | None = None
    next_step: str = ""
    schema: Literal[1] = 1
