"""The verdict on an emulated program: its own end and output, and what was found in its launches.

A pass needs all of: the program ended as it must, at least one launch was observed, every launch
reached its end in every schedule, and no observer of the stage has an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kernelrig.errors import ProtocolError
from kernelrig.files.serialization import from_json
from kernelrig.findings import Acceptance, describe
from kernelrig.model import (
    FULL,
    Check,
    Command,
    Finding,
    Kernel,
    Stage,
    StageJob,
    StageRecord,
    StageResult,
    Verdict,
    broken,
    failed,
    passed,
    unreadable,
)
from kernelrig.stages.context import Context
from kernelrig.stages.emulation.command import RUN
from kernelrig.stages.emulation.findings import acceptance, emulated_findings
from kernelrig.stages.emulation.findings_file import SPLIT, Found, judge_emulator
from kernelrig.stages.emulation.reader import NOTE
from kernelrig.stages.harness.ended import judge_missing
from kernelrig.stages.plain.emulated_program import PART, emulated_start
from kernelrig.stages.plain.reader import judge_exit_status, judge_patterns
from kernelrig.stages.record import find_command, stage_record

ERRORS_OF_HOST = ("host-access", "stream-race")
MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class SeenLaunch:
    """A launch of the program; `others` are what the observers of other stages found."""

    number: int
    place: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    observed: bool
    ctas: int
    stopped: bool
    instructions: int
    differing: tuple[str, ...]
    findings: tuple[Found, ...]
    others: tuple[Found, ...] = ()

    @property
    def errors(self) -> tuple[Found, ...]:
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def whole(self) -> bool:
        return self.observed and not self.stopped and not self.ctas


@dataclass(frozen=True, slots=True)
class HostNote:
    """What the host code did, in one line: a call that failed, a copy of what nothing wrote."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class HowItRan:
    """What was asked of the emulator."""

    observed: tuple[str, ...]
    schedules: int
    seed: int
    engine: Literal["native", "numpy"]
    engine_note: str = ""


@dataclass(frozen=True, slots=True)
class SeenProgram:
    """The file of `python -m kernelrig.emu program`, or a part of it.

    `exit_code` is the program's own, -N for signal N; `verdict` what `kernelrig run` exits with.
    """

    exit_code: int
    verdict: int
    launches: tuple[SeenLaunch, ...]
    notes: tuple[HostNote, ...]
    run: HowItRan
    split: tuple[str, ...] = ()
    schema: int = 1


