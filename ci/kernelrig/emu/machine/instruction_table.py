"""The table of instructions: each row names the opcode and modifiers that it implements.

A family of instructions is a module of `kernelrig.emu.isa` with a tuple `ROWS`. What no row
matches is rejected before a run, all of it at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelrig.ptx import Instruction, Operand, Register


class Unsupported(Exception):
    """An instruction that the emulator does not support; the text is the reason."""


Read = tuple[Operand, "np.dtype[Any]"]
"""An operand and the type to read it as: a register's bits are viewed, not converted.

An `Address` is read as I64: base plus offset. A `Special` is converted to the type. A `Symbol` is
the address of the variable in its own space. `Negated` of a predicate is its complement.
"""
Write = tuple[Register | None, "np.dtype[Any]"]
"""A register and the type of the array that becomes its bits; None drops the result (`_`)."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """What a blocking step says of the warps that cannot go on: `ready` (n,) are those that can.

    The others are asked again when any of `keys` is woken.
    """

    ready: np.ndarray[Any, np.dtype[np.bool_]]
    keys: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Native:
    """The handler of the native core that does what a step does: its name and constants.

    The operands are the step's writes, then its reads.
    """

    name: str
    immediates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction as a function.

    A pure step is called `run(*reads)`. An `effect` is called `run(batch, mask, *reads)`, a guard
    already in the mask, and never for no lane. Both return an array for one write, a tuple for
    several, None for none.

    `stop`: it synchronises, fences or starts something: behind it the scheduler may choose.
    `ready`: called before as `ready(batch, mask, *reads)`; None lets all warps run, a `Blocked`
    only some. `in_flight`: its results are `Pending`, and it may read such registers: an
    asynchronous load of registers.
    `collective`: "warp" needs all lanes of a warp that have not exited at this instruction
    (`.aligned`), "mask" those in the member mask `members`; a warp's lanes wait for one another.
    `native`: the native core's handler of it; None: the core calls this step.
    `watched`: registers (by index) that it may use until some wait; `overwritten(batch, mask,
    register, at)` is called before another instruction writes one of them.
    """

    run: Callable[..., Any]
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    effect: bool = False
    stop: bool = False
    ready: Callable[..., Blocked | None] | None = None
    collective: str = ""
    members: Operand | None = None
    in_flight: bool = False
    native: Native | None = None
    watched: tuple[int, ...] = ()
    overwritten: Callable[..., None] | None = None


Build = Callable[[Instruction], Step]


@dataclass(frozen=True, slots=True)
class Row:
    """`opcode` is the first word; an instruction with all of `needs` and nothing beyond `takes`
    is built by `build`. `checked`: compared with hardware, by which test.
    """

    opcode: str
    build: Build
    needs: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    checked: str = ""

    @property
    def name(self) -> str:
        return ".".join((self.opcode, *sorted(self.needs)))

    def matches(self, instruction: Instruction) -> bool:
        return self.needs <= instruction.flags <= self.needs | self.takes


def row(opcode: str, build: Build, needs: str = "", takes: str = "", checked: str = "") -> Row:
    """Make a row; `needs` and `takes` are words between blanks."""
    return Row(opcode, build, frozenset(needs.split()), frozenset(takes.split()), checked)


class Table:
    """The rows of all families, by opcode."""

    def __init__(self, *families: tuple[Row, ...]) -> None:
        self._rows: dict[str, list[Row]] = {}
        for family in families:
            for entry in family:
                self._rows.setdefault(entry.opcode, []).append(entry)

    def find(self, instruction: Instruction) -> Row:
        """Return the row with most in `needs` that matches.

        Raises:
            Unsupported: no row matches; the text names the modifiers that no row takes.
        """
        rows = self._rows.get(instruction.opcode)
        if not rows:
            raise Unsupported(f"unknown opcode {instruction.opcode!r}")
        fitting = [r for r in rows if r.matches(instruction)]
        if fitting:
            return max(fitting, key=lambda r: len(r.needs))
        nearest = max(
            rows,
            key=lambda r: (len(r.needs & instruction.flags), -len(r.needs), len(r.takes)),
        )
        over = instruction.flags - nearest.needs - nearest.takes
        missing = nearest.needs - instruction.flags
        parts = [f".{word} is not supported" for word in sorted(over)]
        parts += [f".{word} is missing" for word in sorted(missing)]
        raise Unsupported(f"{instruction.mnemonic}: {', '.join(parts) or 'no such form'}")
