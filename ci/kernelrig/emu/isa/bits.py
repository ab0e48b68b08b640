"""Bits of integers: counting, finding, reversing them, and fields of them."""

from __future__ import annotations

import numpy as np

from kernelrig.emu.isa._forms import (
    chosen,
    compared,
    expect,
    native,
    pure,
    read,
    typed,
    unsigned,
    write,
)
from kernelrig.emu.machine.instruction_table import Row, Step, row
from kernelrig.emu.numerics.arrays import I32, U32, U64, Array
from kernelrig.ptx import Instruction, Integer


def _leading_zeros(x: Array) -> Array:
    """Count the zeros above the highest one of U32 or U64; U32."""
    if x.dtype == U64:
        high = (x >> np.uint64(32)).astype(U32)
        low = x.astype(U32)
        return np.where(high != 0, _leading_zeros(high), 32 + _leading_zeros(low)).astype(U32)
    return (32 - np.frexp(x.astype(np.float64))[1]).astype(U32)


def _popc(i: Instruction) -> Step:
    run = lambda a: np.bitwise_count(a).astype(U32)  # noqa: E731
    return pure(i, run, typed(i), result=U32, native=native("popc", typed(i)))


def _clz(i: Instruction) -> Step:
    return pure(i, _leading_zeros, typed(i), result=U32, native=native("clz", typed(i)))


def _bfind(i: Instruction) -> Step:
    kind = typed(i)
    top = 8 * kind.itemsize - 1
    amount = "shiftamt" in i.flags

    def run(a: Array) -> Array:
        bits = (np.where(a < 0, ~a, a) if kind.kind == "i" else a).view(unsigned(kind))
        zeros = _leading_zeros(bits)
        found = zeros if amount else np.uint32(top) - zeros
        return np.where(bits == 0, np.uint32(0xFFFFFFFF), found)

    word = "bfind.shiftamt" if amount else "bfind"
    return pure(i, run, kind, result=U32, native=native(word, kind))


_SWAPS = ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F))


def _reversed_bits(x: Array) -> Array:
    kind = x.dtype.type
    for shift, mask in _SWAPS:
        keep, by = kind(mask & np.iinfo(kind).max), kind(shift)
        x = (x & keep) << by | (x >> by & keep)
    return x.byteswap()


def _brev(i: Instruction) -> Step:
    return pure(i, _reversed_bits, typed(i), native=native("brev", typed(i)))


def _field(pos: Array, count: Array, bits: int) -> tuple[Array, Array]:
    """Return where a field begins and how many bits it has, as far as that matters."""
    if bits == 64:  # all 32 bits of each count (measured on H200; PTX names the low 8)
        return np.minimum(pos, 64), np.minimum(count, 64)
    return pos & 0xFF, count & 0xFF


def _bfe(i: Instruction) -> Step:
    kind = typed(i)
    bits = 8 * kind.itemsize
    signed = kind.kind == "i"
    position, length = expect(i, 4)[2:]
    if isinstance(position, Integer) and isinstance(length, Integer):
        first, count = position.value & 0xFF, length.value & 0xFF
        if count and first + count <= bits:
            up, down = kind.type(bits - first - count), kind.type(bits - count)
            reads, writes = (read(i.operands[1], kind),), (write(i.operands[0], kind),)
            handler = native("bfe_by", kind, constants=(int(up), int(down)))
            return Step(lambda a: a << up >> down, reads, writes, native=handler)

    def run(a: Array, pos: Array, count: Array) -> Array:
        pos, count = _field(pos, count, bits)
        # The field is pushed against the top, then down, so that its sign comes along.
        end = np.minimum(pos + count, bits)  # one beyond its highest bit
        fill = a >> (bits - 1) if signed else np.zeros_like(a)
        start = np.minimum(pos, bits - 1).astype(kind)
        up = (bits - np.maximum(end, 1)).astype(kind)
        size = np.minimum(bits - np.minimum(end - np.minimum(pos, end), bits), bits - 1)
        field = a << up >> size.astype(kind)
        result = np.where((pos >= bits) | (start < 0), fill, field)
        return np.where(count == 0, kind.type(0), result)

    return pure(i, run, kind, U32, U32, native=native("bfe", kind))


def _bfi(i: Instruction) -> Step:
    kind = typed(i)
    bits = 8 * kind.itemsize
    one = kind.type(1)

    def run(a: Array, b: Array, pos: Array, count: Array) -> Array:
        pos, count = (n.astype(kind) for n in _field(pos, count, bits))
        field = np.where(count >= bits, ~kind.type(0), (one << count) - one) << pos
        result: Array = (b & ~field) | (a << pos & field)
        return result

    return pure(i, run, kind, kind, U32, U32, native=native("bfi", kind))


def _bmsk(i: Instruction) -> Step:
    mode = chosen(i, "clamp wrap")
    wrap = mode == "wrap"

    def run(a: Array, b: Array) -> Array:
        if wrap:
            a, b = a & 31, b & 31
        ones = np.where(b >= 32, np.uint32(0xFFFFFFFF), (np.uint32(1) << b) - np.uint32(1))
        return ones << a

    return pure(i, run, U32, U32, native=native(f"bmsk.{mode}", U32))


def _szext(i: Instruction) -> Step:
    kind, mode = typed(i), chosen(i, "clamp wrap")
    wrap = mode == "wrap"

    def run(a: Array, count: Array) -> Array:
        count = count & 31 if wrap else np.minimum(count, 32)
        up = (32 - np.maximum(count, 1)).astype(kind)
        result: Array = np.where(count == 0, kind.type(0), a << up >> up)
        return result

    return pure(i, run, kind, U32, native=native(f"szext.{mode}", kind))


def _fns(i: Instruction) -> Step:
    """The n-th set bit of a mask from a place on, upwards or downwards, as PTX's code has it."""

    def run(mask: Array, base: Array, offset: Array) -> Array:
        mask, base, offset = np.broadcast_arrays(mask, base.astype(I32), offset.astype(I32))
        at, up = base.copy(), np.where(offset < 0, -1, 1)
        left = np.where(offset == 0, 1, np.abs(offset))
        found = np.full(mask.shape, 0xFFFFFFFF, U32)
        for step in range(32):
            inside = (at >= 0) & (at < 32) & (left > 0) & ((offset != 0) | (step == 0))
            some = inside & (mask >> np.clip(at, 0, 31).astype(U32) & np.uint32(1) == 1)
            found = np.where(some & (left == 1), at.astype(U32), found)
            left, at = left - some, at + up
        return found

    return pure(i, run, U32, U32, U32)


ROWS: tuple[Row, ...] = (
    row("fns", _fns, "b32"),
    *compared(
        (
            row("popc", _popc, takes="b32 b64"),
            row("clz", _clz, takes="b32 b64"),
            row("bfind", _bfind, takes="u32 s32 u64 s64 shiftamt"),
            row("brev", _brev, takes="b32 b64"),
            row("bfe", _bfe, takes="u32 s32 u64 s64"),
            row("bfi", _bfi, takes="b32 b64"),
            row("bmsk", _bmsk, "b32", "clamp wrap"),
            row("szext", _szext, takes="u32 s32 clamp wrap"),
        )
    ),
)
