"""A kernel made ready to run: segments of straight code, each a generated Python function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kernelrig.emu.machine.instruction_table import Blocked
from kernelrig.findings import locate
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
    of a table; `reconvergence` is where lanes that part here meet again, -1 for nowhere.
    """

    index: int
    first: int
    last: int
    run: Callable[..., Any]
    end: str
    target: tuple[int, ...]
    condition: IssueCondition | None
    reconvergence: int
    live: tuple[int, ...]  # registers that somebody reads from here on


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

    def place(self, at: int) -> tuple[int, str]:
        """Return the PTX line and the source line of an instruction; (0, "") for none."""
        if not 0 <= at < len(self.function.instructions):
            return 0, ""
        instruction = self.function.instructions[at]
        source = locate(instruction.place.frames, self.source).text
        return instruction.line, "" if source.startswith(":") else source

    def calls(self, at: int) -> str:
        """Return the calls that inlining removed around an instruction, innermost first."""
        if not 0 <= at < len(self.function.instructions):
            return ""
        return self.function.instructions[at].place.text

    def label(self, at: int) -> str:
        """Name an instruction for people: its text, shortened, and its line."""
        instruction = self.function.instructions[at]
        frames = instruction.place.text
        return (
            f"{instruction.mnemonic} (PTX line {instruction.line}{', ' + frames if frames else ''})"
        )

    def frames(self, at: int) -> str:
        """Return the source line of an instruction and those it is inlined into, if it has one."""
        frames = self.function.instructions[at].place.text
        return "" if frames.startswith(":") else frames

    def counts(self) -> dict[str, int]:
        """Return how often each row of the table was executed, by warps."""
        counted: dict[str, int] = {}
        for segment, visits in zip(self.segments, self.visits, strict=True):
            if visits:
                for at in range(segment.first, segment.last):
                    counted[self.rows[at]] = counted.get(self.rows[at], 0) + visits
        return counted
