"""A plain program has no modes of the harness: its exit code and its lines are judged."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.model import (
    Check,
    Command,
    CommandResult,
    Kernel,
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
from kernelrig.stages.context import Context
from kernelrig.stages.harness.ended import judge_end, judge_missing
from kernelrig.stages.plain.pattern_search import find_patterns
from kernelrig.stages.record import find_command, log_tail, read_log, stage_record

_NOT_LOADED = 127
"""What a program exits with that the system could not load."""
_LIBRARY = re.compile(r"error while loading shared libraries: (\S+): cannot open")


def missing_lines(kernel: Kernel, stdout: str) -> list[str]:
    """Return the expected lines that the program did not print, each compared as a whole line."""
    printed = {line.strip() for line in stdout.split("\n")}
    return [line for line in kernel.expected_lines if line.strip() not in printed]


def read_program(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge by the exit code, then by the expected lines, whole lines each."""
    checks = []
    for command in job.commands:
        ended = find_command(result, command.name)
        verdict = (
            judge_missing(command)
            if ended is None
            else judge_start(command, ended, folder, context)
        )
        seconds = ended.seconds if ended else 0.0
        checks.append(Check(f"{context.build.program} runs", verdict, seconds))
        if ended is not None and (said := judge_patterns(folder, command.name, context)):
            checks.append(Check("output", said))
    return stage_record(stage, result, context, checks)


def judge_program(
    command: Command, ended: CommandResult, folder: Path, context: Context
) -> Verdict:
    """Judge one start of the program by all that is expected: its end, lines and patterns."""
    verdict = judge_start(command, ended, folder, context)
    if verdict.outcome is not Outcome.PASS:
        return verdict
    said = judge_patterns(folder, command.name, context)
    return verdict if said is None or said.outcome is Outcome.PASS else said


def right_start(
    command: Command, result: StageResult, folder: Path, context: Context
) -> CommandResult | Verdict:
    """Return how a start ended that is right by all that is expected, or else why it is not."""
    ended = find_command(result, command.name)
    if ended is None:
        return judge_missing(command)
    verdict = judge_program(command, ended, folder, context)
    return ended if verdict.outcome is Outcome.PASS else verdict


def judge_patterns(folder: Path, name: str, context: Context) -> Verdict | None:
    """Judge what must and must not match in `name`'s output; None if kernels.yaml names neither."""
    kernel = context.kernel
    wanted = {"must_print": kernel.must_print, "must_not_print": kernel.must_not_print}
    wanted = {key: pattern for key, pattern in wanted.items() if pattern}
    if not wanted:
        return None
    outputs = [folder / f"{name}.{stream}.log" for stream in ("stdout", "stderr")]
    if missing := next((path.name for path in outputs if not path.is_file()), ""):
        return broken(f"{missing} is missing: nothing says what the program printed")
    try:
        found = find_patterns(wanted, outputs)
    except ProtocolError as e:
        return unreadable(e.message, e.hint)
    if kernel.must_print and not found["must_print"]:
        tail = log_tail(folder, name)
        return failed(f"nothing that it printed matches must_print: {kernel.must_print}", *tail)
    if bad := found.get("must_not_print"):
        return failed(f"it printed '{bad[0]}', which must_not_print matches", *bad[1:5])
    return passed(f"as {' and '.join(wanted)} say")


def judge_start(command: Command, ended: CommandResult, folder: Path, context: Context) -> Verdict:
    """Judge one start of the program by its exit status and the lines that it must print."""
    if (verdict := judge_end(command, ended, folder, context)) is not None:
        return verdict
    assert ended.exit_code is not None, "judge_end returns a verdict for every other end"
    verdict = judge_exit_status(ended.exit_code, folder, command.name, context)
    if verdict.outcome is Outcome.PASS and not context.kernel.judges_output:
        return passed(f"{verdict.summary}; nothing else was checked")
    return verdict


def judge_exit_status(code: int, folder: Path, name: str, context: Context) -> Verdict:
    """Judge the exit code, -N for signal N, and the lines that must be in `name`'s output."""
    if code < 0:
        return failed(f"it was ended by signal {signal_name(-code)}", *log_tail(folder, name))
    tail = log_tail(folder, name)
    if code == _NOT_LOADED and (library := _LIBRARY.search("\n".join(tail))):
        hint = "install it there, or name its folder as LD_LIBRARY_PATH in the remote's `env`"
        return broken(f"the host has no {library[1]}, which the program links", hint)
    if code != 0:
        return failed(f"exit status {code}, wanted 0", *log_tail(folder, name))
    if not context.kernel.expected_lines:
        return passed("exit status 0")
    stdout = read_log(folder, name)
    if stdout is None:
        return broken(f"{name}.stdout.log is missing: its expected lines cannot be found")
    if missing := missing_lines(context.kernel, stdout):
        return failed(f"the program did not print '{missing[0]}'", *missing[1:])
    count = len(context.kernel.expected_lines)
    return passed(f"exit status 0 and {count} expected line{'s' if count > 1 else ''}")


def signal_name(number: int) -> str:
    """Return SIGSEGV for 11; real-time signals have no names."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
