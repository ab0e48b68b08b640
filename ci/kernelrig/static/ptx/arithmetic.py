"""Integer arithmetic of PTX on bit patterns: enough for indices, masks and comparisons."""

from __future__ import annotations

from collections.abc import Callable

from kernelrig.ptx import Instruction

_ALL = 2**64 - 1
_BITS: dict[str, int] = {f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64)}

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}
_TWO: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": lambda a, b: min(a, b),
    "max": lambda a, b: max(a, b),
}
_MOVES = frozenset({"mov", "cvt", "cvta"})

_MORE = (
    "shl shr mul mad not neg abs div rem selp setp set bfe bfi prmt lop3 shf popc clz brev bfind"
    " slct sad cnot mul24 mad24 mapa isspacep fma"
)
PURE = frozenset([*_TWO, *_MOVES, *_MORE.split()])
"""Opcodes whose result rests on their operands alone."""


def type_of(instruction: Instruction) -> tuple[int, bool] | None:
    """Return the bits and the signedness that an integer instruction works with."""
    types = [q for q in instruction.qualifiers if q in _BITS]
    return (_BITS[types[-1]], types[-1][0] == "s") if types else None


def comparison(instruction: Instruction) -> str:
    """Return how `setp` compares, empty where it is nothing that integers are asked."""
    return next((q for q in instruction.qualifiers if q in _COMPARE), "")


def compared(instruction: Instruction, a: int, b: int) -> bool | None:
    """Answer a `setp` of integers, without what it is joined with; None if it is of floats."""
    kind, how = type_of(instruction), comparison(instruction)
    if kind is None or not how:
        return None
    bits, signed = kind
    return _COMPARE[how](_read(a, bits, signed), _read(b, bits, signed))


def computed(instruction: Instruction, operands: list[int]) -> int | None:
    """Return the result's bit pattern; None for what is not modelled."""
    kind = type_of(instruction)
    if kind is None or instruction.has("sat"):
        return None
    bits, signed = kind
    opcode, numbers = instruction.opcode, [_read(n, bits, signed) for n in operands]
    found: int | None = None
    if opcode in _MOVES and len(numbers) == 1:
        found = numbers[0]
        if opcode == "cvt":
            # `cvt.to.from`: the last type is the source's, the first says what is kept.
            to = next(q for q in instruction.qualifiers if q in _BITS)
            return _read(found, _BITS[to], to[0] == "s") & _ALL
    elif opcode in _TWO and len(numbers) == 2:
        found = _TWO[opcode](*numbers)
    elif opcode == "not" and len(numbers) == 1:
        found = ~numbers[0]
    elif opcode in ("shl", "shr") and len(numbers) == 2:
        count = min(operands[1] & (2**32 - 1), bits)
        found = numbers[0] << count if opcode == "shl" else numbers[0] >> count
    elif opcode in ("mul", "mad") and "lo" in instruction.flags:
        found = numbers[0] * numbers[1] + sum(numbers[2:])
    return None if found is None else found & ((1 << bits) - 1)


def _read(pattern: int, bits: int, signed: bool) -> int:
    value = pattern & ((1 << bits) - 1)
    return value - (1 << bits) if signed and value >> (bits - 1) else value
