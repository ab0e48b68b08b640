"""Video instructions: bytes and halves of registers, scalar and several at a time (PTX ISA 9.7.17).

Everything is computed in 64 bits, which no intermediate result of 34 bits exceeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from kernelrig.emu.isa._forms import chosen, expect, read, write
from kernelrig.emu.machine.instruction_table import Read, Row, Step, Unsupported, row
from kernelrig.emu.numerics.arrays import I32, I64, U32, Array
from kernelrig.ptx import Component, Instruction, Negated, Operand, Register

_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
_PLAIN: dict[str, Callable[[Array, Array], Array]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vavrg": lambda a, b: a + b + np.where(a + b >= 0, 1, 0) >> 1,
}
_SECOND: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_SELECTOR = re.compile(r"[bh]\d+")
_LIMITS = {
    (bits, signed): (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    for bits in (8, 16, 32)
    for signed in (True, False)
}


def _types(i: Instruction, count: int) -> list[bool]:
    """Return of each type in order whether it is signed."""
    found = [q == "s32" for q in i.qualifiers if q in ("u32", "s32")]
    if len(found) != count:
        raise Unsupported(f"{i.mnemonic}: {count} types are needed")
    return found


def _part(operand: Operand) -> tuple[Operand, str]:
    """Return the register, or constant, and the part of it."""
    if isinstance(operand, Negated):
        operand = operand.operand
    return (operand.register, operand.part) if isinstance(operand, Component) else (operand, "")


def _source(i: Instruction, operand: Operand) -> tuple[Read, str]:
    inner, part = _part(operand)
    return read(inner, U32), part


def _picked(bits: Array, part: str, *, signed: bool) -> Array:
    """Return a part of registers as a number of 64 bits."""
    if not part:
        return bits.view(I32 if signed else U32).astype(I64)
    wide = 8 if part[0] == "b" else 16
    value = bits.astype(I64) >> (wide * int(part[1:])) & ((1 << wide) - 1)
    return value - ((value >> (wide - 1) & 1) << wide) if signed else value


def _lowest(value: Array) -> Array:
    return (value & 0xFFFF_FFFF).astype(U32)


def _operation(i: Instruction) -> tuple[Callable[[Array, Array], Array], bool, list[bool]]:
    """Return what is done, whether the result is signed, and whether the operands are."""
    name = i.opcode.rstrip("24")
    if name == "vset":
        compare = _COMPARE[chosen(i, " ".join(_COMPARE))]
        return lambda a, b: compare(a, b).astype(I64), False, _types(i, 2)
    signed, *operands = _types(i, 3)
    if name in ("vshl", "vshr"):
        return _shift(name, wraps=chosen(i, "clamp wrap") == "wrap"), signed, operands
    return _PLAIN[name], signed, operands


def _shift(name: str, *, wraps: bool) -> Callable[[Array, Array], Array]:
    def run(a: Array, b: Array) -> Array:
        count = b & 31 if wraps else np.minimum(b, 32)
        return np.asarray(a << count if name == "vshl" else a >> count)

    return run


def _scalar(i: Instruction) -> Step:
    """One operation on a part of a and of b; the result joins c, or is merged into it."""
    operands = expect(i, 3, 4)
    operation, signed, (of_a, of_b) = _operation(i)
    saturates = "sat" in i.flags
    (a, part_a), (b, part_b) = (_source(i, o) for o in operands[1:3])
    target, merged = _part(operands[0])
    merged = merged or next((q for q in i.qualifiers if _SELECTOR.fullmatch(q)), "")
    second = next((_SECOND[q] for q in i.qualifiers if q in _SECOND), None)
    if len(operands) == 4 and not merged and second is None:
        raise Unsupported(f"{i.mnemonic}: a third operand is for .add, .min, .max and .dsel")

    def run(x: Array, y: Array, c: Array | None = None) -> Array:
        picked = _picked(x, part_a, signed=of_a), _picked(y, part_b, signed=of_b)
        value = operation(*picked)
        wide = 32 if not merged else 8 if merged[0] == "b" else 16
        if saturates:
            value = np.clip(value, *_LIMITS[wide, signed])
        if c is None:
            return _lowest(value)
        if second is not None:
            kind = I32 if signed else U32
            return _lowest(second(_lowest(value).view(kind).astype(I64), c.view(kind).astype(I64)))
        at, keep = wide * int(merged[1:]), (1 << wide) - 1
        return _lowest(c.astype(I64) & ~(keep << at) | (value & keep) << at)

    third = tuple(read(o, U32) for o in operands[3:])
    return Step(run, (a, b, *third), (write(target, U32),))


def _mad(i: Instruction) -> Step:
    """a times b plus c, or minus where one is negated, scaled."""
    operands = expect(i, 4)
    signed, of_a, of_b = _types(i, 3)
    negative = [isinstance(o, Negated) for o in operands[1:]]
    (a, part_a), (b, part_b), (c, _) = (_source(i, o) for o in operands[1:])
    scale = 7 if "shr7" in i.flags else 15 if "shr15" in i.flags else 0
    saturates, plus_one = "sat" in i.flags, "po" in i.flags
    signs = of_a or of_b or any(negative)

    def run(x: Array, y: Array, z: Array) -> Array:
        product = _picked(x, part_a, signed=of_a) * _picked(y, part_b, signed=of_b)
        added = z.view(I32 if signs else U32).astype(I64)
        if negative[0] != negative[1]:
            product = -product
        if negative[2]:
            added = -added
        value = product + added + plus_one >> scale
        return _lowest(np.clip(value, *_LIMITS[32, signed]) if saturates else value)

    return Step(run, (a, b, c), (write(operands[0], U32),))


def _several(i: Instruction) -> Step:
    """The same operation on two halves or four bytes; a selection of eight parts of a and b."""
    operands = expect(i, 4)
    count = int(i.opcode[-1])
    wide = 32 // count
    operation, signed, signs = _operation(i)
    if i.opcode.startswith("vset"):
        signed = False
    sums, saturates = "add" in i.flags, "sat" in i.flags
    (a, part_a), (b, part_b) = (_source(i, o) for o in operands[1:3])
    target, mask = _part(operands[0])
    lanes = [int(n) for n in mask[1:]] if mask else list(range(count))
    kinds = list(zip((part_a, part_b), signs, strict=True))
    if not isinstance(target, Register):
        raise Unsupported(f"{i.mnemonic}: {target} cannot be a result here")

    def run(x: Array, y: Array, c: Array) -> Array:
        parts: list[list[Array]] = []
        for part, signed_ in kinds:
            chosen_ = [int(n) for n in reversed(part[1:])] if part else None
            of_a, of_b = chosen_ or list(range(count)), chosen_ or list(range(count, 2 * count))
            numbers = of_a if not parts else of_b
            parts.append([_nth(x, y, n, wide, signed=signed_) for n in numbers])
        total = c.view(I32 if signed else U32).astype(I64) if sums else c.astype(I64)
        keep = (1 << wide) - 1
        for lane in lanes:
            value = operation(parts[0][lane], parts[1][lane])
            if saturates:
                value = np.clip(value, *_LIMITS[wide, signed])
            if sums:
                total = total + value
            else:
                total = total & ~(keep << wide * lane) | (value & keep) << wide * lane
        return _lowest(total)

    return Step(run, (a, b, read(operands[3], U32)), (write(target, U32),))


def _nth(x: Array, y: Array, number: int, wide: int, *, signed: bool) -> Array:
    """Return part `number` of the register pair: those of a first, then those of b."""
    count = 32 // wide
    letter = "b" if wide == 8 else "h"
    return _picked(x if number < count else y, f"{letter}{number % count}", signed=signed)


_PARTS = "b0 b1 b2 b3 h0 h1"
_TAKES = f"u32 s32 sat add min max {_PARTS}"
_CMP = " ".join(_COMPARE)
ROWS: tuple[Row, ...] = (
    *(row(name, _scalar, takes=_TAKES) for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax")),
    *(row(name, _scalar, takes=f"{_TAKES} clamp wrap") for name in ("vshl", "vshr")),
    row("vset", _scalar, takes=f"{_TAKES} {_CMP}"),
    row("vmad", _mad, takes="u32 s32 sat po shr7 shr15"),
    *(
        row(f"{name}{count}", _several, takes="u32 s32 sat add")
        for name in _PLAIN
        for count in (2, 4)
    ),
    *(row(f"vset{count}", _several, takes=f"u32 s32 add {_CMP}") for count in (2, 4)),
)
