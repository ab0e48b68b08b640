"""How many registers are live at each instruction, from `nvdisasm -c -plr -lrm count`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.sass.code import Frame, Function, Instruction
from kernelrig.sass.parse import parse_sass

_COLUMNS = {
    "GPR": "general",
    "PRED": "predicates",
    "UGPR": "uniform",
    "UPRED": "uniform_predicates",
}
_BESIDE = re.compile(r"(.*?)\s*// ([|+])(.*)[|+]\s*")
_LEGEND = re.compile(
    r"\s*// (?:Legend:|\s+(?:[\^vx:]|<space>) +: Register .*|\s+# +: Number of occupied registers)"
)
_IS_CODE = re.compile(r"\s+/\*[0-9a-f]{4,}\*/")


@dataclass(frozen=True, slots=True)
class Live:
    """Registers that hold a value still needed, of each kind."""

    general: int = 0
    predicates: int = 0
    uniform: int = 0
    uniform_predicates: int = 0


@dataclass(frozen=True, slots=True)
class LineLive:
    """The instruction of a source line at which most general registers are live."""

    line: Frame
    instruction: Instruction
    live: Live


def live_registers_argv(nvdisasm: Path, cubin: Path) -> list[str]:
    """Return the command whose text `parse_live` reads; it prints no places, -gi or not."""
    return [str(nvdisasm), "-c", "-plr", "-lrm", "count", str(cubin)]


def parse_live(text: str) -> dict[str, dict[int, Live]]:
    """Return what is live at each instruction of each function, by its address.

    The table stands to the right of the disassembly, which is read as strictly as ever.
    """
    left: list[str] = []
    beside: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    columns: tuple[str, ...] = ()
    for line in text.splitlines():
        found = _BESIDE.fullmatch(line)
        cells = tuple(c.strip() for c in found[3].split("|")) if found and found[2] == "|" else ()
        if set(cells) & set(_COLUMNS):
            columns = cells
        left.append("" if _LEGEND.fullmatch(line) else found[1] if found else line)
        beside.append((columns, cells))
    module = parse_sass("\n".join(left))
    # An instruction is one line: the n-th of the text is the n-th of the module.
    counts = [_live(*c) for text, c in zip(left, beside, strict=True) if _IS_CODE.match(text)]
    code = [(f.name, i.address) for f in module.functions for i in f.instructions]
    live: dict[str, dict[int, Live]] = {f.name: {} for f in module.functions}
    for (name, address), count in zip(code, counts, strict=True):
        live[name][address] = count
    return live


def live_by_line(
    function: Function, live: Mapping[int, Live], locate: Callable[[Sequence[Frame]], Frame]
) -> tuple[LineLive, ...]:
    """Return each line that `locate` names with its worst instruction, worst line first."""
    worst: dict[tuple[str, int], LineLive] = {}
    for i in function.instructions:
        if i.root == "NOP" and i.address not in live:
            continue  # padding behind the end: -plr does not print it
        frame, now = locate(i.place.frames), live[i.address]
        held = worst.get((frame.file, frame.line))
        if frame.file and (held is None or now.general > held.live.general):
            worst[frame.file, frame.line] = LineLive(frame, i, now)
    return tuple(sorted(worst.values(), key=lambda w: (-w.live.general, w.instruction.address)))


def _live(columns: tuple[str, ...], cells: tuple[str, ...]) -> Live:
    if len(columns) != len(cells) or set(columns) - set(_COLUMNS):
        raise ProtocolError(f"nvdisasm -plr: cannot read the columns '{' | '.join(columns)}'")
    counts = {_COLUMNS[c]: int(n) for c, n in zip(columns, cells, strict=True) if n}
    return Live(**counts)
