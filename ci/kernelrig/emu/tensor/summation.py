"""Sums of products, as exact as fp32, or as the hardware is known to make them.

The published model (MMA-Sim, arXiv 2511.10909): the products of one instruction and the accumulator
are aligned to the largest of their exponents, each truncated to so many fractional bits, added
exactly, and the sum is truncated to the result's type. An exponent is the sum of those of the
factors, not normalised: a product's significand lies in [1, 4). Beyond that, an H200 shows that
products of zero have no exponent, and that a sum of zero is +0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.tensor.formats import Format, exponents

F32 = NDArray[np.float32]
_NAN = np.uint32(0x7FFFFFFF)
_NO_EXPONENT = -400  # of what is zero: below all others
_LOWEST: dict[int, tuple[type[Any], int]] = {
    1: (np.int8, -60),
    2: (np.int16, -600),
    4: (np.int16, -600),
}
"""By the bytes of an element: what holds sums of exponents, and what stands for that of a zero."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """`fraction` bits behind the point of the largest addend, `result` behind the sum's.

    `half`: the sum is rounded once, to the nearest f16.
    """

    fraction: int
    result: int = 23
    half: bool = False


BLACKWELL_FP8 = Rounding(25)
HOPPER_FP8 = Rounding(13, 13)
HOPPER = Rounding(25)  # of f16, bf16 and tf32


def multiply(a: F32, b: F32) -> F32:
    """Return A x B^T in fp32: (m, k) and (n, k), or (m, n, k), give (m, n).

    Each element is added up from zero, k after k, every product and every sum rounded: a BLAS would
    add up in another order on another CPU, and the core has to make the same bits.
    """
    total, product = np.zeros((2, len(a), b.shape[-2]), np.float32)
    by_k = np.ascontiguousarray(np.moveaxis(b, -1, 0))
    for left, right in zip(np.ascontiguousarray(a.T), by_k, strict=True):
        np.multiply(left[:, None], right, out=product)
        total += product
    return total


def multiply_into(a: F32, b: F32, d: F32, adds: bool) -> None:
    """Let D be A x B^T, or add it. A NaN is the one that tensor cores make."""
    product = multiply(a, b)
    if adds:
        d += product
    else:
        d[...] = product
    _canonical(d)


def _canonical(values: F32) -> None:
    wrong = np.isnan(values)
    if wrong.any():
        values.view(np.uint32)[wrong] = _NAN


def hardware_sum(
    a: F32, b: F32, forms: tuple[Format, Format], c: F32 | None, rounding: Rounding
) -> F32:
    """Return A x B^T + C as the model has it; no C is one of zeros."""
    start = np.zeros((len(a), len(b)), np.float32) if c is None else c
    special = _special(a, b, start)
    if special is not None:
        a, b = _finite(a), _finite(b)
        start = _finite(start)
    exponent = np.maximum(_largest(a, b, forms), _exponents(start))
    total = _truncated_products(a, b, forms, exponent, rounding.fraction)
    unit = exponent - np.int32(rounding.fraction)
    total += np.trunc(start * _power(-unit)) * _power(unit)
    if rounding.half:
        with np.errstate(over="ignore"):
            result = total.astype(np.float16).astype(np.float32)
    else:
        result = _toward_zero(total, rounding.result)
    result += np.float32(0)  # a sum that is zero has no sign
    if special is not None:
        result = np.where(np.isfinite(special), result, special.astype(np.float32))
        result.view(np.uint32)[np.isnan(special)] = _NAN
    return result


def hardware_sum_by_row(
    a: F32, b: F32, forms: tuple[Format, Format], c: F32 | None, rounding: Rounding
) -> F32:
    """Return the same where each row of A has a B of its own: (m, n, k)."""
    # A row at a time: the model aligns the addends of each element of D by themselves.
    rows = (slice(row, row + 1) for row in range(len(a)))
    return np.concatenate([
        hardware_sum(a[row], b[row.start], forms, None if c is None else c[row], rounding)
        for row in rows
    ])  # fmt: skip


def _special(a: F32, b: F32, c: F32) -> NDArray[np.float64] | None:
    """Return the sums by IEEE rules where infinities or NaNs take part."""
    if np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(c).all():
        return None
    with np.errstate(all="ignore"):
        # loops of NumPy's own, not a BLAS that may skip a zero: 0 x inf is NaN
        product = np.einsum("mk,nk->mn", a.astype(np.float64), b.astype(np.float64))
        return np.asarray(product + c, np.float64)


def _finite(values: F32) -> F32:
    return np.where(np.isfinite(values), values, np.float32(0))


def _power(exponent: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return 2^exponent, of normal doubles."""
    return (exponent.astype(np.int64) + 1023 << 52).view(np.float64)


