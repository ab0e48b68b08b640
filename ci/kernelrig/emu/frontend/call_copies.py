"""What the replacement of calls works with: copies of functions, and parts of a call."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kernelrig.emu.frontend.recursive_calls import Frame, Place
from kernelrig.model import frame as source_place
from kernelrig.ptx import (
    Arguments,
    Function,
    Guard,
    Instruction,
    Label,
    Operand,
    Register,
    Symbol,
    Variable,
)


@dataclass
class Copy:
    """A copy of a function: what its names are here. `parameters` are the caller's variables.

    `top` is where the next frame of recursive calls begins. `recursion` is set of a function that
    calls itself: its own frame begins at the register `start`.
    """

    number: int
    function: Function
    parameters: dict[str, Symbol | Place] = field(default_factory=dict)
    place: source_place.Place | None = None  # of the call
    top: Place | None = None
    recursion: Recursion | None = None
    frame: Frame | None = None
    start: Register | None = None
    entry: Label | None = None
    registers: dict[int, Register] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)


@dataclass
class Recursion:
    """The functions that one call from outside goes through: `sites` are where they return to."""

    group: frozenset[str]
    sites: list[Label] = field(default_factory=list)
    returns: list[int] = field(default_factory=list)  # where the code branches by the sites
    copies: dict[str, Copy] = field(default_factory=dict)
    left: list[Copy] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class InFrame:
    """The address of a variable in a frame, in local memory."""

    base: Register
    offset: int


def parts(call: Instruction) -> tuple[tuple[Operand, ...], Operand, tuple[Operand, ...]]:
    """Return what a call gives, what it calls, and what it passes."""
    operands = list(call.operands)
    first = operands.pop(0) if isinstance(operands[0], Arguments) else None
    called = operands.pop(0)
    passed = operands.pop(0) if operands and isinstance(operands[0], Arguments) else None
    items = (o.items if isinstance(o, Arguments) else () for o in (first, passed))
    given, taken = items
    return given, called, taken


def made_of(call: Instruction, opcode: str, *words: str, guard: Guard | None = None) -> Instruction:
    flags = frozenset(words)
    return replace(call, opcode=opcode, qualifiers=words, flags=flags, operands=(), guard=guard)


def takes(function: Function, results: int, params: int) -> bool:
    variables = (*function.results, *function.params)
    return (len(function.results), len(function.params)) == (results, params) and all(
        isinstance(v, Variable) for v in variables
    )
