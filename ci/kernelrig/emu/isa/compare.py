"""Comparison and selection: setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kernelrig.emu.isa._forms import (
    TYPES,
    chosen,
    compared,
    expect,
    native,
    pure,
    read,
    type_name,
    typed,
    types,
    unsigned,
    write,
)
from kernelrig.emu.machine.instruction_table import Native, Read, Row, Step, Unsupported, row
from kernelrig.emu.numerics.arrays import BOOL, F32, I32, Array
from kernelrig.emu.numerics.float_functions import COMPARISONS
from kernelrig.emu.numerics.float_functions import compared as comparison
from kernelrig.emu.numerics.rounding import F16, bf16_value, bf16x2_values, flushed, halves, joined
from kernelrig.ptx import Instruction, Operand, Pair

_ORDERED = "eq ne lt le gt ge"
_SYNONYMS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_FLOAT_ONLY = "equ neu ltu leu gtu geu num nan"
_WORDS = f"{_ORDERED} {_FLOAT_ONLY} {' '.join(_SYNONYMS)}"
_BOOLEANS: dict[str, Callable[..., Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_INTEGERS = "b16 b32 b64 u16 u32 u64 s16 s32 s64"
_HALVES = "f16 bf16 f16x2 bf16x2"
_PAIRS = ("f16x2", "bf16x2")
_VIEWS: dict[str, Callable[[Array], Array]] = {
    "bf16": bf16_value,
    "f16x2": lambda x: halves(x).view(F16),
    "bf16x2": bf16x2_values,
}
"""Type -> what makes numbers of an array that is read as bits."""


def _comparison(i: Instruction, name: str) -> Callable[[Array, Array], Array]:
    """Return the comparison of two arrays, as they are read, of that type."""
    word = chosen(i, _WORDS)
    if name[0] in "bsu" and name != "bf16" and name not in _PAIRS:
        if word in _FLOAT_ONLY.split():
            raise Unsupported(f"{i.mnemonic}: .{word} compares floats")
        if word in _SYNONYMS and name[0] != "u":
            raise Unsupported(f"{i.mnemonic}: .{word} compares unsigned integers")
        if name[0] == "b" and word not in ("eq", "ne"):
            raise Unsupported(f"{i.mnemonic}: bits are equal or not")
        return COMPARISONS[_SYNONYMS.get(word, word)]
    if word in _SYNONYMS:
        raise Unsupported(f"{i.mnemonic}: .{word} compares unsigned integers")
    function = comparison(word)
    view = _VIEWS.get(name)
    if "ftz" in i.flags:
        flush = flushed if name == "f32" else _flushed_half
        inner = function
        function = lambda a, b: inner(flush(a), flush(b))  # noqa: E731
    if view is None:
        return function
    return lambda a, b: function(view(a), view(b))


_TABLES = {"none": (), "and": (0b1000,), "or": (0b1110,), "xor": (0b0110,)}
"""Boolean operation -> its truth table: bit 2 p + q is the result of p and q."""


def _handler(i: Instruction, name: str, *constants: int) -> Native | None:
    """Name the handler of the comparison of an instruction, None of a form PTX does not have."""
    word = chosen(i, _WORDS)
    word = _SYNONYMS.get(word, word)
    if "ftz" in i.flags:
        if name not in ("f32", "f16", "f16x2"):
            return None
        word += ".ftz"
    table = _TABLES[chosen(i, "and or xor", "none")]
    kind = name if name in _HALVES.split() else TYPES[name]
    return native(f"{i.opcode}.{word}", kind, constants=(*constants, *table))


def _flushed_half(x: Array) -> Array:
    return np.where(np.abs(x) < np.float16(2.0**-14), np.copysign(np.float16(0), x), x)


def _condition(i: Instruction, sources: tuple[Operand, ...]) -> tuple[str, tuple[Read, ...]]:
    """Return the boolean operation and its predicate; "" and () without one."""
    boolean = chosen(i, "and or xor", "none")
    if boolean == "none":
        if sources:
            raise Unsupported(f"{i.mnemonic} takes a predicate only with .and, .or or .xor")
        return "", ()
    if not sources:
        raise Unsupported(f"{i.mnemonic} needs a predicate as its last operand")
    return boolean, (read(sources[0], BOOL),)


def _setp(i: Instruction) -> Step:
    target, a, b, *rest = expect(i, 3, 4)
    name = type_name(i)
    compare = _comparison(i, name)
    boolean, condition = _condition(i, tuple(rest))
    reads = (read(a, TYPES[name]), read(b, TYPES[name]), *condition)
    combine = _BOOLEANS.get(boolean)
    handler = _handler(i, name)
    if name in _PAIRS:
        return replace(_setp_pair(i, target, reads, compare, combine), native=handler)
    if not isinstance(target, Pair):
        one: Callable[..., Array] = compare
        if combine is not None:
            one = lambda x, y, c: combine(compare(x, y), c)  # noqa: E731
        return Step(one, reads, (write(target, BOOL),), native=handler)

    def both(x: Array, y: Array, *c: Array) -> tuple[Array, Array]:
        result = compare(x, y)
        if combine is None:
            return result, ~result
        return combine(result, c[0]), combine(~result, c[0])

    writes = (write(target.first, BOOL), write(target.second, BOOL))
    return Step(both, reads, writes, native=handler)


def _setp_pair(
    i: Instruction,
    target: Operand,
    reads: tuple[Read, ...],
    compare: Callable[[Array, Array], Array],
    combine: Callable[..., Any] | None,
) -> Step:
    """A predicate for each half: the first for the lower one."""
    if not isinstance(target, Pair):
        raise Unsupported(f"{i.mnemonic} writes p|q")

    def run(x: Array, y: Array, *c: Array) -> tuple[Array, Array]:
        result = compare(x, y)
        low, high = result[..., 0], result[..., 1]
        if combine is None:
            return low, high
        return combine(low, c[0]), combine(high, c[0])

    return Step(run, reads, (write(target.first, BOOL), write(target.second, BOOL)))


_TRUE = {
    "f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF,
    "u16": 0xFFFF, "s16": 0xFFFF, "f16x2": 0x3C00, "bf16x2": 0x3F80,
}  # fmt: skip
"""Type of a set's result -> the bits that stand for true, of each half in pairs."""


