"""What a store writes where the code alone tells it: a flag is often set by many threads at once.

Threads that write the same value to the same bytes race by PTX's text (8.7), and whatever the order
that value is left there: such a race is a rule of its own, with a severity of its own. The same are
constants, and what is computed from the parameters of the kernel alone; among the threads of a CTA,
also from its place in the grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from functools import cached_property

from kernelrig.ptx import (
    Address,
    Float,
    Function,
    Instruction,
    Integer,
    Operand,
    Register,
    Special,
    Symbol,
    Vector,
    writers,
)

_COMPUTES = frozenset(
    {"mov", "cvta", "cvt", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "xor", "not",
     "neg", "min", "max", "setp", "selp", "div", "rem", "fma", "bfe", "prmt"}
)  # fmt: skip
"""Opcodes whose result depends on their operands alone."""
_OF_GRID = frozenset({"ntid", "nctaid"})
_OF_CTA = frozenset({"ctaid"})
"""Special registers that are the same in all threads of a grid, of a CTA."""

Constant = tuple[str, tuple[object, ...]]
"""The width of each part that is stored, and their values."""


class StoredConstants:
    """What the stores of a kernel write, by their index."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def are_same(self, one: int, other: int, *, of_a_cta: bool) -> bool:
        """Say whether two instructions, of threads of one CTA or not, are stores of one value."""
        known = self._of_a_cta if of_a_cta else self._of_a_grid
        first, second = self._stored(one, known), self._stored(other, known)
        return first is not None and first == second

    def _stored(self, at: int, known: Mapping[int, object]) -> Constant | None:
        """Return the value that the instruction there stores, None where it may be any."""
        instruction = self.function.instructions[at]
        operands = instruction.operands
        if instruction.opcode != "st" or "async" in instruction.flags or len(operands) < 2:
            return None
        stored = operands[1]
        values = []
        for item in stored.items if isinstance(stored, Vector) else (stored,):
            values.append(known.get(item.index) if isinstance(item, Register) else _value(item))
        if None in values:
            return None
        return instruction.qualifiers[-1].lstrip("bfsu"), tuple(values)

    @cached_property
    def _written(self) -> dict[int, list[Instruction]]:
        """The instructions that set a register, by its index."""
        return writers(self.function)

    @cached_property
    def _of_a_grid(self) -> dict[int, object]:
        return self._same_in_threads(_OF_GRID)

    @cached_property
    def _of_a_cta(self) -> dict[int, object]:
        return self._same_in_threads(_OF_GRID | _OF_CTA)

    def _same_in_threads(self, specials: Set[str]) -> dict[int, object]:
        """Return the registers that hold one value in all threads, by their index."""
        known: dict[int, object] = {}
        for register, instructions in self._written.items():
            if (value := _only(instructions)) is not None:
                known[register] = value
            elif len(instructions) == 1:
                known[register] = ("register", register)
        # Those that depend on anything else are none: until nothing changes.
        parameters = frozenset(p.name for p in self.function.params)
        left = [r for r, value in known.items() if value == ("register", r)]
        changed = True
        while changed:
            kept = [
                r for r in left if _is_uniform(self._written[r][0], known, specials, parameters)
            ]
            changed = len(kept) < len(left)
            for register in set(left) - set(kept):
                del known[register]
            left = kept
        return known


def _is_uniform(
    instruction: Instruction,
    known: Mapping[int, object],
    specials: Set[str],
    parameters: Set[str],
) -> bool:
    """Say whether an instruction gives each thread the same, given the registers that are."""
    guard = instruction.guard
    if guard is not None and guard.register.index not in known:
        return False
    if instruction.opcode == "ld":
        match instruction.operands[1]:
            case Address(base=Symbol(name=name)):  # others are what a call passes or gives
                return name in parameters
        return False
    return instruction.opcode in _COMPUTES and all(
        isinstance(o, Integer | Float)
        or (isinstance(o, Register) and o.index in known)
        or (isinstance(o, Special) and o.name in specials)
        for o in instruction.operands[1:]
    )


def _value(operand: Operand) -> object:
    if isinstance(operand, Integer):
        return ("integer", operand.value)
    return ("float", operand.bits, operand.width) if isinstance(operand, Float) else None


def _only(instructions: Iterable[Instruction]) -> object:
    values = {_value(i.operands[1]) if i.opcode == "mov" else None for i in instructions}
    return values.pop() if len(values) == 1 else None
