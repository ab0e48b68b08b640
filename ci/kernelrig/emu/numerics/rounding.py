"""Rounding to the formats of PTX, once and to the bit.

What has to be rounded is a float64 that is exact, or that was rounded to odd: its last bit says
that something lies beyond. Both give the right result in any narrower format and mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelrig.emu.numerics.arrays import F32, F64, I64, U16, U32, U64, Array

F16 = np.dtype(np.float16)
NAN: dict[Any, Array] = {
    F16: np.array(0x7FFF, np.uint16).view(np.float16),
    F32: np.array(0x7FFFFFFF, np.uint32).view(np.float32),
    F64: np.array(0x7FF8 << 48, np.uint64).view(np.float64),
}
"""The NaN that arithmetic makes, whatever NaN it was given."""

MODES = ("rn", "rz", "rm", "rp")
_SMALLEST = np.float32(2.0**-126)  # normal


def canonical(x: Array) -> Array:
    """Return `x` with every NaN the one NaN."""
    # One call instead of two: squares add up to NaN exactly where one of them is.
    if (total := np.vdot(x, x)) == total:
        return x
    return np.where(np.isnan(x), NAN[x.dtype], x)


def flushed(x: Array) -> Array:
    """Return `x` with what is subnormal in float32 made zeros of its sign."""
    return np.where(np.abs(x) < _SMALLEST, np.copysign(x.dtype.type(0), x), x)


def flushed_if_rounded(x: Array, mode: str, digits: int = 23, lowest: int = -126) -> Array:
    """Return float64 `x`, exact or odd, as a zero of its sign where it is tiny in a format.

    Tiny is what is below the lowest normal once it has been rounded to the format's digits, with no
    end to the exponents below: hardware judges so (measured on H200).
    """
    return np.where(_is_tiny(x, mode, digits, lowest), np.copysign(x.dtype.type(0), x), x)


def _is_tiny(x: Array, mode: str, digits: int, lowest: int) -> Array:
    smallest = np.ldexp(1.0, lowest)
    # Below the lowest normal the next number is half as far as above it.
    half = np.ldexp(0.25, lowest - digits)
    size: Array = np.abs(x)
    tiny: Array
    match mode:
        case "rn":
            tiny = size < smallest - half  # halfway is even above
        case "rz":
            tiny = size < smallest
        case _:
            away = np.signbit(x) == (mode == "rm")
            tiny = np.where(away, size <= smallest - 2 * half, size < smallest)
    return tiny


def odd_sum(a: Array, b: Array) -> Array:
    """Return a + b of float64, rounded to odd."""
    total = a + b
    # Knuth's TwoSum: what the addition lost, exactly.
    shadow = total - a
    lost = (a - (total - shadow)) + (b - shadow)
    if not np.count_nonzero(lost):
        return total
    bits = np.ascontiguousarray(total).view(np.int64)
    even = (lost != 0) & np.isfinite(total) & ((bits & 1) == 0)
    away = (lost > 0) == (total > 0)
    return np.where(even, bits + np.where(away, 1, -1), bits).view(F64)


def to_f32(x: Array, mode: str = "rn") -> Array:
    """Round float64 to float32."""
    near = x.astype(F32)
    if mode == "rn":
        return near
    back = near.astype(F64)
    match mode:
        case "rz":
            over, toward = np.abs(back) > np.abs(x), np.float32(0)
        case "rm":
            over, toward = back > x, np.float32(-np.inf)
        case _:
            over, toward = back < x, np.float32(np.inf)
    return np.where(over, np.nextafter(near, toward), near)


def signed_zero(result: Array, mode: str, *terms: Array) -> Array:
    """Give a sum its zero: rounding down, terms that cancel leave -0."""
    if mode != "rm":
        return result
    negative = np.signbit(terms[0])
    for term in terms[1:]:
        negative = negative | np.signbit(term)
    return np.where((result == 0) & negative, result.dtype.type(-0.0), result)


_ROUND: dict[str, Callable[..., Array]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": lambda x: np.trunc(x + np.copysign(0.5, x)),
}


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: explicit bits of the significand, lowest normal exponent, largest value."""

    digits: int
    lowest: int
    largest: float

    def rounded(self, x: Array, mode: str, *, finite: bool = False) -> Array:
        """Round float64 to a value of the format, kept in float64.

        What is too large becomes an infinity or the largest value, as the mode says; always the
        largest if `finite`.
        """
        _, exponent = np.frexp(x)
        unit = np.maximum(exponent - 1, self.lowest) - self.digits
        result: Array = np.ldexp(_ROUND[mode](np.ldexp(x, -unit)), unit)
        over: Array = np.abs(result) > self.largest
        largest: Array = np.copysign(self.largest, result)
        if finite:
            return np.where(over, largest, result)
        match mode:
            case "rz":
                bounded = over & np.isfinite(x)
            case "rm":
                bounded = over & np.isfinite(x) & (result > 0)
            case "rp":
                bounded = over & np.isfinite(x) & (result < 0)
            case _:
                bounded = np.zeros_like(over)
        beyond: Array = np.where(bounded, largest, np.copysign(np.inf, result))
        return np.where(over, beyond, result)


