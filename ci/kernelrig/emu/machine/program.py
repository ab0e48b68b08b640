"""A kernel made ready to run: segments of straight code, each a generated Python function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kernelrig.emu.machine.instruction_table import Blocked
from kernelrig.findings import locate
from kernelrig.model.frame import Frame
from kernelrig.ptx import Function

FALL, STOP, BRANCH, TABLE, EXIT = "fall", "stop", "branch", "table", "exit"
"""How a segment ends: runs on; runs on, and the scheduler may choose; branches on the predicate it
returns (None: always); branches on the number it returns; its lanes (those of the mask it returns)
end."""


@dataclass(frozen=True, slots=True)
class IssueCondition:
    """What must hold before the first instruction of a segment runs.

    `members(batch, registers, mask)` gives the member mask of a collective instruction, an array of
    U32; None asks for all lanes that have not exited. `mask(batch, registers, mask)` puts the
    instruction's guard into the mask; None where it has none.
    """

    collective: str
    members: Callable[..., Any] | None
    mask: Callable[..., Any] | None
    ready: Callable[..., Blocked | None] | None


@dataclass(frozen=True, slots=True)
class Segment:
    """Instructions `first` to `last` of the function. `target` is the segment of a branch, or those
    of a table; `reconvergence` is where lanes that diverge here reconverge, -1 for nowhere.
    """

    index: int
    first: int
    last: int
    run: Callable[..., Any]
    end: str
    target: tuple[int, ...]
    condition: IssueCondition | None
    reconvergence: int
    live: tuple[int, ...]  # registers that are read from here on


@dataclass(frozen=True)
class SourcePlace:
    """Where an instruction comes from. `frame` is the one that reports name, `frames` the chain.

    Its texts are made once: findings ask for them with every event.
    """

    ptx_line: int
    frame: Frame
    frames: tuple[Frame, ...]

    @cached_property
    def source(self) -> str:
        """`kernel/gemm.cu:304 load_inputs`, "" without line information."""
        frame = self.frame
        return f"{frame.file}:{frame.line} {frame.function}".rstrip() if frame.line else ""

    @cached_property
    def calls(self) -> str:
        """The whole chain in words, innermost first."""
        return ", in ".join(f.text for f in self.frames)

    @cached_property
    def text(self) -> str:
        """The place in words: `(PTX line 12, gemm.cu:304 load_inputs)`."""
        return f"(PTX line {self.ptx_line}{f', {self.frame.text}' if self.frame.line else ''})"


@dataclass
class Program:
    """`opcodes` holds what each instruction is called in the table, `unchecked` those names that
    were never compared with hardware.
    """

    function: Function
    source: str
    registers: int
    segments: tuple[Segment, ...]
    rows: tuple[str, ...]
    unchecked: frozenset[str]
    visits: list[int] = field(default_factory=list)  # by segment
    codegen: Any = None  # what made it: the native engine encodes from there
    encoded: Any = None  # its tables for the native engine, once made
    _places: dict[int, SourcePlace] = field(default_factory=dict)

    def where(self, at: int) -> SourcePlace:
        """Return where an instruction comes from; an empty place for none."""
        known = self._places.get(at)
        if known is None:
            known = self._places[at] = self._where(at)
        return known

    def _where(self, at: int) -> SourcePlace:
        if not 0 <= at < len(self.function.instructions):
            return SourcePlace(0, Frame("", 0), ())
        instruction = self.function.instructions[at]
        frames = tuple(f for f in instruction.place.frames if f.file)
        return SourcePlace(instruction.line, locate(frames, self.source), frames)

    def label(self, at: int) -> str:
        """Name an instruction for people: its mnemonic and its line."""
        return f"{self.function.instructions[at].mnemonic} {self.where(at).text}"

    def counts(self) -> dict[str, int]:
        """Return how often each row of the table was executed, by warps."""
        counted: dict[str, int] = {}
        for rows, visits in zip(self._rows_of_segments, self.visits, strict=True):
            if visits:
                for row, count in rows.items():
                    counted[row] = counted.get(row, 0) + count * visits
        return counted

    @cached_property
    def _rows_of_segments(self) -> list[Counter[str]]:
        return [Counter(self.rows[s.first : s.last]) for s in self.segments]
