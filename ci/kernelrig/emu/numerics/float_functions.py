"""Floating-point functions as PTX has them: NaN rules, signed zeros, modes of rounding.

Functions of float32 take and return float32, and of float64 likewise, unless they say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kernelrig.emu.numerics.arrays import F32, F64, Array
from kernelrig.emu.numerics.rounding import (
    NAN,
    canonical,
    flushed_if_rounded,
    odd_sum,
    signed_zero,
    to_f32,
)

Function = Callable[..., Array]


def add(mode: str = "rn") -> Function:
    """Return a + b of float32 in that mode."""
    if mode == "rn":
        return lambda a, b: canonical(a + b)

    def run(a: Array, b: Array) -> Array:
        a, b = a.astype(F64), b.astype(F64)
        return canonical(to_f32(signed_zero(odd_sum(a, b), mode, a, b), mode))

    return run


def mul(mode: str = "rn", *, ftz: bool = False) -> Function:
    """Return a * b; with `ftz`, 0 where that is tiny."""
    if ftz:

        def run(a: Array, b: Array) -> Array:
            product = np.multiply(a, b, dtype=F64)
            return canonical(to_f32(flushed_if_rounded(product, mode), mode))

        return run
    if mode == "rn":
        return lambda a, b: canonical(a * b)
    # The product of two float32 is exact in float64.
    return lambda a, b: canonical(to_f32(np.multiply(a, b, dtype=F64), mode))


_LOW_BITS = np.array((1 << 28) - 1, np.int64)
_SMALLEST = 2.0**-126  # normal


def fma(mode: str = "rn", *, ftz: bool = False) -> Function:
    """Return a * b + c; with `ftz`, 0 where that is tiny."""
    if mode == "rn" and not ftz:
        return _fma_near

    def run(a: Array, b: Array, c: Array) -> Array:
        product, c = np.multiply(a, b, dtype=F64), c.astype(F64)
        total = signed_zero(odd_sum(product, c), mode, product, c)
        return canonical(to_f32(flushed_if_rounded(total, mode) if ftz else total, mode))

    return run


def _fma_near(a: Array, b: Array, c: Array) -> Array:
    product, addend = a.astype(F64) * b.astype(F64), c.astype(F64)
    total = product + addend
    if _may_be_between(total) and _is_between(total):
        total = odd_sum(product, addend)
    return canonical(total.astype(F32))


def _may_be_between(total: Array) -> bool:
    """Say whether some sum may lie halfway between two narrower numbers.

    Only there does it matter that the sum was rounded. Its last 28 bits are then 0, whatever the
    exponent.
    """
    low = total.view(np.int64) & _LOW_BITS
    return bool(np.count_nonzero(low) != low.size)


def _is_between(total: Array) -> bool:
    """Say whether some sum lies halfway between two float32, or is subnormal there."""
    if ((total.view(np.int64) & (1 << 29) - 1) == 1 << 28).any():
        return True
    size = np.abs(total)
    return bool(((size < _SMALLEST) & (size != 0)).any())


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c of float32 as a float64 that rounds to what the exact value does."""
    product, addend = a.astype(F64) * b.astype(F64), c.astype(F64)
    total = product + addend
    return odd_sum(product, addend) if _may_be_between(total) else total


def _directed(near: Array, error: Array, mode: str) -> Array:
    """Turn a result rounded to nearest; `error` has the sign of what it lacks."""
    match mode:
        case "rz":
            off, toward = np.where(near > 0, error < 0, (error > 0) & (near < 0)), np.float32(0)
        case "rm":
            off, toward = error < 0, np.float32(-np.inf)
        case _:
            off, toward = error > 0, np.float32(np.inf)
    return np.where(off, np.nextafter(near, toward), near)


def div(mode: str = "rn") -> Function:
    def run(a: Array, b: Array) -> Array:
        near = a / b
        if mode != "rn":
            # The residual is exact in float64: 48 bits against 24.
            error = (a.astype(F64) - np.multiply(near, b, dtype=F64)) * np.sign(b)
            exact = (b == 0) | ~np.isfinite(a) | ~np.isfinite(b)
            near = np.where(exact, near, _directed(near, error, mode))
        return canonical(near)

    return run


