"""The JSON document that a task prints with --json: one shape for every task, errors too.

schemas/answer.schema.json is made from these records (`python -m kernelrig.config`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from kernelrig.cli.reply import Reply
from kernelrig.errors import BuildError, CiError
from kernelrig.model import Build, Finding, Outcome, Run, StageRecord


class Word(StrEnum):
    """How a task ended."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class FindingAnswer:
    """One finding of a check."""

    stage: str
    check: str
    tool: str
    kind: str
    message: str
    kernel: str
    file: str
    line: int
    threads: str
    count: int
    fingerprint: str
    accepted: str


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """One check of a stage: a case of the JUnit report."""

    name: str
    verdict: Outcome
    summary: str
    evidence: tuple[str, ...]


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
    """The run that a task made or went on with."""

    id: str
    folder: str
    kernel: str
    arch: str
    variant: str
    remote: str
    missing: tuple[str, ...]


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
class ToolAnswer:
    """One thing that `doctor` looked at."""

    name: str
    ok: bool
    text: str
    fix: str


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


@dataclass(frozen=True, slots=True)
class Answer:
    """What a task found, as one JSON document on stdout."""

    task: str
    exit_code: int
    verdict: Word
    run: RunAnswer | None = None
    stages: tuple[StageAnswer, ...] = ()
    findings: tuple[FindingAnswer, ...] = ()
    builds: tuple[BuildAnswer, ...] = ()
    tools: tuple[ToolAnswer, ...] = ()
    tasks: tuple[TaskAnswer, ...] = ()
    text: str = ""
    error: ErrorAnswer | None = None
    next_step: str = ""
    schema: Literal[1] = 1


def answer_of(task: str, reply: Reply) -> Answer:
    run = reply.run
    return Answer(
        task=task,
        exit_code=reply.code,
        verdict=_word(reply),
        run=_run(run) if run else None,
        stages=tuple(map(_stage, run.stages)) if run else (),
        findings=tuple(_findings(run.stages)) if run else (),
        builds=tuple(map(_build, reply.builds)),
        tools=tuple(ToolAnswer(i.name, i.ok, i.text, "" if i.ok else i.mend) for i in reply.tools),
        tasks=tuple(TaskAnswer(name, text) for name, text in reply.tasks.items()),
        text=reply.text,
        next_step=_next_step(run) if run else "",
    )


def answer_of_error(task: str, error: CiError) -> Answer:
    """Return the answer of a task that could not go on."""
    details = error.details if isinstance(error, BuildError) else ""
    word = Word.INCOMPLETE if error.exit_code == 6 else Word.ERROR
    said = ErrorAnswer(error.message, error.hint, details)
    return Answer(task=task, exit_code=error.exit_code, verdict=word, error=said)


def to_document(answer: Answer) -> str:
    from kernelrig.files.serialization import to_json

    return to_json(answer)


def _word(reply: Reply) -> Word:
    if reply.run is None:
        words = {0: Word.PASS, 1: Word.FAIL, 6: Word.INCOMPLETE}
        return words.get(reply.exit_code, Word.ERROR)
    from kernelrig.report.outcome import is_incomplete, run_outcome

    outcome = run_outcome(reply.run)
    if outcome is not Outcome.FAIL and is_incomplete(reply.run):
        return Word.INCOMPLETE
    # Nothing was run, so nothing is known: the exit code is that of an error.
    return Word.ERROR if outcome is Outcome.SKIP else Word(outcome.value)


def _next_step(run: Run) -> str:
    from kernelrig.report.markdown import next_command

    return next_command(run)


def _run(run: Run) -> RunAnswer:
    from kernelrig.run.store import RUNS

    remote = run.remote.name if run.remote else ""
    place = (RUNS / run.id).as_posix()
    return RunAnswer(run.id, place, run.kernel.name, run.arch, run.variant, remote, run.missing)


def _stage(stage: StageRecord) -> StageAnswer:
    checks = tuple(
        CheckAnswer(c.name, c.verdict.outcome, c.verdict.summary, c.verdict.evidence)
        for c in stage.checks
    )
    said = stage.verdict
    return StageAnswer(
        name=stage.name,
        kind=stage.kind,
        device=stage.device,
        machine=stage.machine,
        verdict=_joined(stage),
        summary=said.summary,
        evidence=said.evidence,
        seconds=stage.seconds,
        checks=checks,
    )


def _joined(stage: StageRecord) -> Outcome:
    from kernelrig.model import combine
    from kernelrig.report.outcome import stage_verdicts

    return combine(stage_verdicts(stage))


def _findings(stages: Iterable[StageRecord]) -> Iterable[FindingAnswer]:
    for stage in stages:
        for check in stage.checks:
            for finding in check.findings:
                yield _finding(stage.name, check.name, finding)


def _finding(stage: str, check: str, f: Finding) -> FindingAnswer:
    return FindingAnswer(
        stage=stage,
        check=check,
        tool=f.tool,
        kind=f.kind,
        message=f.message,
        kernel=f.kernel,
        file=f.file,
        line=f.line,
        threads=f.threads,
        count=f.count,
        fingerprint=f.fingerprint,
        accepted=f.accepted,
    )


def _build(build: Build) -> BuildAnswer:
    first = build.resources[0] if build.resources else None
    spills = first.spill_store_bytes + first.spill_load_bytes if first else None
    return BuildAnswer(
        kernel=build.kernel,
        arch=build.arch,
        variant=build.variant,
        folder=str(build.folder),
        key=build.key,
        reused=build.reused,
        compile_s=build.compile_s,
        registers=first.registers if first else None,
        spill_bytes=spills,
        shared_bytes=first.shared_bytes if first else None,
    )