BF16 = Format(7, -126, float.fromhex("0x1.fep127"))
HALF = Format(10, -14, 65504.0)
TF32 = Format(10, -126, float.fromhex("0x1.ffcp127"))
E4M3 = Format(3, -6, 448.0)
E5M2 = Format(2, -14, 57344.0)


# bfloat16 is the upper half of a float32.


# Arrays as constants: NumPy takes longer over Python's numbers than over so few lanes.
_BY, _LAST, _BELOW = (np.array(n, np.uint32) for n in (16, 1, 0x7FFF))
_BOTH_BY, _BOTH_LAST, _BOTH_BELOW = (
    np.array(n, np.uint64) for n in (16, 0x0000000100000001, 0x00007FFF00007FFF)
)


def bf16_value(bits: Array) -> Array:
    """Return float32 of bfloat16 bits (U16)."""
    wide = bits.astype(U32)
    wide <<= _BY
    return wide.view(F32)


def bf16_rounded(x: Array) -> Array:
    """Round float32, contiguous, to nearest even: return its bits, the upper half of each valid.

    A NaN must be dealt with before.
    """
    bits = x.view(U32)
    last = bits >> _BY
    last &= _LAST
    last += _BELOW
    last += bits
    return last


def f32_on_the_way(x: Array) -> Array:
    """Round float64, exact or odd, to a float32 that rounds to the bfloat16 that `x` does."""
    near = x.astype(F32)
    back = near.astype(F64)
    # `near` may lie halfway between two bfloat16 where `x` does not.
    off = (x != back) & ((near.view(U32) & 0x7FFF) == 0)
    if np.count_nonzero(off):
        off &= ~np.isnan(x)
        toward = np.where(x[off] > back[off], np.float32(np.inf), np.float32(-np.inf))
        near[off] = np.nextafter(near[off], toward)
    return near


def bf16_bits(x: Array) -> Array:
    """Round float32 to bfloat16 bits (U16), nearest even."""
    if x.dtype != F32:
        x = f32_on_the_way(x)
    return (bf16_rounded(canonical_upper(np.ascontiguousarray(x))) >> 16).astype(U16)


_UPPER_NAN = np.array(0x7FFF0000, np.uint32).view(np.float32)


def canonical_upper(x: Array) -> Array:
    """Return float32 `x`, any NaN the NaN of bfloat16, which rounds to itself."""
    if (total := np.vdot(x, x)) == total:
        return x
    return np.where(np.isnan(x), _UPPER_NAN, x)


# Two halves in a register: arrays (..., 2), lower half first.


def halves(pair: Array) -> Array:
    """Return both U16 halves of U32, (..., 2)."""
    return pair[..., None].view(U16)


def joined(parts: Array) -> Array:
    """Return U32 of U16 halves (..., 2)."""
    return np.ascontiguousarray(parts).view(U32)[..., 0]


def bf16x2_values(pair: Array) -> Array:
    """Return float32 (..., 2) of two bfloat16 in U32."""
    return bf16_value(halves(pair))


def bf16x2_bits(values: Array) -> Array:
    """Round float32 (..., 2) to two bfloat16 in U32."""
    pair = np.ascontiguousarray(canonical_upper(values)).view(U64)
    # As `bf16_rounded`: the sum of the lower one does not reach the upper one.
    last = pair >> _BOTH_BY
    last &= _BOTH_LAST
    last += _BOTH_BELOW
    last += pair
    return last.view(U16)[..., 1::2].copy().view(U32)[..., 0]


# 8-bit formats.


def _e4m3_values() -> Array:
    code = np.arange(256)
    exponent, digits = code >> 3 & 15, code & 7
    value = np.where(exponent == 0, np.ldexp(digits, -9), np.ldexp(1 + digits / 8, exponent - 7))
    value = np.where(code & 0x7F == 0x7F, np.nan, value)
    return np.where(code & 0x80, -value, value).astype(F32)


E4M3_VALUES = _e4m3_values()
E5M2_VALUES = (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(F32)
_E4M3_MAGNITUDES = E4M3_VALUES[:127].astype(F64)


def e4m3_bits(x: Array) -> Array:
    """Round float64 to e4m3 (U16 of one byte), nearest even, to the largest value beyond it."""
    value = E4M3.rounded(x, "rn", finite=True)
    code = np.searchsorted(_E4M3_MAGNITUDES, np.abs(value)).astype(U16)
    code |= np.signbit(value).astype(U16) << 7
    return np.where(np.isnan(x), np.uint16(0x7F), code)


def e5m2_bits(x: Array) -> Array:
    """Round float64 to e5m2 (U16 of one byte), nearest even, to the largest value beyond it."""
    value = E5M2.rounded(x, "rn", finite=True).astype(F16)
    return np.where(np.isnan(x), np.uint16(0x7F), value.view(U16) >> 8)


def odd_f64(x: Array) -> Array:
    """Return float64 of integers, rounded to odd where it has too few bits for them."""
    if x.dtype.itemsize < 8:
        return x.astype(F64)
    size = (np.abs(x) if x.dtype == I64 else x).view(np.uint64)
    low = size & np.uint64(0x7FF)
    cut = (size - low) | ((low != 0).astype(np.uint64) << np.uint64(11))
    value = np.where(size >> np.uint64(53) != 0, cut, size).astype(F64)
    return np.where(x < 0, -value, value)
