"""Processes that take turns on one GPU: started together, each waits with its inputs in place.

So the card is at work all the while, at the clocks of long load, and the start of a process, which
takes as long as some turns, is paid once. The box runs it as one command, a shell that starts them
and leaves the exit code of each in `<process>.exit`. What they hand on is a file with a byte a turn
(relay.cuh); a process that ends badly ends it for all.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig.model import (
    Bench,
    Command,
    CommandResult,
    EndedBy,
    Pattern,
    Slot,
    Stage,
    StageResult,
    Verdict,
    broken,
)
from kernelrig.stages.checksum.outputs import judge_compared
from kernelrig.stages.checksum.stage import watchdog_s
from kernelrig.stages.context import Context, Setup, case_text, stage_case
from kernelrig.stages.harness.ended import EXIT_CUDA, judge_end, judge_missing
from kernelrig.stages.harness.reader import read_harness
from kernelrig.stages.harness.result import Asked
from kernelrig.stages.record import find_command, read_text
from kernelrig.stages.timing.stage import timed_command

RELAY, CHOICE = "relay", "KERNELRIG_CHOICE_FILE"
SLOT_S = 12.0
"""What a turn may take before the relay is called hung, besides what a lone process may."""


def process_name(candidate: int, process: int) -> str:
    """`b2`: the second process of the second contender."""
    return f"{chr(ord('a') + candidate)}{process + 1}"


def relay_commands(
    stage: Stage, bench: Bench, slots: Sequence[Slot], setups: Sequence[Setup]
) -> tuple[Command, ...]:
    """Return a command for each baseline that may have to choose, then the relay itself."""
    choosing = [i for i, s in enumerate(setups) if s.kernel.baseline]
    limited = _limited(stage, slots)
    lines = [f"dd if=/dev/zero of={RELAY} bs={len(slots)} count=1 2>{RELAY}.dd || exit 1"]
    for (candidate, process), own in slots_of(slots).items():
        command = _process(limited, bench, candidate, process, own, setups[candidate])
        before = f"{CHOICE}={choice_file(candidate)} " if candidate in choosing else ""
        lines.append(
            f"( {before}{shlex.join(command.argv)} >{command.name}.stdout.log"
            f" 2>{command.name}.stderr.log; code=$?; echo $code >{command.name}.exit;"
            f" [ $code = 0 ] || echo {command.name} >>{RELAY} ) &"
        )
    script = "\n".join((*lines, "wait"))
    return (
        *(choose_command(stage, i, setups[i]) for i in choosing),
        Command(RELAY, ("sh", "-c", script), limited.time_s, core_dump=True),
    )


def choice_file(candidate: int) -> str:
    """Where a baseline keeps what it chose: of its processes the first chooses for all."""
    return f"choice-{chr(ord('a') + candidate)}"


def choose_command(stage: Stage, candidate: int, setup: Setup) -> Command:
    """Return a checked launch before the relay: what a library chooses, it chooses alone."""
    name = f"choose-{chr(ord('a') + candidate)}"
    argv = (
        *(setup.program, "--mode", "check", "--case", case_text(stage_case(setup.kernel, stage))),
        *("--pattern", Pattern.RANDOM.value, "--seed", str(stage.seeds[0])),
        *("--watchdog", watchdog_s(stage), "--result", f"{name}.json"),
    )
    env = {CHOICE: choice_file(candidate)}
    return Command(name, argv, stage.time_s, env=env, core_dump=True)


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
    asked = Asked("check", stage_case(context.kernel, stage), stage.seeds[0], Pattern.RANDOM)
    seen = read_harness(command, ended, asked, folder, context)
    if isinstance(seen, Verdict):
        return seen
    return judge_compared(seen.compared, Pattern.RANDOM, seen.seed, seen, context)


def ended_process(command: Command, result: StageResult, folder: Path) -> CommandResult | Verdict:
    """Return how one process of the relay ended, as the shell has left it."""
    whole = find_command(result, RELAY)
    if whole is None:
        return broken(f"the journal says nothing of the {RELAY}: nobody knows what it did")
    as_relay = replace(command, name=RELAY)
    if (verdict := judge_end(as_relay, whole, folder)) is not None:
        return verdict
    code = re.fullmatch(r"(\d+)\n", read_text(folder / f"{command.name}.exit") or "")
    if code is None:
        return broken(f"{command.name} left no exit code: it was never started")
    ended = CommandResult(command.name, EndedBy.EXIT, int(code[1]), seconds=whole.seconds)
    first = _first_to_fail(folder) if int(code[1]) == EXIT_CUDA else ""
    if first not in ("", command.name):
        return broken(f"it gave up, as {first} had failed")
    signal = int(code[1]) - 128
    if signal > 0:  # what a shell says of a child that a signal ended
        ended = replace(ended, ended_by=EndedBy.SIGNAL, exit_code=None, signal=signal)
    return ended


def _first_to_fail(folder: Path) -> str:
    """Name the process that ended the relay for all, empty if none did."""
    failed = (read_text(folder / RELAY) or "").replace("\2", "").lstrip("\0\1").split("\n")
    return failed[0]


def slots_of(slots: Sequence[Slot]) -> dict[tuple[int, int], list[int]]:
    """Return the numbers of the turns that each process of each contender takes."""
    own: dict[tuple[int, int], list[int]] = {}
    for number, slot in enumerate(slots):
        own.setdefault((slot.candidate, slot.process), []).append(number)
    return own


def process_command(
    stage: Stage, bench: Bench, slots: Sequence[Slot], candidate: int, process: int, setup: Setup
) -> tuple[Stage, Command]:
    """Return what a process was told, and the stage that its samples are of."""
    own = slots_of(slots)[candidate, process]
    limited = _limited(stage, slots)
    whole = replace(limited, samples=stage.samples * len(own))
    return whole, _process(limited, bench, candidate, process, own, setup)


def _process(
    stage: Stage, bench: Bench, candidate: int, process: int, own: Sequence[int], setup: Setup
) -> Command:
    command = timed_command(process_name(candidate, process), stage, setup)
    more = ("--relay", RELAY, "--turns", ",".join(map(str, own)))
    return replace(command, argv=(*command.argv, *more, "--settle-s", f"{bench.settle_s:g}"))


def _limited(stage: Stage, slots: Sequence[Slot]) -> Stage:
    return replace(stage, time_s=stage.time_s + SLOT_S * len(slots))
