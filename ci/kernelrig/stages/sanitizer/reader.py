"""The verdict on a kernel from what compute-sanitizer printed and wrote.

A pass needs all of: the tool found its seeded bug on this host, exit code 0, a log of its own that
is whole and ends with one summary of zero, an XML record that is whole and empty, no complaint of
the tool's own, and a result file whose outputs, recomputed here, prove that the kernel ran under
the tool. No kernel filter is set: whatever the program launches is checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from kernelrig.errors import ProtocolError
from kernelrig.findings import Acceptance, Sources
from kernelrig.model import (
    Check,
    Command,
    CommandResult,
    EndedBy,
    Finding,
    Outcome,
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
from kernelrig.stages.chains import Chains
from kernelrig.stages.checksum.declared_outputs import judge_once
from kernelrig.stages.context import Context, stage_case
from kernelrig.stages.harness.assertion import read_assertions
from kernelrig.stages.harness.ended import judge_exit, judge_lost
from kernelrig.stages.harness.hang import WaitNames, describe_wait, read_triage
from kernelrig.stages.harness.result import Asked, find_mismatch, load_result
from kernelrig.stages.plain.reader import judge_exit_status, judge_patterns
from kernelrig.stages.record import (
    TAIL_LINES,
    find_command,
    log_tail,
    seconds_here,
    stage_record,
)
from kernelrig.stages.sanitizer.command import (
    ERROR_EXIT,
    LOG_FILE,
    PATTERN,
    SESSION,
    sanitizer_tool,
    selftest_name,
)
from kernelrig.stages.sanitizer.findings import make_findings
from kernelrig.stages.sanitizer.tool_log import Records, ToolLog, parse_log, parse_xml

NO_CUDA_EXIT = 255
MAX_LOG_BYTES = 64 << 20
"""More than --print-limit records have, and less than what fills a client's memory."""
TMEM_NOTE = "tensor memory not covered: compute-sanitizer does not check it"

SEEDED = {
    "memcheck": "Invalid __",
    "racecheck": "Race reported",
    "initcheck": "Uninitialized",
    "synccheck": "Barrier error",
}
"""What each tool prints of the seeded bug that is its own."""


