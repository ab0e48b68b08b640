"""Reads the result file of a harness command that ended; or the verdict where there is none."""

from __future__ import annotations

from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.model import Command, CommandResult, Verdict, broken, unreadable
from kernelrig.stages.context import Context
from kernelrig.stages.harness.assertion import read_assertions
from kernelrig.stages.harness.ended import EXIT_MISMATCH, judge_end, judge_exit
from kernelrig.stages.harness.result import Asked, HarnessResult, find_mismatch, load_result
from kernelrig.stages.record import log_tail


def read_harness(
    command: Command, ended: CommandResult, asked: Asked, folder: Path, context: Context
) -> HarnessResult | Verdict:
    """Return the result file of a program that ended with 0 or EXIT_MISMATCH, else the verdict.

    A result that is returned is of the case, seed and mode asked for, with the journal's exit code.
    """
    if (verdict := judge_end(command, ended, folder, context)) is not None:
        return verdict
    code = ended.exit_code if ended.exit_code is not None else -1
    tail, asserted = log_tail(folder, command.name), read_assertions(folder, command.name)
    try:
        seen = load_result(folder / f"{command.name}.json")
    except ProtocolError as e:
        if code == 0:
            return unreadable(e.message, *tail)
        return judge_exit(command.name, code, None, (e.message, *tail), asserted)
    if mismatch := find_mismatch(seen, asked, code, context):
        return broken(mismatch)
    if code not in (0, EXIT_MISMATCH):
        return judge_exit(command.name, code, seen.error, tail, asserted)
    if seen.error is not None:
        return broken(f"exit code {code}, and the result holds an error: {seen.error}")
    return seen