def _exponents(values: F32) -> NDArray[np.int32]:
    """Return the exponents of accumulators; a zero's is below all others."""
    biased = (values.view(np.int32) >> 23) & 0xFF
    return np.where(values == 0, np.int32(_NO_EXPONENT), np.maximum(biased, 1) - 127)


def _largest(a: F32, b: F32, forms: tuple[Format, Format]) -> NDArray[np.int32]:
    """Return the largest exponent of the products over k, by (m, n); products of zero have none."""
    small, of_zero = _LOWEST[forms[0].bytes]
    columns = np.where(a == 0, of_zero, exponents(a, forms[0])).T.astype(small, order="C")
    others = np.where(b == 0, of_zero, exponents(b, forms[1])).T.astype(small, order="C")
    largest = np.full((len(a), len(b)), np.iinfo(small).min, small)
    sums = np.empty_like(largest)
    for left, right in zip(columns, others, strict=True):
        np.add(left[:, None], right, out=sums)
        np.maximum(largest, sums, out=largest)
    found = largest.astype(np.int32)
    return np.where(found < forms[0].lowest + forms[1].lowest, np.int32(_NO_EXPONENT), found)


def _lowest_bits(values: F32) -> NDArray[np.int32]:
    """Return by row the exponent of the lowest bit that any of its values has set."""
    significand, exponent = np.frexp(values)
    whole = (significand * np.float32(1 << 24)).astype(np.int32)  # 24 bits hold it
    lowest = (whole & -whole).astype(np.float32).view(np.int32) >> 23  # a power of two, biased
    lowest = exponent + lowest - (24 + 127)
    return np.asarray(np.where(values == 0, 1000, lowest).min(axis=1), np.int32)


def _truncated_products(
    a: F32,
    b: F32,
    forms: tuple[Format, Format],
    exponent: NDArray[Any],
    fraction: int,
) -> NDArray[np.float64]:
    """Return the sum over k of the products, each truncated to multiples of 2^(e - fraction)."""
    unit = exponent - fraction
    bits = _lowest_bits(a)[:, None] + _lowest_bits(b)[None, :]
    exact = bits >= unit
    if exact.all():
        return a.astype(np.float64) @ b.T.astype(np.float64)
    if exact.mean() > 0.9:  # most lose nothing: look at the others alone
        total = a.astype(np.float64) @ b.T.astype(np.float64)
        rows, columns = np.nonzero(~exact)
        units = unit[rows, columns][:, None]
        products = a[rows].astype(np.float64) * b[columns]
        total[rows, columns] = (np.trunc(products * _power(-units)) * _power(units)).sum(axis=1)
        return total
    width = fraction + 2 + forms[0].k.bit_length()
    kind: type[Any] = np.float32 if width <= 24 and forms[0].bytes == 1 else np.float64
    # powers of two: exact; where they leave the range, products have no bit above the unit
    limit = 120 if kind is np.float32 else 1000
    scale = _power(np.clip(-unit, -limit, limit)).astype(kind)
    total = np.zeros(scale.shape, kind)
    product = np.empty_like(total)
    columns_a = np.ascontiguousarray(a.T.astype(kind))
    columns_b = np.ascontiguousarray(b.T.astype(kind))
    for left, right in zip(columns_a, columns_b, strict=True):
        np.multiply(left[:, None], right, out=product)
        product *= scale
        np.trunc(product, out=product)
        total += product
    return np.asarray(total / scale, np.float64)


def _toward_zero(values: NDArray[np.float64], fraction: int) -> F32:
    """Truncate to float32 with `fraction` bits behind the point, subnormals included."""
    kept = np.uint64(0xFFFFFFFFFFFFFFFF << 52 - fraction & 0xFFFFFFFFFFFFFFFF)
    cut = (values.view(np.uint64) & kept).view(np.float64)
    tiny = np.abs(values) < 2.0**-126
    if tiny.any():
        steps = 2.0 ** (126 + fraction)
        cut = np.where(tiny, np.trunc(values * steps) / steps, cut)
    with np.errstate(over="ignore"):
        return cut.astype(np.float32)
