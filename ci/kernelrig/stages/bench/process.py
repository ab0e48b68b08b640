"""How one process of a relay ended, and the launch before it in which a baseline selected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

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
from kernelrig.stages.bench.command import RELAY
from kernelrig.stages.checksum.outputs import judge_compared
from kernelrig.stages.context import Context, stage_case
from kernelrig.stages.harness.ended import EXIT_CUDA, judge_end, judge_missing
from kernelrig.stages.harness.reader import read_harness
from kernelrig.stages.harness.result import Asked
from kernelrig.stages.record import find_command, read_text


def read_choice(
    stage: Stage,
    candidate: int,
    planned: Mapping[str, Command],
    result: StageResult,
    folder: Path,
    context: Context,
) -> Verdict | None:
    """Return what was wrong with a baseline's first launch; None if nothing, or there was none."""
    command = planned.get(f"choose-{chr(ord('a') + candidate)}")
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
    command: Command, result: StageResult, folder: Path, context: Context
) -> CommandResult | Verdict:
    """Return how one process of the relay ended, as the shell has left it."""
    whole = find_command(result, RELAY)
    if whole is None:
        return broken(f"the journal has no record of the {RELAY}: status unknown")
    as_relay = replace(command, name=RELAY)
    if (verdict := judge_end(as_relay, whole, folder, context)) is not None:
        return verdict
    code = re.fullmatch(r"(\d{1,3})\n", read_text(folder / f"{command.name}.exit") or "")
    if code is None:
        return broken(f"{command.name} left no exit code: it was never started")
    ended = CommandResult(command.name, EndedBy.EXIT, int(code[1]), seconds=whole.seconds)
    first = _first_to_fail(folder) if int(code[1]) == EXIT_CUDA else ""
    if first not in ("", command.name):
        return broken(f"it stopped because {first} had failed")
    signal = int(code[1]) - 128
    if signal > 0:  # a shell reports 128 + the signal that ended its child
        ended = replace(ended, ended_by=EndedBy.SIGNAL, exit_code=None, signal=signal)
    return ended


def _first_to_fail(folder: Path) -> str:
    """Name the process that ended the relay for all, empty if none did."""
    failed = (read_text(folder / RELAY) or "").replace("\2", "").lstrip("\0\1").split("\n")
    return failed[0]
