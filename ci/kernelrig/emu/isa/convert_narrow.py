"""cvt of pairs of types under a byte and of powers of two, and cvt.pack of integers.

PTX ISA 9.7.9.21 and 9.7.9.22. Of two values the first becomes the upper half. Of a NaN e2m1, e2m3
and e3m2 make their largest number; what is beyond them becomes that, with its sign.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from kernelrig.emu.isa._forms import chosen, expect, pure, read, write
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.numerics.arrays import F32, F64, I32, I64, U8, U16, U32, Array
from kernelrig.emu.numerics.float_functions import rectified
from kernelrig.emu.numerics.rounding import F16, halves, joined
from kernelrig.emu.tensor.formats import E2M1, E2M3, E3M2, Format, narrow_values
from kernelrig.ptx import Instruction

_NARROW = {"e2m1x2": E2M1, "e2m3x2": E2M3, "e3m2x2": E3M2}


@cache
def _sizes(form: Format) -> Array:
    """Return the numbers of a type that are not negative: ascending, by their codes."""
    return narrow_values(form)[: 1 << form.bits - 1].astype(F64)


def _codes(x: Array, form: Format) -> Array:
    """Return the codes of float64 values, rounded to nearest even."""
    known = _sizes(form)
    size = np.where(np.isnan(x), known[-1], np.minimum(np.abs(x), known[-1]))
    below = np.searchsorted(known, size, side="right") - 1
    above = np.minimum(below + 1, len(known) - 1)
    under, over = size - known[below], known[above] - size
    up = (over < under) | ((over == under) & (below & 1 == 1))
    negative = np.signbit(x) & ~np.isnan(x)
    return np.asarray(np.where(up, above, below) | negative << form.bits - 1, U32)


def _to_narrow(i: Instruction) -> Step:
    """Of e2m1 two codes share a byte, of the others each has one."""
    name = chosen(i, " ".join(_NARROW))
    form, relu = _NARROW[name], "relu" in i.flags
    shift, result = (4, U8) if form is E2M1 else (8, U16)

    def code(x: Array) -> Array:
        value = x.astype(F64)
        return _codes(rectified(value) if relu else value, form)

    def of_two(upper: Array, lower: Array) -> Array:
        return np.asarray(code(upper) << np.uint32(shift) | code(lower)).astype(result)

    if "f32" in i.flags:
        return pure(i, of_two, F32, F32, result=result)

    def of_pair(x: Array) -> Array:
        both = halves(x).view(F16)
        return of_two(both[..., 1], both[..., 0])

    return pure(i, of_pair, U32, result=result)


def _of_narrow(i: Instruction) -> Step:
    """Two halves, exactly."""
    name = chosen(i, " ".join(_NARROW))
    form, relu = _NARROW[name], "relu" in i.flags
    shift, source = (4, U8) if form is E2M1 else (8, U16)
    cut = (1 << form.bits) - 1

    def run(x: Array) -> Array:
        codes = np.stack((x & cut, x >> shift & cut), axis=-1)
        values = narrow_values(form)[codes].astype(F16)
        return joined((rectified(values) if relu else values).view(U16))

    return pure(i, run, source, result=U32)


# ue8m0: the exponent alone.


def _exponents(bits: Array, up: bool, finite: bool) -> Array:
    """Return the codes of float32, whose sign does not count (as cuda_fp8.hpp computes it)."""
    size = bits & np.uint32(0x7FFFFFFF)
    codes = size >> np.uint32(23)
    if up:  # from 2^-127 on, whose code is 0
        codes = codes + ((size & 0x7FFFFF != 0) & (size > 0x00400000) & (size < 0x7F800000))
    if finite:
        codes = np.where((size <= 0x7F800000) & (codes == 0xFF), 0xFE, codes)
    return np.asarray(codes, U16)


def _to_power(i: Instruction) -> Step:
    up, finite = chosen(i, "rz rp") == "rp", "satfinite" in i.flags

    def of_two(upper: Array, lower: Array) -> Array:
        first, second = (_exponents(x.view(U32), up, finite) for x in (upper, lower))
        return np.asarray(first << np.uint16(8) | second)

    if "f32" in i.flags:
        return pure(i, of_two, F32, F32, result=U16)

    def of_pair(x: Array) -> Array:
        return of_two(x & np.uint32(0xFFFF0000), x << np.uint32(16))

    return pure(i, of_pair, U32, result=U16)


def _of_power(i: Instruction) -> Step:
    """Two bfloat16, exactly: 2^-127 is one that is subnormal."""

    def run(x: Array) -> Array:
        codes = np.stack((x & 0xFF, x >> 8), axis=-1)
        bits = np.where(codes == 0xFF, 0x7FFF, np.where(codes == 0, 0x0040, codes << 7))
        return joined(bits.astype(U16))

    return pure(i, run, U16, result=U32)


# cvt.pack of integers.

_PACKED = "u16 s16 u8 s8 u4 s4 u2 s2"


def _pack(i: Instruction) -> Step:
    """Two integers of 32 bits, clamped; below 16 bits, C's lower bits above them."""
    word = next((q for q in i.qualifiers if q in _PACKED.split()), "")
    bits = int(word[1:] or 0)
    wanted = () if bits == 16 else ("b32",)
    if not bits or tuple(q for q in i.qualifiers if q == "b32") != wanted:
        raise Unsupported(f"{i.mnemonic}: .u16 and .s16 take no C, narrower types one of .b32")
    signed = word[0] == "s"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def run(a: Array, b: Array, *c: Array) -> Array:
        first, second = (np.clip(x.astype(I64), low, high) & (1 << bits) - 1 for x in (a, b))
        made = first << bits | second
        if c:
            made = c[0].astype(I64) << 2 * bits | made
        return np.asarray(made & 0xFFFFFFFF).astype(U32)

    target, *sources = expect(i, 3 if bits == 16 else 4)
    kinds = (I32, I32, U32)
    reads = tuple(read(s, k) for s, k in zip(sources, kinds, strict=False))
    return Step(run, reads, (write(target, U32),))


ROWS: tuple[Row, ...] = (
    *(row("cvt", _to_narrow, f"rn satfinite {n} f32", "relu") for n in _NARROW),
    *(row("cvt", _to_narrow, f"rn satfinite {n} f16x2", "relu") for n in _NARROW),
    *(row("cvt", _of_narrow, f"rn f16x2 {n}", "relu") for n in _NARROW),
    row("cvt", _to_power, "ue8m0x2 f32", "rz rp satfinite"),
    row("cvt", _to_power, "ue8m0x2 bf16x2", "rz rp satfinite"),
    row("cvt", _of_power, "rn bf16x2 ue8m0x2"),
    row("cvt", _pack, "pack sat s32", f"{_PACKED} b32"),
)
