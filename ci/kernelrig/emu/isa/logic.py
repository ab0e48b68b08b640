"""Logic, shifts and permutations of bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from kernelrig.emu.isa._forms import (
    alike,
    chosen,
    compared,
    expect,
    native,
    pure,
    read,
    typed,
    write,
)
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.numerics.arrays import BOOL, U8, U32, U64, Array
from kernelrig.ptx import Instruction, Integer, Pair

BITS = "b16 b32 b64"


def _same(ufunc: np.ufunc) -> Callable[[Instruction], Step]:
    return lambda i: alike(i, ufunc, ufunc.nin, typed(i), native=native(i.opcode, typed(i)))


def _cnot(i: Instruction) -> Step:
    run = lambda a: (a == 0).astype(a.dtype)  # noqa: E731
    return pure(i, run, typed(i), native=native(i.opcode, typed(i)))


def _shift(ufunc: Callable[..., Any]) -> Callable[[Instruction], Step]:
    """shl and shr: NumPy too shifts everything out where the count is the width or more."""

    def build(i: Instruction) -> Step:
        kind = typed(i)
        bits = 8 * kind.itemsize
        _, _, count = expect(i, 3)
        if isinstance(count, Integer):
            most = min(count.value & 0xFFFFFFFF, bits)
            by = np.array([[most]], kind)
            reads, writes = (read(i.operands[1], kind),), (write(i.operands[0], kind),)
            handler = native(f"{i.opcode}_by", kind, constants=(most,))
            return Step(lambda a: ufunc(a, by), reads, writes, native=handler)
        handler = native(i.opcode, kind)
        if bits == 32:
            return alike(i, ufunc, 2, kind, native=handler)
        run = lambda a, n: ufunc(a, np.minimum(n, bits).astype(kind))  # noqa: E731
        return pure(i, run, kind, U32, native=handler)

    return build


def _funnel(i: Instruction) -> Step:
    side, mode = chosen(i, "l r"), chosen(i, "clamp wrap")
    left, wrap = side == "l", mode == "wrap"
    half = np.uint64(32)

    def run(low: Array, high: Array, count: Array) -> Array:
        count = (count & 31 if wrap else np.minimum(count, 32)).astype(U64)
        both = high.astype(U64) << half | low
        return (both << count >> half if left else both >> count).astype(U32)

    return alike(i, run, 3, U32, native=native(f"shf.{side}.{mode}", U32))


def _lop3_function(table: int) -> Callable[[Array, Array, Array], Array]:
    """Return the bitwise function of three with that truth table."""
    ones = [k for k in range(8) if table >> k & 1]
    negated = len(ones) > 4
    if negated:
        ones = [k for k in range(8) if k not in ones]

    def run(a: Array, b: Array, c: Array) -> Array:
        zero = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), U32)
        sides = [(~x, x) for x in (a, b, c)]
        terms = (sides[0][k >> 2] & sides[1][k >> 1 & 1] & sides[2][k & 1] for k in ones)
        result = reduce(np.bitwise_or, terms, zero)
        return ~result if negated else result

    return run


def _lop3(i: Instruction) -> Step:
    boolean = chosen(i, "and or", "none")
    operands = expect(i, 5 if boolean == "none" else 6)
    table = operands[4]
    if not isinstance(table, Integer):
        raise Unsupported("lop3 needs its truth table as a constant")
    function = _lop3_function(table.value & 0xFF)
    reads = tuple(read(o, U32) for o in operands[1:4])
    target = operands[0]
    word = "lop3" if boolean == "none" else f"lop3.{boolean}"
    handler = native(word, U32, constants=(table.value & 0xFF,))
    if boolean == "none":
        return Step(function, reads, (write(target, U32),), native=handler)
    if not isinstance(target, Pair):
        raise Unsupported(f"{i.mnemonic} writes d|p")
    combine = np.logical_and if boolean == "and" else np.logical_or

    def run(a: Array, b: Array, c: Array, q: Array) -> tuple[Array, Array]:
        result = function(a, b, c)
        return result, combine(result != 0, q)

    writes = (write(target.first, U32), write(target.second, BOOL))
    return Step(run, (*reads, read(operands[5], BOOL)), writes, native=handler)


_PICKS: dict[str, Callable[[int], tuple[int, int, int, int]]] = {
    "f4e": lambda n: (n, n + 1, n + 2, n + 3),
    "b4e": lambda n: (n, n - 1 & 7, n - 2 & 7, n - 3 & 7),
    "rc8": lambda n: (n, n, n, n),
    "ecl": lambda n: (max(0, n), max(1, n), max(2, n), max(3, n)),
    "ecr": lambda n: (min(0, n), min(1, n), min(2, n), min(3, n)),
    "rc16": lambda n: (2, 3, 2, 3) if n & 1 else (0, 1, 0, 1),
}
"""Mode of prmt -> the bytes of the result, lowest first, by the lowest two bits of the control."""


def _selector(mode: str) -> Array:
    """Return the control word of the plain form for each n of a mode."""
    rows = (_PICKS[mode](n) for n in range(4))
    return np.array([sum(p << 4 * k for k, p in enumerate(picks)) for picks in rows], U32)


def _prmt(i: Instruction) -> Step:
    mode = chosen(i, " ".join(_PICKS), "none")
    expect(i, 4)
    if isinstance(i.operands[3], Integer) and mode == "none":
        return _prmt_constant(i, i.operands[3].value)
    words = None if mode == "none" else _selector(mode)

    def run(a: Array, b: Array, control: Array) -> Array:
        if words is not None:
            control = words[control & 3]
        both = b.astype(U64) << np.uint64(32) | a
        result = np.zeros(np.broadcast_shapes(both.shape, control.shape), U32)
        for k in range(4):
            pick = control >> (4 * k)
            byte = (both >> (pick & 7).astype(U64) * np.uint64(8)).astype(U8)
            sign = (byte.view(np.int8) >> 7).view(U8)
            result = result | np.where(pick & 8, sign, byte).astype(U32) << (8 * k)
        return result

    if words is None:
        handler = native("prmt", U32)
    else:
        handler = native("prmt_mode", U32, constants=words.tolist())
    return alike(i, run, 3, U32, native=handler)


def _prmt_constant(i: Instruction, control: int) -> Step:
    """Bytes that stay side by side move in one shift: most masks need two."""
    moves: dict[tuple[int, int], int] = {}  # (source, shift) -> bytes of the result
    signs: list[tuple[int, int, int]] = []
    for k in range(4):
        pick = control >> 4 * k & 0xF
        source, byte = pick >> 2 & 1, pick & 3
        if pick & 8:
            signs.append((source, byte, k))
        else:
            key = (source, 8 * (k - byte))
            moves[key] = moves.get(key, 0) | 0xFF << 8 * k

    def run(a: Array, b: Array) -> Array:
        parts = []
        for (source, by), mask in moves.items():
            x = b if source else a
            parts.append((x << by if by > 0 else x >> -by) & mask)
        for source, byte, k in signs:
            x = b if source else a
            parts.append((x << (24 - 8 * byte)).view(np.int32) >> 31 & np.int32(-1))
            parts[-1] = parts[-1].view(U32) & (0xFF << 8 * k)
        return reduce(np.bitwise_or, parts)

    reads = (read(i.operands[1], U32), read(i.operands[2], U32))
    handler = native("prmt_by", U32, constants=(control & 0xFFFF,))
    return Step(run, reads, (write(i.operands[0], U32),), native=handler)


ROWS: tuple[Row, ...] = compared(
    (
        row("and", _same(np.bitwise_and), takes=f"{BITS} pred"),
        row("or", _same(np.bitwise_or), takes=f"{BITS} pred"),
        row("xor", _same(np.bitwise_xor), takes=f"{BITS} pred"),
        row("not", _same(np.invert), takes=f"{BITS} pred"),
        row("cnot", _cnot, takes=BITS),
        row("shl", _shift(np.left_shift), takes=BITS),
        row("shr", _shift(np.right_shift), takes=f"{BITS} u16 s16 u32 s32 u64 s64"),
        row("shf", _funnel, "b32", "l r clamp wrap"),
        row("lop3", _lop3, "b32", "and or"),
        row("prmt", _prmt, "b32", " ".join(_PICKS)),
    )
)