def sqrt(mode: str = "rn") -> Function:
    def run(a: Array) -> Array:
        near = np.sqrt(a)
        if mode != "rn":
            error = a.astype(F64) - np.multiply(near, near, dtype=F64)
            near = np.where(np.isfinite(near), _directed(near, error, mode), near)
        return canonical(near)

    return run


def fma64(mode: str = "rn") -> Function:
    """Return a * b + c of float64, rounded once. Slow: one element after the other."""
    each = np.frompyfunc(lambda a, b, c: _fma64(float(a), float(b), float(c), mode), 3, 1)
    return lambda a, b, c: np.asarray(each(a, b, c)).astype(F64)


def _fma64(a: float, b: float, c: float, mode: str) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):  # the product may overflow, and is no infinity
        return c
    (an, ad), (bn, bd), (cn, cd) = (x.as_integer_ratio() for x in (a, b, c))
    top, bottom = an * bn * cd + cn * ad * bd, ad * bd * cd
    if top == 0:
        plain = a * b + c if 0 in (a, b) else 0.0
        signs = (math.copysign(1, a) * math.copysign(1, b), math.copysign(1, c))
        return -0.0 if mode == "rm" and -1 in signs else plain
    try:
        near = top / bottom  # of integers: rounded once
    except OverflowError:
        near = math.inf if top > 0 else -math.inf
    sign = 1 if top > 0 else -1
    if mode == "rn":
        return math.copysign(near, sign)
    if math.isinf(near):
        over = 1 if near > 0 else -1
    else:
        n, d = near.as_integer_ratio()
        over = (n * bottom > top * d) - (n * bottom < top * d)  # of what it is too large
    toward = {"rz": 0.0, "rm": -math.inf, "rp": math.inf}[mode]
    off = over == {"rz": sign, "rm": 1, "rp": -1}[mode]
    return math.copysign(math.nextafter(near, toward) if off else near, sign)


def minimum(a: Array, b: Array) -> Array:
    """Return the smaller; the other one of a NaN; -0 is smaller than +0."""
    first = (a < b) | ((a == b) & np.signbit(a)) | np.isnan(b)
    return canonical(np.where(first, a, b))


def maximum(a: Array, b: Array) -> Array:
    first = (a > b) | ((a == b) & np.signbit(b)) | np.isnan(b)
    return canonical(np.where(first, a, b))


def extreme(opcode: str, flags: frozenset[str]) -> Function:
    """Return the min or max that the flags ask for: .NaN, .abs, .xorsign."""
    pick = minimum if opcode == "min" else maximum

    def run(a: Array, b: Array) -> Array:
        x, y = (np.abs(a), np.abs(b)) if "abs" in flags else (a, b)
        result = pick(x, y)
        if "NaN" in flags:
            result = np.where(np.isnan(a) | np.isnan(b), NAN[result.dtype], result)
        if "xorsign" in flags:
            sign = np.where(np.signbit(a) != np.signbit(b), -1, 1).astype(result.dtype)
            result = np.where(np.isnan(result), result, np.copysign(result, sign))
        return result

    return run


def saturated(x: Array) -> Array:
    """Return `x` in [0, 1]; 0 of a NaN."""
    result: Array = np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))
    return result


def rectified(x: Array) -> Array:
    """Return `x`, 0 where it is negative; a NaN stays."""
    return np.where((x > 0) | np.isnan(x), x, x.dtype.type(0))


APPROXIMATIONS: dict[str, Function] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}
"""Opcode -> the function that the multi-function unit approximates, of float64.

Hardware's bits are not documented: results are the true ones, rounded once.
"""


COMPARISONS: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""Of integers, and of floats that are ordered but for `ne`, see `compared`."""


_OPPOSITES = {"eq": "ne", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def compared(word: str) -> Function:
    """Return the comparison of floats of that name."""
    if word in ("num", "nan"):
        neither = word == "num"
        return lambda a, b: (np.isnan(a) | np.isnan(b)) != neither
    if word == "ne":  # ordered: false of a NaN
        return lambda a, b: np.less(a, b) | np.greater(a, b)
    if word in COMPARISONS:
        return COMPARISONS[word]
    base = word.removesuffix("u")
    if base == "ne":
        return np.not_equal
    opposite = compared(_OPPOSITES[base])
    return lambda a, b: ~opposite(a, b)
