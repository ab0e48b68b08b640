"""Device-side assertions, as the CUDA runtime prints them on stderr: what did not hold, and where.

A debug build (KERNELRIG_WATCHDOG_NS) ends a wait that lasts too long as a failed assertion in the
barrier's name: the text is then the event that was not signalled in time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernelrig.stages.harness.hang import LANES
from kernelrig.stages.numbers import whole_number
from kernelrig.stages.record import read_log

# FILE:LINE: FUNCTION: block: [x,y,z], thread: [x,y,z] Assertion `TEXT` failed.
_FAILED = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+): (?P<function>.*): block: \[(?P<block>[\d, ]+)\],"
    r" thread: \[(?P<thread>\d+)[\d, ]*\] Assertion `(?P<text>.*)` failed",
    re.MULTILINE,
)
BARRIER = "mbarrier"
"""The file name in the message of a wait that timed out (kernel/wait.cuh)."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """A failed assertion: its source line, and its warps as (CTA, warp) in the order printed."""

    text: str
    file: str
    line: int
    function: str
    warps: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        cta, warp = self.warps[0]
        more = f" and {len(self.warps) - 1} more" if len(self.warps) > 1 else ""
        who = f"warp {warp} of CTA ({cta}){more}"
        if self.file == BARRIER:
            return f"{self.text} never came: {who} gave up waiting"
        place = f"{PurePosixPath(self.file).name}:{self.line}"
        return f"assertion '{self.text}' fails at {place} in {self.function}: {who}"


def parse_assertions(text: str) -> tuple[Assertion, ...]:
    """Return each failed assertion once, in the order printed: the first waited longest."""
    warps: dict[tuple[str, str, int, str], dict[tuple[str, int], None]] = {}
    for found in _FAILED.finditer(text):
        what = (found["text"], found["file"], whole_number(found["line"]), found["function"])
        cta = found["block"].replace(" ", "")
        warps.setdefault(what, {})[cta, whole_number(found["thread"]) // LANES] = None
    return tuple(Assertion(*what, tuple(seen)) for what, seen in warps.items())


def read_assertions(folder: Path, command: str) -> tuple[Assertion, ...]:
    return parse_assertions(read_log(folder, command, "stderr") or "")
