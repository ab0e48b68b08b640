"""How one process of a relay ended, and the launch before it in which a baseline selected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kernelrig.files.rundir import sha256_file
from kernelrig.model import (
    Command,
    CommandResult,
    EndedBy,
    Pattern,
    Stage,
    StageResult,
    Verdict,
    broken,
)
from kernelrig.stages.bench.command import RELAY, SUM, choosing_name
from kernelrig.stages.checksum.outputs import judge_compared
from kernelrig.stages.context import Context, stage_case
from kernelrig.stages.harness.ended import EXIT_CUDA, judge_end, judge_missing
from kernelrig.stages.harness.reader import read_harness
from kernelrig.stages.harness.result import Asked
from kernelrig.stages.record import find_command, read_log, read_text

STOPPED = "it stopped because"
"""Of a process that another one has ended."""


def read_choice(
    stage: Stage,
    candidate: int,
    planned: Mapping[str, Command],
    result: StageResult,
    folder: Path,
    context: Context,
) -> Verdict | None:
    """Return what was wrong with a baseline's first launch; None if nothing, or there was none."""
    command = planned.get(choosing_name(candidate))
    if command is None:
        return None
    ended = find_command(result, command.name)
    if ended is None:
        return judge_missing(command)
    asked = Asked(
        "check", stage_case(context.kernel, stage), context.seed(stage.seeds[0]), Pattern.RANDOM
    )
    seen = read_harness(command, ended, asked, folder, context)
    if isinstance(seen, Verdict):
        return seen
    return judge_compared(seen.compared, Pattern.RANDOM, seen.seed, seen, context)


def ended_process(
    command: Command,
    relay: Command,
    file: str,
    result: StageResult,
    folder: Path,
    context: Context,
) -> CommandResult | Verdict:
    """Return how one process of the relay of that file ended, as the shell has left it.

    Its files must still be as they were when it had ended.
    """
    whole = find_command(result, RELAY)
    if whole is None:
        return broken(f"the journal has no record of the {RELAY}: status unknown")
    as_relay = replace(command, name=RELAY)
    if (verdict := judge_end(as_relay, whole, folder, context)) is not None:
        return verdict
    if changed := _find_changed(command.name, relay, folder):
        return broken(f"{changed}: none of its times count")
    code = re.fullmatch(r"(\d{1,3})\n", read_text(folder / f"{command.name}.exit") or "")
    if code is None:
        return broken(f"{command.name} left no exit code: it was never started")
    ended = CommandResult(command.name, EndedBy.EXIT, int(code[1]), seconds=whole.seconds)
    first = _first_to_fail(folder / file) if int(code[1]) == EXIT_CUDA else ""
    if first not in ("", command.name):
        return broken(f"{STOPPED} {first} had failed")
    signal = int(code[1]) - 128
    if signal > 0:  # a shell reports 128 + the signal that ended its child
        ended = replace(ended, ended_by=EndedBy.SIGNAL, exit_code=None, signal=signal)
    return ended


def _find_changed(name: str, relay: Command, folder: Path) -> str:
    """Say which file of a process is not as its end left it, empty if none.

    Relays of older clients have no hashes.
    """
    if not any(SUM in word for word in relay.argv):
        return ""
    said = (read_log(folder, RELAY) or "").splitlines()
    for file in (folder / f"{name}.json", folder / f"{name}.exit"):
        sums = [line.split()[0] for line in said if line.split()[1:] == [file.name]]
        if not sums and not file.exists():
            continue
        if not sums:
            return f"nothing says what {file.name} was when {name} had ended"
        if len(sums) > 1 or not file.is_file() or sha256_file(file) != sums[0]:
            return f"{file.name} was changed on the host after {name} had ended"
    return ""


def _first_to_fail(relay: Path) -> str:
    """Name the process that ended the relay for all, empty if none did."""
    failed = (read_text(relay) or "").replace("\2", "").lstrip("\0\1").split("\n")
    return failed[0]
