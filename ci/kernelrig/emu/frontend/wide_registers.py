"""Registers that hold several as several: 128 bits as pairs of 64, vectors as their elements.

No instruction computes with them as a whole; they are moved alone, and elements of vectors named.
"""

from __future__ import annotations

from dataclasses import replace

from kernelrig.ptx import Component, Function, Operand, Register, Vector

WIDE = "b128"
_ELEMENTS = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}


def split(function: Function) -> Function:
    """Return `function` with each register of .b128 made two of .b64, {lower, upper}, and each of
    .v2, .v4 or .v8 made its elements.

    The first part keeps the number of the whole. Instructions keep their text: those that take
    .b128, or a vector's name, see vectors.
    """
    registers = list(function.registers)
    parts: dict[int, Vector] = {}
    for register in function.registers:
        names, kind = _parts(register)
        if names:
            at = (register.index, *range(len(registers), len(registers) + len(names) - 1))
            made = [Register(n, kind, i) for n, i in zip(names, at, strict=True)]
            registers[register.index] = made[0]
            registers += made[1:]
            parts[register.index] = Vector(tuple(made))
    if not parts:
        return function

    def divided(operand: Operand) -> Operand:
        match operand:
            case Register(index=index) if index in parts:
                return parts[index]
            case Component(register=Register(index=index, lanes=lanes), part=part) if (
                lanes > _ELEMENTS.get(part, lanes)
            ):
                return parts[index].items[_ELEMENTS[part]] if index in parts else operand
            case Vector():
                return replace(operand, items=tuple(map(divided, operand.items)))
        return operand

    instructions = tuple(
        replace(i, operands=tuple(map(divided, i.operands))) for i in function.instructions
    )
    return replace(function, instructions=instructions, registers=tuple(registers))


def _parts(register: Register) -> tuple[tuple[str, ...], str]:
    """Return the names of a register's parts and their type; no names where it is one itself."""
    if register.lanes > 1:
        letters = "xyzw" if register.lanes <= len("xyzw") else "01234567"
        return tuple(f"{register.name}.{n}" for n in letters[: register.lanes]), register.type
    if register.type == WIDE:
        return (f"{register.name}.lo", f"{register.name}.hi"), "b64"
    return (), register.type
