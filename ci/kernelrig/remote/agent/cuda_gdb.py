"""What cuda-gdb prints of a GPU, read as far as the agent needs it: which warps stand where.

The client reads the same files again, and makes the verdict.
"""

from __future__ import annotations

import re
from pathlib import Path

MAX_BYTES = 8 << 20
MAX_PLACES = 24  # distinct program counters, and threads whose registers are read
LIST = ("info cuda kernels", "info cuda threads")

_POINT = r"\(\s*(\d+),\s*(\d+),\s*(\d+)\)"
# A row of `info cuda threads`: from block, thread to block, thread, count, pc, file, line.
_ROW = re.compile(rf"^\*?\s*{_POINT}\s+{_POINT}\s+{_POINT}\s+{_POINT}\s+(\d+)\s+(0x[0-9a-f]+)\b")
# A row of `info cuda kernels`: kernel, parent, device, grid, status.
_GRID = re.compile(r"^\*?\s*(\d+)\s+\S+\s+(\d+)\s+(\d+)\s+(\w+)\s+0x[0-9a-f]+\s")
_HEAD = re.compile(r"^Kernel (\d+)$")
_SYMBOL = re.compile(r"^\S.*? in section \.text\.(\S+)")
_OFFSET = re.compile(r" \+ (\d+) in section ")
_ASKED = re.compile(r"^at (0x[0-9a-f]+)$")
# The program counter is not one of them: it is one of several in the loop of a wait.
_VALUE = re.compile(r"^([A-Z]+\d*)\s+(0x[0-9a-f]+)", re.MULTILINE)
_REGISTERS = re.compile(r"^registers of (\S+)$", re.MULTILINE)


class Look:
    """One look: the grids, the ranges of threads with their program counter, and what is at it."""

    def __init__(self, text: str) -> None:
        self.grids: list[tuple[int, ...]] = []
        self.rows: list[tuple[int, tuple[int, ...], int, str]] = []
        self.places: dict[str, tuple[str, int]] = {}
        kernel, asked = -1, ""
        self.listing, *registers = _REGISTERS.split(text)
        self.registers = [_VALUE.findall(text) for text in registers]
        for line in self.listing.splitlines():
            if found := _ROW.match(line):
                points = tuple(int(n) for n in found.groups()[:12])
                self.rows.append((kernel, points, int(found[13]), found[14]))
            elif found := _HEAD.match(line):
                kernel = int(found[1])
            elif found := _ASKED.match(line):
                asked = found[1]
            elif asked and (found := _SYMBOL.match(line)):
                offset = _OFFSET.search(line)
                self.places[asked] = (found[1], int(offset[1]) if offset else 0)
                asked = ""
            elif found := _GRID.match(line):
                self.grids.append(tuple(int(n) for n in found.groups()[:3]))

    @property
    def counters(self) -> list[str]:
        """Return the distinct program counters, in the order in which they are listed."""
        return list(dict.fromkeys(row[3] for row in self.rows))

    def symbols(self) -> list[str]:
        """Return the commands that say which function each program counter is in."""
        counters = self.counters[:MAX_PLACES]
        return [q for c in counters for q in (f"echo at {c}\\n", f"info symbol {c}")]

    def registers_too(self) -> list[str]:
        """Return the same, and the commands that print registers of threads at each of them."""
        asked = self.symbols()
        for kernel, p, _, _ in self.rows[:MAX_PLACES]:
            focus = f"{kernel}:{p[0]},{p[1]},{p[2]}:{p[3]},{p[4]},{p[5]}"
            at = f"block ({p[0]},{p[1]},{p[2]}) thread ({p[3]},{p[4]},{p[5]})"
            asked += [f"echo registers of {focus}\\n", f"cuda kernel {kernel} {at}"]
            asked += ["info registers"]
        return asked

    def stands(self, waits: dict[str, list[list[int]]]) -> dict[tuple[object, ...], int] | None:
        """Return how many threads are in each wait of each kernel; None if one is in none.

        A thread that tries again and again is found at one or another instruction of its wait.
        """
        found: dict[tuple[object, ...], int] = {}
        for kernel, _, count, counter in self.rows:
            section, offset = self.places.get(counter, ("", 0))
            wait = next((r for r in waits.get(section, []) if r[0] <= offset <= r[1]), None)
            if wait is None:
                return None
            key = (kernel, section, *wait)
            found[key] = found.get(key, 0) + count
        return found or None


def read_look(path: Path) -> Look:
    with path.open("rb") as file:
        return Look(file.read(MAX_BYTES).decode(errors="replace"))
