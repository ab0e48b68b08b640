"""What the rows of every family are built from: types, and operands checked and laid flat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from kernelrig.emu.machine.instruction_table import Native, Read, Row, Step, Unsupported, Write
from kernelrig.emu.numerics.arrays import BOOL, F32, F64, LANES, SIGNED, UNSIGNED
from kernelrig.ptx import (
    Component,
    Float,
    Instruction,
    Integer,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from kernelrig.ptx.types import BYTES

Type = np.dtype[Any]

F16 = np.dtype(np.float16)
TYPES: dict[str, Type] = {
    **{f"{kind}{8 * n}": UNSIGNED[n] for kind in "ub" for n in UNSIGNED},
    **{f"s{8 * n}": SIGNED[n] for n in SIGNED},
    **{"f16": F16, "f32": F32, "f64": F64, "pred": BOOL},
    **{name: UNSIGNED[2] for name in ("bf16", "e4m3x2", "e5m2x2", "ue8m0x2")},
    **{name: UNSIGNED[4] for name in ("f16x2", "bf16x2", "u16x2", "s16x2", "tf32")},
    "f32x2": UNSIGNED[8],
}
"""Type in PTX -> the type its array is read as; what NumPy has no name for is read as its bits."""

LANE = np.arange(LANES, dtype=np.uint32)[None, :]
"""The number of each lane, (1, 32)."""


ON_H200 = "tests/emu/test_instructions.py, H200, driver 580.159.04"
"""The test in which the scalar rows agreed with an H200."""

MEMORY_ON_H100 = "tests/emu/test_memory_cases.py, H100, driver 580.159.04"
COPIES_ON_H200 = "tests/emu/test_copies.py, H200, driver 580.159.04"
IM2COL_ON_H100 = "tests/emu/test_im2col_copies.py, H100, driver 580.159.04"

_NOTHING: Mapping[str, str] = MappingProxyType({})
WHOLLY = "*"


def compared(rows: tuple[Row, ...], untried: Mapping[str, str] = _NOTHING) -> tuple[Row, ...]:
    """Say of the rows that they were compared with hardware.

    `untried`: name of a row -> the words it takes that no case had, or WHOLLY. A row stands behind
    its part that was compared, and takes the rest.
    """
    made: list[Row] = []
    for one in rows:
        words = untried.get(one.name, "")
        if words != WHOLLY:
            made.append(replace(one, takes=one.takes - set(words.split()), checked=ON_H200))
        if words:
            made.append(one)
    return tuple(made)


def partly(rows: tuple[Row, ...], by: str, tried: Mapping[str, str]) -> tuple[Row, ...]:
    """Say of the rows what was compared with hardware, by the test `by`.

    `tried`: name of a row -> the words it takes that a case had. The row stands behind that part,
    and takes the rest.
    """
    made: list[Row] = []
    for one in rows:
        words = frozenset(tried[one.name].split()) if one.name in tried else None
        if words is not None:
            made.append(replace(one, takes=one.takes & words, checked=by))
        if words is None or not one.takes <= words:
            made.append(one)
    return tuple(made)


def types(i: Instruction) -> tuple[str, ...]:
    """Return the types among the qualifiers, in their order."""
    return tuple(q for q in i.qualifiers if q in TYPES)


def type_name(i: Instruction) -> str:
    """Return the one type of `i`."""
    found = types(i)
    if len(found) != 1:
        raise Unsupported(f"{i.mnemonic} needs one type, and has {len(found)}")
    return found[0]


def typed(i: Instruction) -> Type:
    """Return what the operands of `i` are read as."""
    return TYPES[type_name(i)]


def unsigned(dtype: Type) -> Type:
    """Return the type of a register's bits that `dtype` is a view of."""
    return UNSIGNED[dtype.itemsize]


def chosen(i: Instruction, words: str, default: str = "") -> str:
    """Return which of `words` is a flag of `i`.

    Raises:
        Unsupported: there are two, or none and no default.
    """
    found = [w for w in words.split() if w in i.flags]
    if len(found) > 1 or not (found or default):
        raise Unsupported(f"{i.mnemonic} needs one of .{', .'.join(words.split())}")
    return found[0] if found else default


def expect(i: Instruction, *counts: int) -> tuple[Operand, ...]:
    """Return the operands of `i`, which must be so many."""
    if len(i.operands) not in counts:
        wanted = " or ".join(map(str, counts))
        raise Unsupported(f"{i.mnemonic} takes {wanted} operands, not {len(i.operands)}")
    return i.operands


def flat(operand: Operand) -> tuple[Operand, ...]:
    """Return the parts of a vector or a pair; of anything else, itself."""
    match operand:
        case Vector():
            return tuple(part for item in operand.items for part in flat(item))
        case Pair():
            return (*flat(operand.first), *flat(operand.second))
    return (operand,)


def width(register: Register) -> int:
    """Return the bytes of a register; 0 of a predicate."""
    if register.lanes > 1:
        raise Unsupported(f"{register} is a vector register, which is not supported: use scalars")
    return BYTES[register.type]


def read(operand: Operand, dtype: Type) -> Read:
    """Read a scalar as `dtype`, which must be as wide as its register."""
    match operand:
        case Register():
            _check_width(operand, dtype)
        case Negated(sign="!", operand=Register() as inner) if dtype == BOOL:
            _check_width(inner, dtype)
        case Integer() | Float() | Special():
            pass
        case Symbol() if dtype.itemsize >= 4:
            pass
        case Component():
            raise Unsupported(f"{operand} is no element of its register")
        case _:
            raise Unsupported(f"{operand} cannot be an operand here")
    return operand, dtype


def write(operand: Operand, dtype: Type) -> Write:
    """Write a scalar; `_` drops it."""
    match operand:
        case Sink():
            return None, dtype
        case Register():
            _check_width(operand, dtype)
            return operand, dtype
    raise Unsupported(f"{operand} cannot be a result here")


def pure(
    i: Instruction,
    run: Callable[..., Any],
    *dtypes: Type,
    result: Type | None = None,
    native: Native | None = None,
) -> Step:
    """Make the step whose result is the first operand and whose reads are the others.

    `dtypes` are one a read; `result` defaults to the first of them.
    """
    target, *sources = expect(i, len(dtypes) + 1)
    reads = tuple(map(read, sources, dtypes))
    return Step(run, reads, (write(target, result or dtypes[0]),), native=native)


def alike(
    i: Instruction,
    run: Callable[..., Any],
    count: int,
    dtype: Type,
    result: Type | None = None,
    native: Native | None = None,
) -> Step:
    """Make the pure step of `count` reads of one type."""
    return pure(i, run, *[dtype] * count, result=result, native=native)


_KINDS = {"u": "u", "i": "s", "f": "f"}


def native(word: str, *types: Type | str, constants: Iterable[int] = ()) -> Native:
    """Name the native core's handler of an operation on these types: `add.u32`, `dp4a.u32.s32`.

    `constants` are what the handler is told besides, once for the instruction.
    """
    words = (t if isinstance(t, str) else _type_word(t) for t in types)
    return Native(".".join((word, *words)), tuple(constants))


def _type_word(dtype: Type) -> str:
    return "pred" if dtype == BOOL else f"{_KINDS[dtype.kind]}{8 * dtype.itemsize}"


def _check_width(register: Register, dtype: Type) -> None:
    wanted = 0 if dtype == BOOL else dtype.itemsize
    if (found := width(register)) != wanted:
        names = ["a predicate" if n == 0 else f"{8 * n} bits" for n in (found, wanted)]
        raise Unsupported(f"{register} has {names[0]}, and the instruction works on {names[1]}")