def _set(i: Instruction) -> Step:
    target, a, b, *rest = expect(i, 3, 4)
    found = types(i)
    if len(found) != 2:
        raise Unsupported(f"{i.mnemonic} needs the type of the result and of the source")
    result_name, name = found
    if result_name not in _TRUE:
        raise Unsupported(f"{i.mnemonic}: a comparison does not become .{result_name}")
    compare = _comparison(i, name)
    boolean, condition = _condition(i, tuple(rest))
    combine = _BOOLEANS.get(boolean)
    result = TYPES[result_name]
    true = np.array([[_TRUE[result_name]]], unsigned(result)).view(result)

    def run(x: Array, y: Array, *c: Array) -> Array:
        holds = compare(x, y)
        if name in _PAIRS:
            one = _TRUE[result_name] & 0xFFFF
            if combine is not None:
                holds = combine(holds, c[0][..., None])
            return joined(np.where(holds, np.uint16(one), np.uint16(0))).view(result)
        if combine is not None:
            holds = combine(holds, c[0])
        return np.where(holds, true, result.type(0))

    kind = TYPES[name]
    reads, writes = (read(a, kind), read(b, kind), *condition), (write(target, result),)
    handler = None
    if (name in _PAIRS) == (result_name in _PAIRS):
        handler = _handler(i, name, _TRUE[result_name], result.itemsize)
    return Step(run, reads, writes, native=handler)


def _selp(i: Instruction) -> Step:
    kind = unsigned(typed(i))
    run = lambda a, b, p: np.where(p, a, b)  # noqa: E731
    return pure(i, run, kind, kind, BOOL, native=native("selp", kind))


def _slct(i: Instruction) -> Step:
    """The first where the last is not negative; -0.0 is not, a NaN is."""
    found = types(i)
    if len(found) != 2:
        raise Unsupported(f"{i.mnemonic} needs the type of the result and of what it looks at")
    kind = unsigned(TYPES[found[0]])
    sign = I32 if found[1] == "s32" else F32
    ftz = "ftz" in i.flags

    def run(a: Array, b: Array, c: Array) -> Array:
        return np.where((flushed(c) if ftz else c) >= 0, a, b)

    word = "slct.ftz" if ftz and sign == F32 else "slct"
    return pure(i, run, kind, kind, sign, native=native(word, kind, sign))


_PLAIN = f"{_INTEGERS} f32 f64"

_UNTRIED = {
    "set": "b16 b32 b64 u16 u64 s16 s64 bf16 f16x2 bf16x2 eq ne le gt ge lo ls hi hs equ ltu leu "
    "geu num nan and or ftz",
    "selp": "u16 u32 u64 s16 s32 s64 f64",
    "slct": "b16 b64 u16 u32 s16 s64 f64 ftz",
}

ROWS: tuple[Row, ...] = compared(
    (
        row("setp", _setp, takes=f"{_PLAIN} {_HALVES} {_WORDS} and or xor ftz"),
        row("set", _set, takes=f"{_PLAIN} {_HALVES} {_WORDS} and or xor ftz"),
        row("selp", _selp, takes=_PLAIN),
        row("slct", _slct, takes=f"{_PLAIN} ftz"),
    ),
    _UNTRIED,
)
