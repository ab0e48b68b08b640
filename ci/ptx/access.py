"""Which registers an instruction writes and reads: PTX puts results first, if there are any."""

from __future__ import annotations

from ci.ptx.nodes import Instruction
from ci.ptx.operands import (
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
    {"bar", "barrier", "bra", "brx", "brkpt", "call", "nanosleep", "pmevent", "stackrestore"}
)
"""Opcodes whose first operand is no result, though it may be a register."""


def results(instruction: Instruction) -> tuple[Register, ...]:
    """Return the registers written; of a vector register, also where only a part is."""
    if not _has_result(instruction):
        return ()
    first = instruction.operands[0]
    return () if isinstance(first, Address | TensorAddress) else _registers(first)


def reads(instruction: Instruction) -> tuple[Register, ...]:
    """Return the registers read, the guard's and those of addresses among them."""
    operands = instruction.operands
    if _has_result(instruction) and not isinstance(operands[0], Address | TensorAddress):
        operands = operands[1:]
    guard = (instruction.guard.register,) if instruction.guard else ()
    return guard + tuple(r for operand in operands for r in _registers(operand))


def _has_result(instruction: Instruction) -> bool:
    if not instruction.operands:
        return False
    match instruction.opcode:
        case "call":
            # Parentheses in front are results; a function without any stands first itself.
            return isinstance(instruction.operands[0], Arguments)
        case "tcgen05":
            return instruction.has("ld")
    return instruction.opcode not in _NO_RESULT or instruction.has("red")


def _registers(operand: Operand) -> tuple[Register, ...]:
    match operand:
        case Register():
            return (operand,)
        case Component():
            return (operand.register,)
        case Negated():
            return _registers(operand.operand)
        case Address():
            return _registers(operand.base)
        case Pair():
            return _registers(operand.first) + _registers(operand.second)
        case Vector() | Arguments() | TensorAddress():
            return tuple(r for item in operand.items for r in _registers(item))
    return ()