def read_sanitizer(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge the tool by its self-test, the run by the tool, and each distinct finding by itself."""
    command = next((c for c in job.commands if c.name == stage.tool), None)
    tool = sanitizer_tool(context.host, context.remote)
    notes = [TMEM_NOTE]
    checks = [_selftest_check(stage, result, folder)]
    ended = find_command(result, stage.tool)
    if command is None or ended is None:
        verdict = broken(f"{stage.tool} was planned, and nothing says that it ran")
        checks.append(Check(f"{stage.tool}: run", verdict))
        return stage_record(stage, result, context, checks, notes)
    report = _read_output(stage, command, folder)
    review = Acceptance(stage.tool, tool.version, context.today, context.kernel.accepted)
    findings = [review.apply(f) for f in _findings(stage, report, context)]
    run = _judge_run(stage, command, ended, folder, context, report, findings)
    facts = {
        "tool": f"{tool.path} {tool.version}",
        "command": " ".join(command.argv),
        "exit code": str(ended.exit_code),
        "summary": report.log.summary or "none",
    }
    checks.append(Check(f"{stage.tool}: run", run, ended.seconds, facts=facts))
    checks += [review.check(f, stage.tool) for f in findings]
    if report.log.not_listed:
        notes.append(f"{report.log.not_listed} more records were not listed by the tool")
    return stage_record(stage, result, context, checks, (*notes, *review.unseen(findings)))


def _findings(stage: Stage, report: ToolOutput, context: Context) -> tuple[Finding, ...]:
    """Return the findings; one without a kernel is of the only one that `--mode once` launches."""
    kernel = context.kernel.kernel_regex if context.kernel.level else ""
    return make_findings(
        stage.tool,
        report.records.reports,
        Sources(context.build, context.source_root),
        context.kernel.sources[context.build.arch],
        kernel,
        Chains(context.build, kernel).resolve,
    )


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What the tool printed and its XML records; `unreadable` says why there are no records."""

    log: ToolLog
    records: Records
    unreadable: str = ""


def _read_output(stage: Stage, command: Command, folder: Path) -> ToolOutput:
    """Read the tool's log and XML; runs of before it wrote a log of its own have it in stdout."""
    alone = LOG_FILE in command.argv
    log = _log_path(stage, folder) if alone else folder / f"{stage.tool}.stdout.log"
    said, too_long = _read_bounded(log)
    xml, why = _read_bounded(folder / f"{stage.tool}.xml")
    parsed = parse_log(said or "", alone=alone)
    if too_long and log.is_file():
        parsed = replace(parsed, damage=too_long)
    if xml is None:
        return ToolOutput(parsed, Records(0, ()), f"{why}: the tool's records are not known")
    try:
        return ToolOutput(parsed, parse_xml(xml))
    except ProtocolError as e:
        return ToolOutput(parsed, Records(0, ()), e.message)


def _log_path(stage: Stage, folder: Path) -> Path:
    return folder / f"{stage.tool}.log"


def _read_bounded(path: Path) -> tuple[str | None, str]:
    """Return the text of a file that a tool wrote, or None and why it is not read."""
    if not path.is_file():
        return None, f"{path.name} is missing"
    if (size := path.stat().st_size) > MAX_LOG_BYTES:
        return None, f"{path.name} has {size} bytes, {MAX_LOG_BYTES} are read at most"
    return path.read_bytes().decode(errors="replace"), ""


def _tail(stage: Stage, command: Command, folder: Path) -> tuple[str, ...]:
    """Return the last lines of what the program and the tool said."""
    said, _ = _read_bounded(_log_path(stage, folder))
    last = [line.strip() for line in (said or "").split("\n") if line.strip()]
    return (*log_tail(folder, command.name), *last[-TAIL_LINES:])


def _judge_run(
    stage: Stage,
    command: Command,
    ended: CommandResult,
    folder: Path,
    context: Context,
    report: ToolOutput,
    findings: Sequence[Finding],
) -> Verdict:
    """Judge whether the tool ran to its end, and whether every error that it counted is listed."""
    log, tail = report.log, _tail(stage, command, folder)
    if ended.ended_by is EndedBy.TIME_LIMIT:
        return _judge_limit(command, folder, context)
    if ended.ended_by is not EndedBy.EXIT or ended.exit_code is None:
        return judge_lost(command, ended)
    if ended.exit_code == NO_CUDA_EXIT or log.total is None:
        why = log.complaints[0] if log.complaints else f"exit code {ended.exit_code}"
        return unreadable(f"{stage.tool} printed no summary ({why}): nothing is established", *tail)
    if log.summaries != 1:
        return unreadable(f"{log.summaries} summaries were printed, one is wanted")
    if log.damage:
        return unreadable(f"the log of {stage.tool} is damaged: {log.damage}", *tail)
    if log.summary.startswith("RACECHECK") != (stage.tool == "racecheck"):
        return unreadable(f"'{log.summary}' is no summary of {stage.tool}")
    if ended.exit_code not in (0, ERROR_EXIT):
        return _judge_death(stage, ended.exit_code, folder, context)
    if report.unreadable and log.total and ended.exit_code == ERROR_EXIT:
        return failed(f"{log.summary}, and no record says which: {report.unreadable}", *tail)
    if report.unreadable:
        return unreadable(report.unreadable)
    if SESSION in command.argv and (other := _other_session(command, report, context)):
        return broken(f"what {stage.tool} wrote is of another process: {other}")
    listed = report.records.count
    if log.total > listed and ended.exit_code == ERROR_EXIT:
        return failed(f"{log.summary}, of which {listed} are listed: the others are not known")
    if log.total != listed:
        return broken(f"{log.summary}, but {listed} records are listed")
    if ended.exit_code == ERROR_EXIT and not findings:
        return broken(f"{stage.tool} exits {ERROR_EXIT} and finds nothing", *tail)
    if any(not f.accepted for f in findings):
        return passed(f"{stage.tool} ran to its end: {log.summary}")
    if log.not_listed:
        return failed(f"{log.summary}, and {log.not_listed} more were not listed: they are unknown")
    if log.complaints:
        return broken(f"{stage.tool} says: {log.complaints[0]}")
    return _judge_proof(stage, folder, context) or passed(f"{stage.tool}: {log.summary}")


def _other_session(command: Command, report: ToolOutput, context: Context) -> str:
    """Return what log and XML say of another process than the command's, empty if of that one."""
    session = report.log.session
    if session is None or report.records.session != session:
        return "its log names none" if session is None else "its log and its XML name two"
    first = command.argv.index(SESSION) + 1
    program, *words = command.argv[first:]
    wanted = " ".join((PurePosixPath(program).name, *words))
    if not f"/{_unquoted(session.application)}".endswith(f"/{_unquoted(wanted)}"):
        return f"'{session.application}', not '{wanted}'"
    if context.host.driver and session.driver != context.host.driver:
        return f"driver {session.driver}, not {context.host.driver}"
    return ""


def _unquoted(text: str) -> str:
    return re.sub(r"[\"'\\]", "", text)


def _judge_limit(command: Command, folder: Path, context: Context) -> Verdict:
    """A tool at its limit is an error, unless a report of the hang names the warp that waits."""
    limit = f"{command.name} did not end within {command.time_s:.0f} s"
    if waiting := read_triage(folder, command.name):
        hang = describe_wait(waiting, WaitNames(context))
        return failed(f"{hang.sentence}; {limit}", *hang.lines)
    return broken(
        f"{limit}; give the stage more time or a smaller case", *log_tail(folder, command.name)
    )


def _judge_death(stage: Stage, code: int, folder: Path, context: Context) -> Verdict:
    """Judge a program that failed by its own exit code: the tool counted no errors."""
    name, tail = f"the program under {stage.tool}", log_tail(folder, stage.tool)
    asserted = read_assertions(folder, stage.tool)
    if context.kernel.level == 0:
        verdict = judge_exit_status(code, folder, stage.tool, context)
        return replace(verdict, summary=f"{name}: {verdict.summary}")
    try:
        seen = load_result(folder / f"{stage.tool}.json")
    except ProtocolError as e:
        return judge_exit(name, code, None, (e.message, *tail), asserted)
    mismatch = find_mismatch(seen, _asked(stage, context), code, context)
    error = None if mismatch else seen.error
    return judge_exit(name, code, error, (mismatch, *tail), asserted)


def _judge_proof(stage: Stage, folder: Path, context: Context) -> Verdict | None:
    """Return what is wrong with the proof that the kernel ran under the tool, None if it holds."""
    if context.kernel.level == 0:
        printed = judge_exit_status(0, folder, stage.tool, context)
        if printed.outcome is not Outcome.PASS:
            return printed
        said = judge_patterns(folder, stage.tool, context)
        return None if said is None or said.outcome is Outcome.PASS else said
    try:
        seen = load_result(folder / f"{stage.tool}.json")
    except ProtocolError as e:
        return unreadable(f"nothing proves that the kernel ran under {stage.tool}: {e.message}")
    mismatch = find_mismatch(seen, _asked(stage, context), 0, context)
    if mismatch or seen.error is not None:
        return broken(mismatch or f"the result of a clean run holds an error: {seen.error}")
    return judge_once(seen, _asked(stage, context), folder, stage.tool, context)


def _asked(stage: Stage, context: Context) -> Asked:
    return Asked("once", stage_case(context.kernel, stage), context.seed(stage.seeds[0]), PATTERN)


def _selftest_check(stage: Stage, result: StageResult, folder: Path) -> Check:
    """Judge the tool by its seeded bug: a tool that misses it may miss the kernel's bugs."""
    name = selftest_name(stage)
    ended = find_command(result, name)
    title = f"{stage.tool}: self-test"
    if ended is None:
        verdict = broken(f"{stage.tool} was not tried on its seeded bug on this host")
        return Check(title, verdict)
    stdout, _ = _read_bounded(folder / f"{name}.stdout.log")
    tail = log_tail(folder, name)
    if ended.ended_by is not EndedBy.EXIT or ended.exit_code != ERROR_EXIT:
        how = f"exit code {ended.exit_code}" if ended.exit_code is not None else ended.ended_by
        verdict = broken(f"{stage.tool} did not catch its seeded bug: {how}", *tail)
    elif stdout is None:
        verdict = broken(f"{name}.stdout.log is missing: what {stage.tool} caught is not known")
    elif SEEDED[stage.tool] not in stdout or not (log := parse_log(stdout)).total:
        verdict = broken(f"{stage.tool} caught something, but not its seeded bug", *tail)
    elif log.damage or log.summaries != 1:
        why = log.damage or f"{log.summaries} summaries"
        verdict = broken(f"the log of {stage.tool}'s self-test is damaged: {why}", *tail)
    else:
        kept = f", kept from {ended.reused_from}" if ended.reused_from else ""
        verdict = passed(f"{stage.tool} catches its seeded bug{kept}")
    return Check(title, verdict, seconds_here(ended))
