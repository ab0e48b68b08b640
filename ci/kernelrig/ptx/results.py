"""Which registers an instruction names, and which it writes: PTX puts results first."""

from __future__ import annotations

from collections.abc import Iterable

from kernelrig.ptx.nodes import Function, Instruction
from kernelrig.ptx.operands import (
    Address,
    Arguments,
    Component,
    Negated,
    Operand,
    Pair,
    Register,
    TensorAddress,
    Vector,
)

_NO_RESULT = frozenset(
    {"bar", "barrier", "bra", "brx", "brkpt", "nanosleep", "pmevent", "stackrestore"}
)
"""Opcodes whose first operand is no result, though it may be a register."""


def results(instruction: Instruction) -> tuple[Register, ...]:
    """Return the registers written; of a vector register, also where only a part is."""
    if not instruction.operands:
        return ()
    first = instruction.operands[0]
    match instruction.opcode:
        case "call":
            # Parentheses in front are results; a function without any stands first itself.
            return _registers(first) if isinstance(first, Arguments) else ()
        case "tcgen05":
            return _registers(first) if instruction.has("ld") else ()
    if instruction.opcode in _NO_RESULT and not instruction.has("red"):
        return ()
    return _registers(first)


def writers(function: Function) -> dict[int, list[Instruction]]:
    """Return the instructions that write a register, by its index."""
    found: dict[int, list[Instruction]] = {}
    for instruction in function.instructions:
        for register in results(instruction):
            found.setdefault(register.index, []).append(instruction)
    return found


def taken(instruction: Instruction) -> set[int]:
    """Return the indices of the registers that an instruction names besides its results."""
    operands = instruction.operands[1 if results(instruction) else 0 :]
    guard = (instruction.guard.register,) if instruction.guard else ()
    return {r.index for r in (*guard, *(r for o in operands for r in registers_in(o)))}


def _registers(operand: Operand) -> tuple[Register, ...]:
    match operand:
        case Register():
            return (operand,)
        case Component():
            return (operand.register,)
        case Pair():
            return _registers(operand.first) + _registers(operand.second)
        case Vector() | Arguments():
            return tuple(r for item in operand.items for r in _registers(item))
    return ()


def registers_in(operand: Operand) -> Iterable[Register]:
    """Yield the registers that an operand names, those of addresses too."""
    match operand:
        case Register():
            yield operand
        case Component(register=register):
            yield register
        case Negated():
            yield from registers_in(operand.operand)
        case Address():
            yield from registers_in(operand.base)
        case Pair():
            yield from registers_in(operand.first)
            yield from registers_in(operand.second)
        case Vector() | TensorAddress() | Arguments():
            for item in operand.items:
                yield from registers_in(item)
