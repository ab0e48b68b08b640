"""Which registers an instruction writes: PTX puts results first, if there are any."""

from __future__ import annotations

from kernelrig.ptx.nodes import Instruction
from kernelrig.ptx.operands import Arguments, Component, Operand, Pair, Register, Vector

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
