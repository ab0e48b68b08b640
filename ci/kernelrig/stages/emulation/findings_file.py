"""What the emulator wrote: read strictly, and compared with what was asked of it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kernelrig.errors import ProtocolError
from kernelrig.files.serialization import from_json
from kernelrig.findings.location import frame_of
from kernelrig.model import Command, CommandResult, EndedBy, Verdict, broken, unreadable
from kernelrig.model.frame import Frame
from kernelrig.stages.context import Context
from kernelrig.stages.harness.ended import judge_lost, judge_missing
from kernelrig.stages.record import log_tail

FOUND, REJECTED, FAILED = 1, 2, 4
ERROR = "error: "
SPLIT = "split"
_AS_TABLED = "those of the table"
_NUMBER = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Found:
    """One finding as the emulator writes it; what follows `calls` came with schema 2.

    `cause` is the index of the finding in the same file (`Emulated.findings`, then `others`) that
    explains this one. `schedules`, `warps` and `ctas` count the distinct ones in which it was seen.
    `related` are the other lines of it, `examples` messages of findings joined into this one.
    """

    kind: str
    severity: Literal["error", "warning"]
    message: str
    cta: int
    warp: int
    lanes: int
    ptx_line: int
    source: str
    count: int
    schedule: int
    calls: str = ""
    frames: tuple[Frame, ...] = ()
    rule: str = ""
    section: str = ""
    fix: str = ""
    cause: int | None = None
    schedules: int = 0
    warps: int = 0
    ctas: int = 0
    objects: tuple[str, ...] = ()
    related: tuple[Frame, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def location(self) -> Frame:
        """The located frame as `source` writes it: `file:line function`."""
        return frame_of(self.source)


@dataclass(frozen=True, slots=True)
class Ran:
    """What was run. `stopped` are the schedules that did not reach the end of the launch; `lost`
    says of each that has no result, by its number, what ended it: all else is of the others.
    `engine_note` says why the engine, of those that "auto" may be, was not the native one.

    `severities` and `strict` are what was said of severities besides the emulator's table.
    `dumps` has a file for each schedule; those that left the same bits share one.
    """

    observed: tuple[str, ...]
    schedules: int
    seed: int
    accumulate: str
    module_sha256: str
    stopped: tuple[int, ...]
    dumps: dict[str, tuple[str, ...]]
    engine: Literal["native", "numpy"]
    engine_note: str = ""
    lost: dict[str, str] = field(default_factory=dict)
    severities: dict[str, str] = field(default_factory=dict)
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Emulated:
    """A file of findings; `split` names the observers whose part it is, where it is one.

    `others` are then the findings of the other observers. They do not count as findings of this
    part; a `cause` of len(findings) or more is an index into them.
    """

    findings: tuple[Found, ...]
    stats: dict[str, Any]
    run: Ran
    split: tuple[str, ...] = ()
    others: tuple[Found, ...] = ()
    schema: int = 3

    @property
    def errors(self) -> tuple[Found, ...]:
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def lost(self) -> str:
        """What ended the first of the schedules that have no result; empty if all have one."""
        if not self.run.lost:
            return ""
        first, *_ = self.run.lost.values()
        return f"{len(self.run.lost)} of {self.run.schedules} schedules have no result: {first}"

    @property
    def cut(self) -> bool:
        return any(f.kind == "step-limit" for f in self.findings)


def read_emulated(
    command: Command, ended: CommandResult | None, folder: Path, context: Context
) -> Emulated | Verdict:
    """Return what an emulation or a split found, or the error that says why that is not known."""
    if ended is None:
        return judge_missing(command)
    if (verdict := judge_emulator(command, ended, folder)) is not None:
        return verdict
    tail = log_tail(folder, command.name)
    path = folder / f"{command.name}.json"
    try:
        seen = from_json(Emulated, path)
    except ProtocolError as e:
        return unreadable(e.message, *tail)
    wrong = _find_mismatch(seen, command, ended.exit_code or 0, context)
    if wrong is None and SPLIT in command.argv:
        wrong = _judge_whole(seen, command, folder)
    return wrong or seen


def judge_emulator(command: Command, ended: CommandResult, folder: Path) -> Verdict | None:
    """Return why the emulator has established nothing, None where it left its file."""
    if ended.ended_by is EndedBy.TIME_LIMIT:
        limit = f"the emulation did not end within {command.time_s:.0f} s"
        return broken(f"{limit}; give the stage more time or a smaller case")
    if ended.ended_by is not EndedBy.EXIT or ended.exit_code is None:
        return judge_lost(command, ended)
    tail = log_tail(folder, command.name)
    if ended.exit_code in (REJECTED, FAILED):
        # Behind what it says while it runs, and before the other lines of a sentence with a list.
        first = max((n for n, line in enumerate(tail) if line.startswith(ERROR)), default=0)
        said = tail[first].removeprefix(ERROR) if tail else "it said nothing"
        how = "refused" if ended.exit_code == REJECTED else "failed"
        return broken(f"the emulator {how}: {said}", *tail[first + 1 :])
    if ended.exit_code not in (0, FOUND):
        return broken(f"the emulator failed with exit code {ended.exit_code}", *tail)
    path = folder / f"{command.name}.json"
    if not path.is_file():
        said = f": {tail[-1]}" if tail else ""
        return broken(f"the emulator left no {path.name}{said}", *tail[:-1])
    return None


def _judge_whole(seen: Emulated, command: Command, folder: Path) -> Verdict | None:
    """Return the error if a part is not of the emulation that it was taken from, None if it is.

    A part says itself how much was run: what it leaves out of a longer one would not be missed.
    """
    path = folder / command.argv[command.argv.index(SPLIT) + 1]
    try:
        whole = from_json(Emulated, path)
    except ProtocolError as e:
        return unreadable(f"nothing says what {command.name} is a part of: {e.message}")
    if (seen.run, seen.stats) != (whole.run, whole.stats):
        return broken(f"{command.name}.json is a part of another emulation than {path.name}")
    if _counted(seen) != _counted(whole):
        count = len(seen.findings) + len(seen.others)
        return broken(
            f"the {count} findings of {command.name}.json are not the {len(whole.findings)} of"
            f" {path.name}"
        )
    return None


def _counted(seen: Emulated) -> Counter[Found]:
    """Count equal findings; a cause is an index into its own file."""
    return Counter(replace(f, cause=None) for f in (*seen.findings, *seen.others))


def _severities(ran: Ran) -> str:
    return ", ".join(f"{rule}={said}" for rule, said in ran.severities.items()) or _AS_TABLED


def _find_mismatch(
    seen: Emulated, command: Command, exit_code: int, context: Context
) -> Verdict | None:
    """Return the error if the file is of another launch or of a part of it, None if it is not."""
    asked = dict(zip(command.argv, command.argv[1:], strict=False))
    observe = set(asked["--observe"].split(","))
    listed = FOUND if seen.errors else 0
    ptx = context.build.files.get(f"{context.build.program}.ptx")
    if missing := observe - set(seen.run.observed):
        return broken(f"the emulator has no observer for {', '.join(sorted(missing))}")
    pairs = [
        ("exit code", exit_code, listed),
        ("PTX", seen.run.module_sha256, ptx or "none"),
        ("findings of", set(seen.split) or observe, observe),
    ]
    # The kernel's own program writes the launch file: it has no say in what counts.
    words = zip(command.argv, command.argv[1:], strict=False)
    said = ", ".join(word for flag, word in words if flag == "--severity")
    pairs += [
        ("severities", _severities(seen.run), said or _AS_TABLED),
        ("strict", seen.run.strict, "--strict" in command.argv),
    ]
    if "--schedules" in asked:
        pairs += [
            ("schedules", seen.run.schedules, int(asked["--schedules"])),
            ("seed", seen.run.seed, int(asked["--seed"])),
            ("accumulate", seen.run.accumulate, asked["--accumulate"]),
        ]
        engine = asked.get("--engine", "numpy")  # what a command meant before it had the flag
        if engine != "auto":
            pairs.append(("engine", seen.run.engine, engine))
    for what, got, wanted in pairs:
        if got != wanted:
            return broken(f"{command.name}.json is not what was asked: {what} {got}, not {wanted}")
    if seen.others and SPLIT not in command.argv:
        count = len(seen.others)
        return broken(f"{command.name}.json sets {count} findings aside, and is no part of another")
    lost = [int(n) if _NUMBER.fullmatch(n) else -1 for n in seen.run.lost]
    numbers = (*seen.run.stopped, *lost)
    strange = len(set(numbers)) != len(numbers) or any(
        not 0 <= number < seen.run.schedules for number in numbers
    )
    if not seen.run.schedules or strange:
        ended = "stopped or were lost" if seen.run.lost else "stopped"
        return unreadable(
            f"{command.name}.json has {seen.run.schedules} schedules,"
            f" of which {', '.join(map(str, numbers)) or 'none'} {ended}"
        )
    return None
