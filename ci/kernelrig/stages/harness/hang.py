"""Which warp waits where: reads what cuda-gdb printed of a hung kernel, and names the waits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernelrig.findings import Sources
from kernelrig.model.symbol import base_name
from kernelrig.sass import Blocking
from kernelrig.stages.chains import Chains
from kernelrig.stages.context import Context
from kernelrig.stages.harness.wait_name import Wait, name_wait
from kernelrig.stages.numbers import whole_number

LANES = 32
MAX_BYTES = 8 << 20
"""What is read of a file of cuda-gdb's: a host sends what it likes."""

_TRIPLE = r"\(\s*\d+,\s*\d+,\s*\d+\)"
# A row of `info cuda threads`: from block, thread to block, thread, count, pc, file, line. A build
# without line information has neither file nor line.
_ROW = re.compile(
    rf"^\*?\s*({_TRIPLE})\s+({_TRIPLE})\s+({_TRIPLE})\s+({_TRIPLE})"
    r"\s+(\d+)\s+(0x[0-9a-f]+)(?:\s+(\S.*?)\s+(\d+))?\s*$"
)
_KERNEL = re.compile(r"^#\d+\s+(?:0x[0-9a-f]+ in )?([\w:<>~, ]+?)(?:<<<|\s*\()", re.MULTILINE)
# `info symbol` of an address, after the agent's own line that names it.
_PLACE = re.compile(
    r"^at (0x[0-9a-f]+)\n[^\n]*? ?(?:\+ (\d+) )?in section \.text\.(\S+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Threads of one range that wait at one source line, `offset` bytes into `section`."""

    kernel: str
    first_block: str
    first_thread: str
    last_block: str
    last_thread: str
    threads: int
    file: str
    line: int
    section: str = ""
    offset: int = 0

    @property
    def warps(self) -> str:
        """The warps in their CTA, for CTAs that are one-dimensional (ours are)."""
        first, last = (
            whole_number(t.strip("()").split(",")[0]) // LANES
            for t in (self.first_thread, self.last_thread)
        )
        return f"warp {first}" if first == last else f"warps {first} to {last}"

    @property
    def place(self) -> str:
        """`kernel.cu:38`, or where in the code if the build has no line information."""
        if self.file:
            return f"{PurePosixPath(self.file).name}:{self.line}"
        return f"{base_name(self.section)}+{self.offset}" if self.section else "an unknown line"


def parse_triage(text: str) -> tuple[Waiting, ...]:
    """Return the thread ranges still on the GPU; empty if cuda-gdb listed none."""
    named = _KERNEL.search(text)
    places = {row[1]: (row[3], whole_number(row[2] or "0")) for row in _PLACE.finditer(text)}
    rows = [found for line in text.split("\n") if (found := _ROW.match(line))]
    waiting = []
    for row in rows:
        section, offset = places.get(row[6], ("", 0))
        kernel = base_name(section) if section else named.group(1).strip() if named else ""
        waiting.append(
            Waiting(
                kernel=kernel,
                first_block=row[1].replace(" ", ""),
                first_thread=row[2].replace(" ", ""),
                last_block=row[3].replace(" ", ""),
                last_thread=row[4].replace(" ", ""),
                threads=whole_number(row[5]),
                file=row[7] or "",
                line=whole_number(row[8] or "0"),
                section=section,
                offset=offset,
            )
        )
    return tuple(waiting)


def find_blocking(waits: Mapping[str, tuple[Blocking, ...]], w: Waiting) -> Blocking | None:
    """Return the wait in the build's code that the threads are in, None if they are in none."""
    return next((b for b in waits.get(w.section, ()) if b.first <= w.offset <= b.last), None)


class WaitNames:
    """Names waits by the build's own disassembly and sources; nothing is read from the host."""

    def __init__(self, context: Context) -> None:
        self._chains = Chains(context.build, context.kernel.kernel_regex)
        self._sources = Sources(context.build, context.source_root)
        self._main = context.kernel.sources[context.build.arch]

    def find(self, waiting: Waiting) -> Wait | None:
        """Return the wait, None where the disassembly has no such instruction with a line."""
        if not waiting.section:
            return None
        held = find_blocking(self._chains.waits(), waiting)
        at = held.at if held else waiting.offset
        return name_wait(self._chains.at(waiting.section, at), self._sources, self._main)


@dataclass(frozen=True, slots=True)
class Hang:
    """One sentence about which warps wait for what, and the text of each line they wait at."""

    sentence: str
    lines: tuple[str, ...]


def describe_wait(waiting: Sequence[Waiting], names: WaitNames | None = None) -> Hang:
    """Describe which warps wait at which lines, the fewest threads first.

    Where one warp waits for an event and the others for that warp, that one is the cause.
    """
    at: dict[str, list[Waiting]] = defaultdict(list)
    lines: dict[str, str] = {}
    for w in waiting:
        wait = names.find(w) if names else None
        place = w.place
        if wait is not None and wait.frame.line:
            where = f"{PurePosixPath(wait.frame.file).name}:{wait.frame.line}"
            place = f"for {wait.barrier} at {where}" if wait.barrier else where
            if wait.text:
                lines[place] = f"{where}: {wait.text}"
        at[place].append(w)
    groups = sorted(at.items(), key=lambda same: sum(w.threads for w in same[1]))
    waits = "; ".join(
        f"{same[0].warps} of CTA {same[0].first_block}"
        f" {'waits' if same[0].warps.startswith('warp ') else 'wait'}"
        f" {place if place.startswith('for ') else f'at {place}'}"
        + (f" and {len(same) - 1} more" if len(same) > 1 else "")
        for place, same in groups
    )
    kernel = waiting[0].kernel or "an unnamed kernel"
    return Hang(f"{kernel} hangs: {waits}", tuple(lines[p] for p, _ in groups if p in lines))


def read_triage(folder: Path, command: str) -> tuple[Waiting, ...]:
    """Return what the triage of the command's hang found; empty where there was none."""
    return parse_triage(read_listing(folder / f"{command}.gdb.txt"))


def read_listing(path: Path) -> str:
    """Return what cuda-gdb printed, as much of it as is read; empty without the file."""
    if not path.is_file():
        return ""
    with path.open("rb") as f:
        return f.read(MAX_BYTES).decode(errors="replace")
