"""How a program ended, as a verdict: its limits, signals and the exit codes of kernel-binary."""

from __future__ import annotations

import signal
from pathlib import Path

from kernelrig.model import Command, CommandResult, EndedBy, Verdict, broken, failed, skipped
from kernelrig.stages.context import Context
from kernelrig.stages.harness.assertion import Assertion
from kernelrig.stages.harness.hang import WaitNames, describe_wait, read_triage
from kernelrig.stages.harness.looks import find_hang
from kernelrig.stages.harness.result import CudaError
from kernelrig.stages.record import log_tail

EXIT_CUDA, EXIT_MISMATCH, EXIT_DEVICE, EXIT_WATCHDOG, EXIT_USAGE = 70, 71, 72, 73, 2

KERNEL_FAULTS = frozenset({700, 710, 714, 715, 716, 717, 718, 719, 721})
"""CUDA errors that a kernel causes: illegal address, assert, ..., tensor memory leak."""

CRASHES = frozenset(
    int(s) for s in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
)


def judge_missing(command: Command) -> Verdict:
    return broken(f"the journal has no record of {command.name}: status unknown")


def judge_end(
    command: Command, ended: CommandResult, folder: Path, context: Context
) -> Verdict | None:
    """Return the verdict on a program without a tool that did not end by itself, None if it did.

    Such a kernel fails at its time limit, or as soon as it was found to hang; the waiting warp is
    named where cuda-gdb found it.
    """
    if ended.ended_by is EndedBy.EXIT and ended.exit_code is not None:
        return None
    if ended.ended_by is EndedBy.TIME_LIMIT:
        return judge_limit(command, ended, folder, context)
    if ended.ended_by is EndedBy.HANG:
        return judge_hang(command, ended, folder, context)
    if ended.ended_by is EndedBy.SIGNAL and ended.signal in CRASHES:
        name = signal.Signals(ended.signal).name
        return failed(f"{command.name} crashed with {name}", *log_tail(folder, command.name))
    return judge_lost(command, ended)


def judge_limit(command: Command, ended: CommandResult, folder: Path, context: Context) -> Verdict:
    """Return the failure of a program that was ended at its time limit."""
    if ended.disturbed:
        return broken(f"{command.name} was halted by a cuda-gdb that did not end: it says nothing")
    limit = f"{command.name} did not end within {command.time_s:.0f} s"
    waiting = read_triage(folder, command.name)
    if not waiting:
        return failed(f"{limit}; no triage names where it waits", *log_tail(folder, command.name))
    hang = describe_wait(waiting, WaitNames(context))
    return failed(f"{hang.sentence}; {limit}", *hang.lines)


def judge_hang(command: Command, ended: CommandResult, folder: Path, context: Context) -> Verdict:
    """Return the failure of a program that the agent ended as a hang, if its looks prove one."""
    if command.inspection is None:
        return broken(f"{command.name} was ended as a hang, and was not to be inspected")
    waiting = find_hang(folder, command.name, context)
    if isinstance(waiting, str):
        return broken(f"{command.name} was ended as a hang, which is not shown: {waiting}")
    hang = describe_wait(waiting, WaitNames(context))
    return failed(f"{hang.sentence}; found after {ended.seconds:.1f} s", *hang.lines)


def judge_lost(command: Command, ended: CommandResult) -> Verdict:
    """Return the error for an end that is no evidence about the kernel.

    What was held back is a skip: the command before it that was cut short has the verdict.
    """
    if ended.ended_by is EndedBy.HELD_BACK:
        return skipped(f"{command.name} was not started: {ended.detail or 'no reason was given'}")
    if ended.ended_by is EndedBy.NOT_STARTED:
        return broken(f"{command.name} was not started: {ended.detail or 'no reason was given'}")
    how = f"signal {ended.signal}" if ended.ended_by is EndedBy.SIGNAL else ended.ended_by.value
    detail = f": {ended.detail}" if ended.detail else ""
    return broken(f"{command.name} was ended by {how}{detail}")


def judge_exit(
    name: str,
    code: int,
    error: CudaError | None,
    tail: tuple[str, ...],
    asserted: tuple[Assertion, ...] = (),
) -> Verdict:
    """Return the verdict on an exit code other than 0; `error` is that of the result file.

    CUDA's error of an assertion says only that one failed: what the device printed goes first.
    """
    said = [str(assertion) for assertion in asserted]
    if code == EXIT_CUDA and error is not None:
        kind = failed if error.code in KERNEL_FAULTS else broken
        return kind("; ".join([*said[:1], f"{name}: {error}"]), *said[1:], *tail)
    tail = (*said, *tail)
    if code == EXIT_CUDA:
        return broken(f"{name}: a CUDA call failed, and no result says which", *tail)
    if code == EXIT_MISMATCH:
        return failed(f"{name}: outputs differ from the reference, and no result says where", *tail)
    if code == EXIT_WATCHDOG and error is not None:
        return failed(f"{name}: {error.text}, reported by the program's watchdog", *tail)
    if code == EXIT_WATCHDOG:
        return failed(f"{name}: the program's own watchdog fired: the kernel did not end", *tail)
    if code == EXIT_DEVICE:
        return broken(f"{name}: the binary has no code for this device", *tail)
    if code == EXIT_USAGE:
        return broken(f"{name}: the program refused its arguments", *tail)
    return broken(f"{name}: exit code {code} means nothing here", *tail)
