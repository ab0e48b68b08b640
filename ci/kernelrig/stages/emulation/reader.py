"""The verdict on an emulation: its findings by kind, and its outputs element by element.

A pass needs all of: the emulator ran to its end, on the PTX, the schedules and the observers that
were asked for; its file of findings is complete; every output of every schedule is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig.findings import Acceptance, describe
from kernelrig.model import (
    STOPPED_SCHEDULES,
    Case,
    Check,
    Command,
    Finding,
    Pattern,
    Stage,
    StageJob,
    StageRecord,
    StageResult,
    Verdict,
    WrongTiles,
    broken,
    failed,
    passed,
    unreadable,
)
from kernelrig.stages.checksum.command import check_runs
from kernelrig.stages.checksum.declared_outputs import judge_files
from kernelrig.stages.checksum.every_output import WrongOutput, judge_output
from kernelrig.stages.context import Context, case_text, stage_case
from kernelrig.stages.emulation.command import PATTERN, RUN, emulated_case, output_names
from kernelrig.stages.emulation.findings import acceptance, emulated_findings
from kernelrig.stages.emulation.findings_file import Emulated, Found, read_emulated
from kernelrig.stages.record import find_command, stage_record

NOTE = "results and ordering are modelled, time is not; not measured on any GPU"


def read_emulated_checksum(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge each pattern and seed on its own: what was found, and every output."""
    commands = {c.name: c for c in job.commands}
    case = _case(stage, context)
    checks = []
    for name, pattern, seed in check_runs(stage):
        title = f"{pattern.value} seed {seed}, {case_text(case)}"
        command, ended = commands.get(name), find_command(result, name)
        if command is None:
            lost = broken(f"{name} was planned, and the journal has no record of it")
            checks.append(Check(title, lost))
            continue
        seen = read_emulated(command, ended, folder, context)
        seconds = ended.seconds if ended else 0.0
        if isinstance(seen, Verdict):
            checks.append(Check(title, seen, seconds))
        else:
            launch = (case, pattern, context.seed(seed))
            checks.append(_check(title, seen, launch, seen.errors, folder, context, seconds))
    return _record(stage, result, context, checks)


