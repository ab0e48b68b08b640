"""Which warp waits where: reads what cuda-gdb printed of a hung kernel's core dump."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LANES = 32

_TRIPLE = r"\(\s*\d+,\s*\d+,\s*\d+\)"
# A row of `info cuda threads`: from block, thread to block, thread, count, pc, file, line.
_ROW = re.compile(
    rf"^\*?\s*({_TRIPLE})\s+({_TRIPLE})\s+({_TRIPLE})\s+({_TRIPLE})"
    r"\s+(\d+)\s+0x[0-9a-f]+\s+(\S.*?)\s+(\d+)\s*$"
)
_KERNEL = re.compile(r"^#\d+\s+(?:0x[0-9a-f]+ in )?([\w:<>~, ]+?)(?:<<<|\s*\()", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Threads of one range that wait at one source line."""

    kernel: str
    first_block: str
    first_thread: str
    last_block: str
    last_thread: str
    threads: int
    file: str
    line: int

    @property
    def warps(self) -> str:
        """The warps in their CTA, for CTAs that are one-dimensional (ours are)."""
        first, last = (
            int(t.strip("()").split(",")[0]) // LANES for t in (self.first_thread, self.last_thread)
        )
        return f"warp {first}" if first == last else f"warps {first} to {last}"

    @property
    def place(self) -> str:
        return f"{PurePosixPath(self.file).name}:{self.line}"


def parse_triage(text: str) -> tuple[Waiting, ...]:
    """Return the thread ranges still on the GPU; empty if cuda-gdb listed none."""
    named = _KERNEL.search(text)
    kernel = named.group(1).strip() if named else ""
    rows = [found for line in text.split("\n") if (found := _ROW.match(line))]
    return tuple(
        Waiting(
            kernel=kernel,
            first_block=row[1].replace(" ", ""),
            first_thread=row[2].replace(" ", ""),
            last_block=row[3].replace(" ", ""),
            last_thread=row[4].replace(" ", ""),
            threads=int(row[5]),
            file=row[6],
            line=int(row[7]),
        )
        for row in rows
    )


def describe_wait(waiting: Sequence[Waiting]) -> str:
    """Return one sentence: which warps wait at which lines, the fewest threads first.

    Where one warp waits for an event and the others for that warp, that one is the cause.
    """
    at: dict[str, list[Waiting]] = defaultdict(list)
    for w in waiting:
        at[w.place].append(w)
    groups = sorted(at.values(), key=lambda same: sum(w.threads for w in same))
    waits = "; ".join(
        f"{same[0].warps} of CTA {same[0].first_block} {verb} at {same[0].place}"
        + (f" and {len(same) - 1} more" if len(same) > 1 else "")
        for same, verb in (
            (g, "waits" if g[0].warps.startswith("warp ") else "wait") for g in groups
        )
    )
    return f"{waiting[0].kernel or 'an unnamed kernel'} hangs: {waits}"


def read_triage(folder: Path, command: str) -> tuple[Waiting, ...]:
    """Return what the triage of the command's hang found; empty where there was none."""
    path = folder / f"{command}.gdb.txt"
    return parse_triage(path.read_text(errors="replace")) if path.is_file() else ()
