"""The document of --json, made of the reply or the error of a task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kernelrig.cli.answer import (
    Answer,
    BaselineAnswer,
    BuildAnswer,
    CheckAnswer,
    Ending,
    ErrorAnswer,
    FoundBy,
    RunAnswer,
    StageAnswer,
    TaskAnswer,
    ToolAnswer,
)
from kernelrig.cli.reply import Reply
from kernelrig.errors import BuildError, CiError, IncompleteError
from kernelrig.files.serialization import to_json
from kernelrig.model import Baselines, Build, EmulatedProgram, Outcome, Run, StageRecord, combine
from kernelrig.report.next_step import next_command
from kernelrig.report.outcome import (
    is_incomplete,
    own_verdict,
    run_outcome,
    run_word,
    shown_name,
    stage_verdicts,
)

if TYPE_CHECKING:
    from kernelrig.build.toolchain import Item

RUNS = "artifacts/runs"


def reply_document(task: str, reply: Reply) -> str:
    """Return the document of a task that returned `reply`."""
    run = reply.run
    answer = Answer(
        task=task,
        exit_code=reply.code,
        verdict=_ending(reply),
        run=_run(run) if run else None,
        stages=tuple(map(_stage, run.stages)) if run else (),
        findings=tuple(_findings(run.stages) if run else _launch_findings(reply.program)),
        builds=tuple(map(_build, reply.builds)),
        baselines=tuple(_baselines(reply.baselines)),
        tools=tuple(map(_tool, reply.tools)),
        runs=reply.runs,
        on_host=reply.on_host,
        trends=reply.trends,
        experiments=reply.experiments,
        tasks=tuple(TaskAnswer(name, text) for name, text in reply.tasks.items()),
        phases=reply.phases,
        counters=reply.counters,
        compared=reply.compared,
        explanation=reply.explanation,
        program=reply.program,
        sweep=reply.sweep,
        session=reply.session,
        text="" if reply.explanation else reply.text,
        next_step=next_command(run) if run else "",
    )
    return to_json(answer)


def error_document(task: str, error: CiError, folder: str = "") -> str:
    """Return the document of a task that raised `error`; `folder` is its run directory, if any."""
    details = error.details if isinstance(error, BuildError) else ""
    answer = Answer(
        task=task,
        exit_code=error.exit_code,
        verdict=Ending.INCOMPLETE if isinstance(error, IncompleteError) else Ending.ERROR,
        error=ErrorAnswer(error.message, error.hint, details, folder),
    )
    return to_json(answer)


def _ending(reply: Reply) -> Ending:
    if reply.run is None:
        known = {0: Ending.PASS, 1: Ending.FAIL, IncompleteError.exit_code: Ending.INCOMPLETE}
        return known.get(reply.exit_code, Ending.ERROR)
    outcome = run_outcome(reply.run)
    if outcome is not Outcome.FAIL and is_incomplete(reply.run):
        return Ending.INCOMPLETE
    return Ending(outcome.value)


def _launch_findings(program: EmulatedProgram | None) -> Iterable[FoundBy]:
    """Return the errors of a program's launches; its warnings are with the launches alone."""
    for launch in program.launches if program else ():
        for found in launch.findings:
            if found.severity == "error":
                yield FoundBy(f"launch {launch.number}", launch.kernel, found.finding)


def _run(run: Run) -> RunAnswer:
    remote = run.remote.name if run.remote else ""
    folder = f"{RUNS}/{run.id}"
    own = own_verdict(run)
    return RunAnswer(
        run.id,
        folder,
        run.kernel.name,
        run.arch,
        run.variant,
        remote,
        run.missing,
        only=run.only,
        word=run_word(run),
        not_established=own.verdict.summary if own else "",
    )


def _stage(stage: StageRecord) -> StageAnswer:
    return StageAnswer(
        name=shown_name(stage),
        kind=stage.kind,
        device=stage.device,
        machine=stage.machine,
        verdict=combine(stage_verdicts(stage)),
        summary=stage.verdict.summary,
        evidence=stage.verdict.evidence,
        seconds=stage.seconds,
        checks=tuple(
            CheckAnswer(c.name, c.verdict.outcome, c.verdict.summary, c.verdict.evidence, c.facts)
            for c in stage.checks
        ),
    )


def _findings(stages: Iterable[StageRecord]) -> Iterable[FoundBy]:
    for stage in stages:
        for check in stage.checks:
            for finding in check.findings:
                yield FoundBy(stage.name, check.name, finding)


def _build(build: Build) -> BuildAnswer:
    first = build.resources[0] if build.resources else None
    return BuildAnswer(
        kernel=build.kernel,
        arch=build.arch,
        variant=build.variant,
        folder=str(build.folder),
        key=build.key,
        reused=build.reused,
        compile_s=build.compile_s,
        registers=first.registers if first else None,
        spill_bytes=build.spill_bytes,
        shared_bytes=first.shared_bytes if first else None,
    )


def _baselines(files: Iterable[Baselines]) -> Iterable[BaselineAnswer]:
    for file in files:
        for held in file.baselines.values():
            yield BaselineAnswer(
                host_class=str(file.host_class),
                kernel=held.kernel,
                arch=held.arch,
                variant=held.variant,
                case=held.case,
                regime=held.regime,
                build=held.build,
                median_ms=tuple(run.median_ms for run in held.runs),
                runs=tuple(run.run for run in held.runs),
            )


def _tool(item: Item) -> ToolAnswer:
    level = item.level or ("ok" if item.ok else "missing")
    return ToolAnswer(item.name, item.ok, item.text, "" if level == "ok" else item.fix, level)