def read_emulated_sanitizer(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge the findings of the stage's own kinds; and the outputs, if the stage ran the launch."""
    commands = {c.name: c for c in job.commands}
    checks = []
    if RUN in commands:
        checks.append(_judge_shared(stage, commands[RUN], result, folder, context))
    ended, command = find_command(result, stage.tool), commands.get(stage.tool)
    title = f"{stage.tool}: run"
    if command is None:
        verdict = broken(f"{stage.tool} was planned, and the journal has no record of it")
        return _record(stage, result, context, [*checks, Check(title, verdict)])
    seen = read_emulated(command, ended, folder, context)
    if isinstance(seen, Verdict):
        return _record(stage, result, context, [*checks, Check(title, seen)])
    review, found = acceptance(context), emulated_findings(seen, seen.errors, context)
    checks.append(Check(title, _judge_part(stage, seen, found), facts=facts(seen)))
    checks += [_finding_check(f, stage, review) for f in found]
    warnings = [f for f in seen.findings if f.severity == "warning"]
    warned = [
        f"{stage.tool} warns: {describe(f)}" for f in emulated_findings(seen, warnings, context)
    ]
    return _record(stage, result, context, checks, warned)


def _record(
    stage: Stage,
    result: StageResult,
    context: Context,
    checks: Sequence[Check],
    more: Sequence[str] = (),
) -> StageRecord:
    notes = (*_notes(stage, context, checks), *more)
    return stage_record(stage, result, context, checks, notes)


def facts(seen: Emulated, pattern: Pattern = PATTERN) -> dict[str, str]:
    unchecked = seen.stats.get("unchecked_rows")
    unchecked = unchecked if isinstance(unchecked, list) else []
    note = seen.run.engine_note
    stopped = {} if seen.cut else {STOPPED_SCHEDULES: ", ".join(map(str, seen.run.stopped))}
    return {
        "pattern": pattern.value,
        "schedules": f"{seen.run.schedules} from seed {seen.run.seed}",
        "accumulate": seen.run.accumulate,
        "engine": f"{seen.run.engine} ({note})" if note else seen.run.engine,
        "observed": ", ".join(seen.run.observed),
        "warp-instructions": str(seen.stats.get("instructions", "unknown")),
        "instructions never compared with hardware": ", ".join(map(str, unchecked)) or "none",
        **(stopped if seen.run.stopped else {}),
    }


def judge_outputs(
    seen: Emulated, launch: tuple[Case, Pattern, int], folder: Path, context: Context
) -> tuple[Verdict, WrongTiles | None]:
    """Judge what each schedule left in C, every element of it; say where the first wrong one is."""
    if seen.lost:
        return broken(seen.lost), None
    for output in output_names(context.kernel):
        files = seen.run.dumps.get(output, ())
        if len(files) != seen.run.schedules:
            return unreadable(f"{len(files)} outputs for {seen.run.schedules} schedules"), None
        for number, name in enumerate(files):
            if name in files[:number]:
                continue
            if Path(name).name != name:
                return unreadable(f"{name} is no file of the stage's own folder"), None
            if wrong := _judge_output(output, folder / name, launch, context):
                said = f"schedule {number}: {wrong.verdict.summary}"
                return replace(wrong.verdict, summary=said), wrong.tiles
    return passed(f"all elements right in {seen.run.schedules} schedules"), None


def _judge_output(
    output: str, file: Path, launch: tuple[Case, Pattern, int], context: Context
) -> WrongOutput | None:
    if context.kernel.is_operation:
        return judge_files({output: file}, *launch, context)
    return judge_output(file, *launch, context)


def _check(
    title: str,
    seen: Emulated,
    launch: tuple[Case, Pattern, int],
    errors: Sequence[Found],
    folder: Path,
    context: Context,
    seconds: float,
) -> Check:
    """Judge an emulation by `errors` and its outputs; a step limit alone is an error of the run."""
    wanted = [f for f in errors if f.kind != "step-limit"]
    found = emulated_findings(seen, wanted, context)
    outputs, wrong = judge_outputs(seen, launch, folder, context)
    if faults := [f for f in found if not f.accepted]:
        first, *more = map(describe, faults)
        verdict = failed(first, *more, outputs.summary)
    elif seen.cut:
        limit = next(f.message for f in seen.findings if f.kind == "step-limit")
        verdict = broken(f"cut at its step limit: {limit}; a smaller case may end")
    elif seen.run.stopped and found:
        verdict = broken(f"schedule {seen.run.stopped[0]} stopped at an accepted finding")
    elif seen.run.stopped and not errors and not seen.errors:
        verdict = broken(f"schedule {seen.run.stopped[0]} stopped, and no finding says why")
    else:
        verdict = outputs
    said = facts(seen, launch[1])
    return Check(title, verdict, seconds, findings=found, facts=said, wrong=wrong)


def _judge_shared(
    stage: Stage, command: Command, result: StageResult, folder: Path, context: Context
) -> Check:
    """Judge the emulation that several stages share by its outputs and mismatches."""
    launch = (_case(stage, context), PATTERN, context.seed(stage.seeds[0]))
    title = f"{PATTERN.value} seed {stage.seeds[0]}, {case_text(launch[0])}: outputs"
    ended = find_command(result, RUN)
    seen = read_emulated(command, ended, folder, context)
    seconds = ended.seconds if ended else 0.0
    if isinstance(seen, Verdict):
        return Check(title, seen, seconds)
    shared = [f for f in seen.errors if f.kind == "mismatch"]
    check = _check(title, seen, launch, shared, folder, context, seconds)
    if seen.run.stopped and not shared and not seen.cut:
        number = seen.run.stopped[0]
        why = next((f.kind for f in seen.errors if f.schedule == number), "no finding says why")
        verdict = broken(f"schedule {number} did not reach the end of the launch: {why}")
        return replace(check, verdict=verdict)
    return check


def _judge_part(stage: Stage, seen: Emulated, found: Sequence[Finding]) -> Verdict:
    """Judge whether the observer saw the whole launch; each finding is a check of its own."""
    if any(not f.accepted for f in found):
        return passed(
            f"{stage.tool}: {len(seen.errors)} findings in {seen.run.schedules} schedules"
        )
    if seen.lost:
        return broken(f"{stage.tool}: {_found(seen)}, but {seen.lost}")
    if seen.run.stopped:
        ended = ", ".join(map(str, seen.run.stopped))
        return broken(
            f"{stage.tool}: {_found(seen)}, but schedules {ended} stopped before the launch's end:"
            " what comes after was not observed"
        )
    return passed(f"{stage.tool}: {_found(seen)} in {seen.run.schedules} schedules")


def _found(seen: Emulated) -> str:
    return f"{len(seen.errors)} findings, all accepted" if seen.errors else "nothing found"


def _finding_check(finding: Finding, stage: Stage, review: Acceptance) -> Check:
    check = review.check(finding, stage.tool)
    return replace(check, facts={**check.facts, "pattern": PATTERN.value})


def _case(stage: Stage, context: Context) -> Case:
    return emulated_case(context.kernel, stage) or stage_case(context.kernel, stage)


def _notes(stage: Stage, context: Context, checks: Sequence[Check]) -> tuple[str, ...]:
    """Return what a report says beside the checks: the engine that ran them, and the case."""
    engines = dict.fromkeys(c.facts["engine"] for c in checks if "engine" in c.facts)
    asked, case = stage_case(context.kernel, stage), _case(stage, context)
    by = f", engine {' and '.join(engines)}" if engines else ""
    note = f"emulated{by}: {NOTE}"
    if asked == case:
        return (note,)
    return (note, f"{case_text(asked)} is too large to emulate: {case_text(case)} in its place")
