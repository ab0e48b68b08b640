"""Which array of shared memory an access is meant for: the one whose address it is computed from.

An index that is one too large leaves the array, and mostly not the CTA's shared memory: the next
array lies there. C++ allows no such access. An access is known where every way to its address
starts from one variable; of dynamic shared memory, which may be divided anyhow, nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelrig.emu.machine.region_names import RegionNames, SharedRegion
from kernelrig.ptx import (
    Address,
    Function,
    Instruction,
    Operand,
    Register,
    Symbol,
    registers_in,
    results,
)

_ACCESSES = frozenset({"ld", "st", "atom", "red", "ldmatrix", "stmatrix"})
_OFFSETS = frozenset({"mov", "cvta", "cvt", "add", "sub", "mad", "fma", "and", "or", "xor", "selp"})
"""Opcodes whose result is an address where an operand is one."""
_SCALES = frozenset({"mul", "shl", "shr"})

_UNKNOWN, _NUMBER, _ANY = "", "0", "*"
"""What is known of a register besides the name of a variable: nothing yet, that it is a number,
that it may be anything.
"""


def arrays_of(function: Function, names: RegionNames) -> Mapping[int, SharedRegion]:
    """Return the array that each access to shared memory is meant for, by its instruction."""
    arrays = {one.name: one for one in names.shared if one.kind == "variable" and one.count == 1}
    if len(names.shared) < 2 or not arrays:
        return {}
    known = _origins(function, arrays)
    found: dict[int, SharedRegion] = {}
    for instruction in function.instructions:
        if instruction.opcode not in _ACCESSES or "async" in instruction.flags:
            continue
        address = next((o for o in instruction.operands if isinstance(o, Address)), None)
        if address is not None:
            array = arrays.get(_of_operand(address.base, known, arrays))
            if array is not None:
                found[instruction.index] = array
    return found


def _origins(function: Function, arrays: Mapping[str, SharedRegion]) -> dict[int, str]:
    """Return what each register is computed from, by all instructions that write it."""
    known: dict[int, str] = {}
    makes = [(i, tuple(r.index for r in results(i))) for i in function.instructions]
    grows = True
    while grows:
        grows = False
        for instruction, made in makes:
            origin = _of_instruction(instruction, known, arrays) if made else _UNKNOWN
            for register in made:
                before = known.get(register, _UNKNOWN)
                if (now := _either(before, origin)) != before:
                    known[register] = now
                    grows = True
    return known


def _of_instruction(
    i: Instruction, known: Mapping[int, str], arrays: Mapping[str, SharedRegion]
) -> str:
    if i.opcode not in _OFFSETS | _SCALES:
        return _ANY if i.opcode in ("call", "mapa") else _NUMBER
    origins = [_of_operand(o, known, arrays) for o in i.operands[1:]]
    if i.opcode == "selp":  # one of two, and no sum of them
        return _either(origins[0], origins[1])
    named = [one for one in origins if one not in (_UNKNOWN, _NUMBER)]
    if not named:
        return _UNKNOWN if _UNKNOWN in origins else _NUMBER
    # The difference of two addresses, and a multiple of one, are none.
    behind = i.opcode == "sub" and origins[-1] == named[-1]
    multiplied = i.opcode in ("mad", "fma") and len(named) != (origins[-1] == named[-1])
    if len(named) > 1 or behind or multiplied or i.opcode in _SCALES:
        return _ANY
    return named[0]


def _of_operand(
    operand: Operand, known: Mapping[int, str], arrays: Mapping[str, SharedRegion]
) -> str:
    if isinstance(operand, Symbol):
        return operand.name if operand.name in arrays else _ANY
    if isinstance(operand, Register):
        return known.get(operand.index, _UNKNOWN)
    origins = {known.get(r.index, _UNKNOWN) for r in registers_in(operand)}
    return _NUMBER if origins <= {_NUMBER} else _ANY


def _either(one: str, other: str) -> str:
    if one in (_UNKNOWN, other):
        return other
    return one if other == _UNKNOWN else _ANY
