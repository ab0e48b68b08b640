"""Which registers an instruction writes: PTX puts results first, if there are any."""

from __future__ import annotations

from ci.ptx.nodes import Instruction
from ci.ptx.operands import Arguments, Component, Operand, Pair, Register, Vector

_NO_RESULT = frozenset(
    {"bar", "barrier", "bra", "brx", "brkpt", "call", "nanosleep", "pmevent", "stackrestore"}
)
"""Opcodes whose first operand is no result, though it may be a register."""


def results(instruction: Instruction) -> tuple[Register, ...]:
    """Return the registers written; of a vector register, also where only a part is."""
    if not instruction.operands:
        return ()
    first, opcode = instruction.operands[0], instruction.opcode
    if opcode == "call":
        return _registers(first) if isinstance(first, Arguments) and _returns(instruction) else ()
    if opcode in _NO_RESULT and not instruction.has("red"):
        return ()
    if opcode == "tcgen05" and not instruction.has("ld"):
        return ()
    return _registers(first)


def _returns(instruction: Instruction) -> bool:
    """Say whether the first parentheses of a call are its results: a function stands behind."""
    return len(instruction.operands) > 1


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
