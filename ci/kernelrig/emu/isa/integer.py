"""Integers: arithmetic, multiplication, dot products, bit counts and bit fields, carry chains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kernelrig.emu.isa._forms import (
    TYPES,
    alike,
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
from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.numerics.arrays import (
    I32,
    I64,
    LANES,
    SIGNED,
    U16,
    U32,
    U64,
    Array,
    Mask,
    full_mask,
)
from kernelrig.emu.numerics.rounding import halves, joined
from kernelrig.ptx import Instruction

ALL = "u16 s16 u32 s32 u64 s64"
_WIDE = {2: 4, 4: 8}
_I32_RANGE = (-(1 << 31), (1 << 31) - 1)


def _same(ufunc: np.ufunc) -> Callable[[Instruction], Step]:
    """One function of equal types."""
    return lambda i: alike(i, ufunc, ufunc.nin, typed(i), native=native(i.opcode, typed(i)))


def _clamped(x: Array) -> Array:
    return np.clip(x, *_I32_RANGE).astype(I32)


def _saturated(ufunc: Callable[..., Any]) -> Callable[[Instruction], Step]:
    return lambda i: alike(
        i,
        lambda a, b: _clamped(ufunc(a.astype(I64), b)),
        2,
        I32,
        native=native(f"{i.opcode}.sat", I32),
    )


def _each_half(ufunc: Callable[..., Any]) -> Callable[[Instruction], Step]:
    """A function of both 16-bit halves."""

    def build(i: Instruction) -> Step:
        kind = TYPES[type_name(i).removesuffix("x2")]
        relu = "relu" in i.flags

        def run(*pairs: Array) -> Array:
            result = ufunc(*(halves(p).view(kind) for p in pairs))
            return joined((np.maximum(result, 0) if relu else result).view(U16))

        word = f"{i.opcode}.relu" if relu else i.opcode
        return alike(i, run, 2, U32, native=native(word, type_name(i)))

    return build


def _with_relu(ufunc: Callable[..., Any]) -> Callable[[Instruction], Step]:
    return lambda i: alike(
        i, lambda a, b: np.maximum(ufunc(a, b), 0), 2, I32, native=native(f"{i.opcode}.relu", I32)
    )


# Products.


def _high_64(a: Array, b: Array) -> Array:
    """Return the upper 64 bits of the product of U64."""
    low32, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low32, a >> half, b & low32, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low32)
    high: Array = a1 * b1 + (middle >> half) + (other >> half)
    return high


def _high(a: Array, b: Array) -> Array:
    """Return the upper half of the full product."""
    kind, bits = a.dtype, 8 * a.dtype.itemsize
    if bits == 64:
        high = _high_64(a.view(U64), b.view(U64))
        if kind == I64:  # as unsigned numbers, negative ones are 2^64 too large
            high = high - np.where(a < 0, b.view(U64), np.uint64(0))
            high = high - np.where(b < 0, a.view(U64), np.uint64(0))
        return high.view(kind)
    return (np.multiply(a, b, dtype=_wide(kind)) >> bits).astype(kind)


def _wide(kind: np.dtype[Any]) -> np.dtype[Any]:
    if kind.itemsize not in _WIDE:
        raise Unsupported(".wide multiplies 16 and 32 bits only")
    signed, size = kind.kind == "i", _WIDE[kind.itemsize]
    return SIGNED[size] if signed else unsigned(SIGNED[size])


def _product(i: Instruction) -> tuple[Callable[[Array, Array], Array], np.dtype[Any]]:
    """Return the function of a mul or mad, and the type of its result."""
    kind = typed(i)
    match chosen(i, "lo hi wide"):
        case "lo":
            return np.multiply, kind
        case "hi":
            return _high, kind
    wide = _wide(kind)
    return partial(np.multiply, dtype=wide), wide


def _part_word(i: Instruction) -> str:
    """Return the opcode with the part of the product that it takes."""
    return f"{i.opcode}.{chosen(i, 'lo hi wide')}"


def _mul(i: Instruction) -> Step:
    run, result = _product(i)
    kind = typed(i)
    return pure(i, run, kind, kind, result=result, native=native(_part_word(i), kind))


def _mad(i: Instruction) -> Step:
    product, result = _product(i)
    if "sat" in i.flags:
        if not i.has("hi", "s32"):
            raise Unsupported("mad.sat exists as mad.hi.sat.s32 only")
        return _product_added_clamped(i, product)
    kind = typed(i)
    run = lambda a, b, c: product(a, b) + c  # noqa: E731
    return pure(i, run, kind, kind, result, result=result, native=native(_part_word(i), kind))


def _product_added_clamped(i: Instruction, product: Callable[[Array, Array], Array]) -> Step:
    run = lambda a, b, c: _clamped(product(a, b).astype(I64) + c)  # noqa: E731
    return alike(i, run, 3, I32, native=native(f"{i.opcode}.hi.sat", I32))


def _product_24(i: Instruction) -> Callable[[Array, Array], Array]:
    kind = typed(i)
    shift = 16 if chosen(i, "lo hi") == "hi" else 0
    wide = _wide(kind)

    def cut(x: Array) -> Array:
        return (x << 8).astype(wide) >> 8  # sign-extends from bit 23 where the type is signed

    return lambda a, b: (cut(a) * cut(b) >> shift).astype(kind)


def _mul24(i: Instruction) -> Step:
    return alike(i, _product_24(i), 2, typed(i), native=native(_part_word(i), typed(i)))


def _mad24(i: Instruction) -> Step:
    product = _product_24(i)
    if "sat" in i.flags:
        if not i.has("hi", "s32"):
            raise Unsupported("mad24.sat exists as mad24.hi.sat.s32 only")
        return _product_added_clamped(i, product)
    run = lambda a, b, c: product(a, b) + c  # noqa: E731
    return alike(i, run, 3, typed(i), native=native(_part_word(i), typed(i)))


def _parts(x: Array, signed: bool, bits: int, first: int, count: int) -> list[Array]:
    """Return `count` fields of `bits` bits of U32 as integers, from field `first`."""
    if not signed:
        return [
            (x >> (bits * k) & ((1 << bits) - 1)).astype(I32) for k in range(first, first + count)
        ]
    up = 32 - bits
    return [(x << (up - bits * k)).view(I32) >> up for k in range(first, first + count)]


def _dot(i: Instruction) -> Step:
    kinds = types(i)
    if len(kinds) != 2:
        raise Unsupported(f"{i.mnemonic} needs the types of both factors")
    a_signed, b_signed = (k == "s32" for k in kinds)
    word = i.opcode
    if word == "dp4a":
        first, count, bits = 0, 4, 8
    else:
        word = _part_word(i)
        first, count, bits = 2 if word.endswith("hi") else 0, 2, 16

    def run(a: Array, b: Array, c: Array) -> Array:
        pairs = zip(
            _parts(a, a_signed, bits, 0, count), _parts(b, b_signed, 8, first, count), strict=True
        )
        products: Array = sum((x * y for x, y in pairs), np.zeros((1, 1), I32))
        total: Array = c + products.view(U32)
        return total

    return alike(i, run, 3, U32, native=native(word, *kinds))


# Division.


def _quotient(a: Array, b: Array) -> Array:
    """Divide toward zero; by zero gives all ones, as the 32-bit sequence of the compiler does."""
    if a.dtype.kind == "u":
        return np.where(b == 0, ~np.zeros_like(b), a // np.where(b == 0, 1, b))
    safe = np.where(b == 0, 1, b)
    floor = a // safe
    floor = floor + ((floor * safe != a) & ((a < 0) != (safe < 0)))
    return np.where(b == 0, -1, floor).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    """Return what is left, with the sign of the dividend; of a division by zero, all ones."""
    safe = np.where(b == 0, 1, b)
    return np.where(b == 0, ~np.zeros_like(b), np.fmod(a, safe)).astype(a.dtype)


def _division(function: Callable[[Array, Array], Array]) -> Callable[[Instruction], Step]:
    def build(i: Instruction) -> Step:
        kind = typed(i)
        handler = native(i.opcode, kind)
        if kind.itemsize == 4:
            return alike(i, function, 2, kind, native=handler)

        def run(batch: WarpBatch, mask: Mask, a: Array, b: Array) -> Array:
            if not b.all():
                zero = batch.mask_of(mask) & (b == 0)
                if zero.any():
                    batch.report(
                        "uninitialised",
                        f"{i.mnemonic} divides by zero, whose result PTX leaves open: "
                        "test the divisor before",
                        zero,
                        context=Context("division-by-zero"),
                    )
            return function(a, b)

        step = alike(i, run, 2, kind, native=handler)
        return replace(step, effect=True)

    return build


def _sad(i: Instruction) -> Step:
    run = lambda a, b, c: c + (np.maximum(a, b) - np.minimum(a, b))  # noqa: E731
    return alike(i, run, 3, typed(i), native=native(i.opcode, typed(i)))


# Carry chains: the carry flag is one bit for each thread and no register.


class Carry:
    """The carry flag of every thread."""

    def __init__(self, machine: Machine) -> None:
        self.flags = np.zeros((len(machine.slot_of), LANES), np.bool_)


def _add_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    partial_sum = a + b
    total = partial_sum + carry
    return total, (partial_sum < a) | (total < partial_sum)


def _sub_borrow(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    return a - b - borrow, (a < b) | ((a == b) & (borrow != 0))


def _chain(i: Instruction) -> Step:
    """add.cc, addc, sub.cc, subc, mad.cc and madc: what reads or writes the carry."""
    signed = typed(i)
    kind = unsigned(signed)
    takes, gives = i.opcode in ("addc", "subc", "madc"), "cc" in i.flags
    combine = _sub_borrow if i.opcode.startswith("sub") else _add_carry
    product = None
    if i.opcode.startswith("mad"):
        if chosen(i, "lo hi") == "hi":
            product = lambda a, b: _high(a.view(signed), b.view(signed)).view(kind)  # noqa: E731
        else:
            product = np.multiply

    def run(batch: WarpBatch, mask: Mask, *terms: Array) -> Array:
        part = batch.machine.part(Carry)
        held = part.flags[batch.warps]
        carry = held.astype(kind) if takes else np.zeros((1, 1), kind)
        a, b = terms if product is None else (product(*terms[:2]), terms[2])
        result, out = combine(a, b, carry)
        if gives:
            part.flags[batch.warps] = np.where(full_mask(mask, batch.size), out, held)
        return result

    operands = expect(i, 4 if product is not None else 3)
    reads = tuple(read(o, kind) for o in operands[1:])
    return Step(run, reads, (write(operands[0], kind),), effect=True)


_CHAINS = tuple(
    row(opcode, _chain, needs, "u32 s32 u64 s64 cc lo hi")
    for opcode, needs in (
        ("add", "cc"), ("sub", "cc"), ("mad", "cc"), ("addc", ""), ("subc", ""), ("madc", ""),
    )
)  # fmt: skip

_UNTRIED = {
    "max.s16x2": "relu",
    "add.cc": "hi lo s32 s64",
    "sub.cc": "hi lo s32 s64 u64",
    "mad.cc": "hi s32 s64 u64",
    "addc": "hi lo s32 s64",
    "subc": "hi lo s32 s64 u64",
    "madc": "cc lo s32 s64 u64",
}

ROWS: tuple[Row, ...] = compared(
    (
        row("add", _same(np.add), takes=ALL),
        row("add", _saturated(np.add), "sat s32"),
        row("add", _each_half(np.add), "u16x2"),
        row("add", _each_half(np.add), "s16x2"),
        row("sub", _same(np.subtract), takes=ALL),
        row("sub", _saturated(np.subtract), "sat s32"),
        row("mul", _mul, takes=f"{ALL} lo hi wide"),
        row("mad", _mad, takes=f"{ALL} lo hi wide sat"),
        row("mul24", _mul24, takes="u32 s32 lo hi"),
        row("mad24", _mad24, takes="u32 s32 lo hi sat"),
        row("div", _division(_quotient), takes=ALL),
        row("rem", _division(_remainder), takes=ALL),
        row("abs", _same(np.abs), takes="s16 s32 s64"),
        row("neg", _same(np.negative), takes="s16 s32 s64"),
        row("min", _same(np.minimum), takes=ALL),
        row("max", _same(np.maximum), takes=ALL),
        row("min", _with_relu(np.minimum), "relu s32"),
        row("max", _with_relu(np.maximum), "relu s32"),
        row("min", _each_half(np.minimum), "u16x2"),
        row("max", _each_half(np.maximum), "u16x2"),
        row("min", _each_half(np.minimum), "s16x2", "relu"),
        row("max", _each_half(np.maximum), "s16x2", "relu"),
        row("sad", _sad, takes=ALL),
        row("dp4a", _dot, takes="u32 s32"),
        row("dp2a", _dot, takes="u32 s32 lo hi"),
        *_CHAINS,
    ),
    _UNTRIED,
)
