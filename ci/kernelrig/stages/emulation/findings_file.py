"""What the emulator wrote: read strictly, and compared with what was asked of it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from kernelrig.errors import ProtocolError
from kernelrig.files.serialization import from_json
from kernelrig.model import Command, CommandResult, EndedBy, Finding, Verdict, broken, unreadable
from kernelrig.stages.context import Context
from kernelrig.stages.findings import LineText
from kernelrig.stages.harness.ended import judge_lost, judge_missing
from kernelrig.stages.record import log_tail

FOUND, REFUSED = 1, 2
_SOURCE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: (?P<function>.+))?")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d[\d,.]*")


@dataclass(frozen=True, slots=True)
class Found:
    """One finding as the emulator writes it."""

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


@dataclass(frozen=True, slots=True)
class Ran:
    """What was run. `stopped` are the schedules that did not reach the end of the launch.

    `dumps` has a file for each schedule; those that left the same bits share one.
    """

    observed: tuple[str, ...]
    schedules: int
    seed: int
    accumulate: str
    module_sha256: str
    stopped: tuple[int, ...]
    dumps: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Emulated:
    """A file of findings; `split` says whose they are, where a part was taken out."""

    findings: tuple[Found, ...]
    stats: dict[str, Any]
    run: Ran
    split: tuple[str, ...] = ()
    schema: int = 1

    @property
    def errors(self) -> tuple[Found, ...]:
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def cut(self) -> bool:
        return any(f.kind == "step-limit" for f in self.findings)


def read_emulated(
    command: Command, ended: CommandResult | None, folder: Path, context: Context
) -> Emulated | Verdict:
    """Return what an emulation or a split found, or why that is not known: always an error."""
    if ended is None:
        return judge_missing(command)
    if ended.ended_by is EndedBy.TIME_LIMIT:
        limit = f"the emulation did not end within {command.time_s:.0f} s"
        return broken(f"{limit}; give the stage more time or a smaller case")
    if ended.ended_by is not EndedBy.EXIT or ended.exit_code is None:
        return judge_lost(command, ended)
    tail = log_tail(folder, command.name)
    if ended.exit_code == REFUSED:
        said = tail[0].removeprefix("error: ") if tail else "it said nothing"
        return broken(f"the emulator refused: {said}", *tail[1:])
    if ended.exit_code not in (0, FOUND):
        return broken(f"the emulator failed with exit code {ended.exit_code}", *tail)
    path = folder / f"{command.name}.json"
    if not path.is_file():
        said = f": {tail[-1]}" if tail else ""
        return broken(f"the emulator left no {path.name}{said}", *tail[:-1])
    try:
        seen = from_json(Emulated, path)
    except ProtocolError as e:
        return unreadable(e.message, *tail)
    return _find_mismatch(seen, command, ended.exit_code, context) or seen


def _find_mismatch(
    seen: Emulated, command: Command, exit_code: int, context: Context
) -> Verdict | None:
    """Return the error that another launch's findings are, or a part of them."""
    asked = dict(zip(command.argv, command.argv[1:], strict=False))
    observe = set(asked["--observe"].split(","))
    listed = FOUND if seen.errors else 0
    ptx = context.build.files.get(f"{context.build.program}.ptx")
    if missing := observe - set(seen.run.observed):
        return broken(f"the emulator has no observer for {', '.join(sorted(missing))}")
    pairs = [
        ("exit code", exit_code, listed),
        ("PTX", seen.run.module_sha256[:12], (ptx or "none")[:12]),
        ("findings of", set(seen.split) or observe, observe),
    ]
    if "--schedules" in asked:
        pairs += [
            ("schedules", seen.run.schedules, int(asked["--schedules"])),
            ("seed", seen.run.seed, int(asked["--seed"])),
            ("accumulate", seen.run.accumulate, asked["--accumulate"]),
        ]
    for what, got, wanted in pairs:
        if got != wanted:
            return broken(f"{command.name}.json is not what was asked: {what} {got}, not {wanted}")
    if not seen.run.schedules or len(seen.run.stopped) > seen.run.schedules:
        return unreadable(f"{command.name}.json tells of {seen.run.schedules} schedules")
    return None


def as_finding(found: Found, tool: str, line_text: LineText) -> Finding:
    """Return the finding as every report knows it, with a name that survives moved lines."""
    place = _SOURCE.fullmatch(found.source)
    file, line = (place["file"], int(place["line"])) if place else ("", 0)
    function = (place["function"] or "") if place else ""
    message = found.message
    if found.ptx_line and not place:
        message += f" (PTX line {found.ptx_line})"
    parts = [tool, found.kind, _NUMBERS.sub("#", found.message), function]
    parts += [PurePosixPath(file).name, " ".join(line_text(file, line).split())]
    who = f"warp {found.warp} of CTA {found.cta}" if found.cta >= 0 else ""
    return Finding(
        tool=tool,
        kind=found.kind,
        message=f"{message}, at {found.calls}" if found.calls else message,
        kernel=function,
        file=file,
        line=line,
        threads=", ".join(filter(None, (who, f"schedule {found.schedule}"))),
        count=found.count,
        fingerprint=hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16],
    )