def read_emulated_program(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge a stage's part of the run of a program that its case's stages share."""
    commands = {c.name: c for c in job.commands}
    ran = find_command(result, RUN)
    seconds = ran.seconds if ran else 0.0
    name = stage.tool or PART
    title = f"{stage.tool}: run" if stage.tool else f"{context.build.program} runs"
    seen = _read(name, commands, result, folder, context)
    if isinstance(seen, Verdict):
        return stage_record(stage, result, context, [Check(title, seen, seconds)], [_note(None)])
    review = acceptance(context)
    errors, warnings = _findings(seen, "error", context), _findings(seen, "warning", context)
    verdict = _judge_launches(name, seen, errors)
    where = folder / commands[name].argv[commands[name].argv.index(SPLIT) + 1]
    if not stage.tool:
        verdict = _judge_end(seen, where.parent, verdict, context)
    checks = [Check(title, verdict, seconds, facts=_facts(seen))]
    if not stage.tool and (output := judge_patterns(where.parent, RUN, context)):
        checks.append(Check("output", output))
    checks += [_finding_check(f, name, review) for f in errors]
    notes = [
        _note(seen),
        *_case_note(stage, context.kernel),
        *(f"{name} warns: {describe(f)}" for f in warnings),
    ]
    if not stage.tool:
        said = dict.fromkeys(note.text for note in seen.notes)
        notes += [f"host code: {text}" for text in list(said)[:MOST_NOTES]]
    return stage_record(stage, result, context, checks, notes)


def _read(
    name: str,
    commands: dict[str, Command],
    result: StageResult,
    folder: Path,
    context: Context,
) -> SeenProgram | Verdict:
    """Return the stage's part, or the error that says why it is not known."""
    part = commands.get(name)
    if part is None:
        return broken(f"{name} was planned, and the journal has no record of it")
    whole_path = folder / part.argv[part.argv.index(SPLIT) + 1]
    if RUN not in commands and not whole_path.is_file():
        return broken(f"stage {whole_path.parent.name} left no {whole_path.name} of the program")
    for command in (commands.get(RUN), part):
        if command is None:
            continue
        ended = find_command(result, command.name)
        if ended is None:
            return judge_missing(command)
        # A program that launches nothing, or whose launches are unobserved, leaves its file too.
        left = ended.exit_code == 2 and (folder / f"{command.name}.json").is_file()
        if not left and (verdict := judge_emulator(command, ended, folder)) is not None:
            return verdict
    try:
        seen = from_json(SeenProgram, folder / f"{name}.json")
        whole = from_json(SeenProgram, whole_path)
    except ProtocolError as e:
        return unreadable(e.message)
    wanted = tuple(part.argv[part.argv.index("--observe") + 1].split(","))
    if missing := sorted(set(wanted) - set(seen.run.observed)):
        return broken(f"the emulator has no observer for {', '.join(missing)}")
    if tuple(seen.split) != wanted or _without_parts(seen) != _without_parts(whole):
        return broken(f"{name}.json is a part of another emulation than {whole_path.name}")
    if (ended := find_command(result, name)) and ended.exit_code != int(_has_errors(seen)):
        return broken(f"{name}.json is not what the emulator exited {ended.exit_code} for")
    return seen


def _without_parts(seen: SeenProgram) -> tuple[object, ...]:
    """Return what a part shares with the whole: everything but which findings are set aside."""
    found = tuple(
        (
            replace(launch, findings=(), others=()),
            sorted(repr(replace(f, cause=None)) for f in (*launch.findings, *launch.others)),
        )
        for launch in seen.launches
    )
    return (seen.exit_code, seen.verdict, found, seen.notes, seen.run)


def _has_errors(seen: SeenProgram) -> bool:
    return any(launch.errors for launch in seen.launches)


def _findings(seen: SeenProgram, severity: str, context: Context) -> tuple[Finding, ...]:
    """Return each finding once, with the launches that it was seen in."""
    kept: dict[str, Finding] = {}
    numbers: dict[str, list[int]] = {}
    for launch in seen.launches:
        wanted = [f for f in launch.findings if f.severity == severity]
        for finding in emulated_findings(launch, wanted, context) if wanted else ():
            key = f"{launch.kernel} {finding.fingerprint}"
            old = kept.get(key)
            again = replace(old, count=old.count + finding.count) if old else finding
            kept[key] = replace(again, kernel=launch.kernel)
            numbers.setdefault(key, []).append(launch.number)
    return tuple(
        replace(f, threads=", ".join(filter(None, (f.threads, _launches(numbers[key])))))
        for key, f in kept.items()
    )


def _launches(numbers: Sequence[int]) -> str:
    first, *more = numbers
    return f"launch {first}" + (f" and {len(more)} more" if more else "")


def _judge_launches(name: str, seen: SeenProgram, found: Sequence[Finding]) -> Verdict:
    """Judge whether every launch was observed to its end; each finding is a check of its own."""
    if not any(launch.observed for launch in seen.launches):
        return broken("no kernel was checked: no launch was observed")
    how = f"{_counted(seen)} in {seen.run.schedules} schedules each"
    if any(not f.accepted for f in found):
        return passed(f"{name}: {len(found)} findings in {how}")
    cut = next((launch for launch in seen.launches if not launch.whole), None)
    if cut is not None:
        said = f"launch {cut.number}, {cut.kernel}, did not reach its end in every schedule"
        why = next((f"{f.kind}: {f.message}" for f in (*cut.findings, *cut.others)), "")
        return broken(f"{name}: {said}: what comes after was not observed", why)
    accepted = f"{len(found)} findings, all accepted" if found else "nothing found"
    return passed(f"{name}: {accepted} in {how}")


def _judge_end(seen: SeenProgram, where: Path, launched: Verdict, context: Context) -> Verdict:
    """Judge the program's own end and output, then its launches, then what else `run` minds."""
    touched = [note.text for note in seen.notes if note.kind in ERRORS_OF_HOST]
    if touched:
        return failed(touched[0], *touched[1:])
    ended = judge_exit_status(seen.exit_code, where, RUN, context)
    if ended.outcome != "pass":
        return replace(ended, evidence=(*ended.evidence, *(n.text for n in seen.notes[:5])))
    if launched.outcome != "pass":
        return launched
    found = any(f.severity == "error" for x in seen.launches for f in (*x.findings, *x.others))
    if seen.verdict and not found:
        said = [n.text for n in seen.notes]
        first = said[0] if said else f"`kernelrig run` would exit {seen.verdict}"
        return failed(f"the emulated program did not pass: {first}", *said[1:MOST_NOTES])
    how = f"{_counted(seen)} in {seen.run.schedules} schedules each"
    return passed(f"{ended.summary}, {how}", *ended.evidence)


def _counted(seen: SeenProgram) -> str:
    count = sum(launch.observed for launch in seen.launches)
    kernels = list(dict.fromkeys(launch.kernel for launch in seen.launches if launch.observed))
    of = f" of {kernels[0]}" if len(kernels) == 1 else f" of {len(kernels)} kernels"
    return f"{count} launch{'' if count == 1 else 'es'}{of}"


def _finding_check(finding: Finding, name: str, review: Acceptance) -> Check:
    return review.check(finding, name)


def _facts(seen: SeenProgram) -> dict[str, str]:
    run = seen.run
    return {
        "launches": _counted(seen),
        "schedules": f"{run.schedules} from seed {run.seed}",
        "engine": f"{run.engine} ({run.engine_note})" if run.engine_note else run.engine,
        "observed": ", ".join(run.observed),
        "warp-instructions": str(sum(launch.instructions for launch in seen.launches)),
    }


def _case_note(stage: Stage, kernel: Kernel) -> Iterator[str]:
    if (started := emulated_start(stage, kernel)) != stage.case:
        yield f"{stage.case or FULL} is for a GPU: case {started} was emulated in its place"


def _note(seen: SeenProgram | None) -> str:
    return f"emulated{f', engine {seen.run.engine}' if seen else ''}: {NOTE}"
