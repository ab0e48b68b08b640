"""Registers of 128 bits as pairs of 64: no instruction computes with them, they are moved alone."""

from __future__ import annotations

from dataclasses import replace

from kernelrig.ptx import Function, Operand, Register, Vector

WIDE = "b128"


def split(function: Function) -> Function:
    """Return `function` with each register of .b128 made two of .b64, {lower, upper}.

    The lower half keeps the number of the whole. Instructions keep their text: those that take
    .b128 see vectors.
    """
    wide = [r for r in function.registers if r.type == WIDE]
    if not wide:
        return function
    registers = list(function.registers)
    pairs: dict[int, Vector] = {}
    for register in wide:
        lower = Register(f"{register.name}.lo", "b64", register.index)
        upper = Register(f"{register.name}.hi", "b64", len(registers))
        registers[register.index] = lower
        registers.append(upper)
        pairs[register.index] = Vector((lower, upper))

    def halved(operand: Operand) -> Operand:
        match operand:
            case Register(type=kind) if kind == WIDE:
                return pairs[operand.index]
            case Vector():
                return replace(operand, items=tuple(map(halved, operand.items)))
        return operand

    instructions = tuple(
        replace(i, operands=tuple(map(halved, i.operands))) for i in function.instructions
    )
    return replace(function, instructions=instructions, registers=tuple(registers))
