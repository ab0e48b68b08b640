"""mma.sync: where the elements of a warp's matrices lie in its registers, and how they are summed.

PTX ISA 9.7.14.5 and 9.7.14.6. All shapes but the m8n8k4 of f16 share one layout. With t the lane's
number modulo 4 and g the lane's number / 4, register v of A holds the word t + 4 (v / 2) along K of
row g + 8 (v % 2), register v of B that of column g. Words have 32 bits, of f64 64. D has two
neighbours a lane, of columns 2 t and the next one, in row g and then in row g + 8; of f16, they
share one register. Of mma.sp, A has the registers of half of K.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import F32, F64, I32, I64, U8, U32, Array
from kernelrig.emu.numerics.float_functions import fma64
from kernelrig.emu.numerics.rounding import F16, NAN, canonical
from kernelrig.emu.tensor.formats import FORMATS, decode
from kernelrig.emu.tensor.sparse_metadata import Positions, Sparsity, chosen
from kernelrig.emu.tensor.summation import HOPPER, hardware_sum, hardware_sum_by_row

COLUMNS = 8
_GROUP = 4  # lanes that share a row
_KINDS: dict[str, np.dtype[Any]] = {"f32": F32, "f64": F64, "s32": I32}
_LIMITS = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class WarpForm:
    """What the text of an mma.sync says. `k` counts elements of B, `bits` those of one.

    `operation` is what is counted of .b1: "and" or "xor"; "" of what is multiplied. `sparsity` is
    of mma.sp: half of A's elements are stored.
    """

    m: int
    k: int
    d: str
    a: str
    b: str
    bits: int
    satfinite: bool = False
    operation: str = ""
    sparsity: Sparsity | None = None

    @property
    def name(self) -> str:
        sparse = ".sp" if self.sparsity else ""
        return f"mma{sparse}.sync.m{self.m}n{COLUMNS}k{self.k}.{self.d}.{self.a}.{self.b}"

    @property
    def counts(self) -> tuple[int, int, int]:
        """The registers of A, of B, and of C and D."""
        words = self.k * self.bits // (64 if self.a == "f64" else 32) // _GROUP
        rows = self.m // COLUMNS
        of_a = words // 2 if self.sparsity else words
        return rows * of_a, words, rows * (1 if self.d == "f16" else 2)


def words_of(registers: list[Array], rows: int) -> Array:
    """Return a matrix of words by warp, row and K, of registers (warps, 32); `rows` of A: M."""
    held = np.stack(registers)
    halves = rows // COLUMNS
    warps = held.shape[1]
    parts = held.reshape(len(registers) // halves, halves, warps, COLUMNS, _GROUP)
    words = parts.transpose(2, 1, 3, 0, 4)  # warp, row's half, row, word's group, word
    return np.ascontiguousarray(words).reshape(warps, rows, -1)


def sums_of(registers: list[Array], form: WarpForm) -> Array:
    """Return C by warp, row and column, of the type that its registers have."""
    held = np.stack(registers)
    warps = held.shape[1]
    if form.d == "f16":
        pairs = np.ascontiguousarray(held).view(F16)
        parts = pairs.reshape(-1, warps, COLUMNS, _GROUP, 2).transpose(1, 0, 2, 3, 4)
    else:
        typed = held.view(_KINDS[form.d])
        parts = typed.reshape(-1, 2, warps, COLUMNS, _GROUP).transpose(2, 0, 3, 4, 1)
    return np.ascontiguousarray(parts).reshape(warps, form.m, COLUMNS)


def registers_of(sums: Array, form: WarpForm) -> tuple[Array, ...]:
    """Return D's registers, (warps, 32) each, of sums by warp, row and column."""
    warps = len(sums)
    parts = sums.reshape(warps, -1, COLUMNS, _GROUP, 2)
    if form.d == "f16":
        pairs = np.ascontiguousarray(parts.transpose(1, 0, 2, 3, 4)).view(U32)
        return tuple(pairs.reshape(len(pairs), warps, -1))
    bits = np.dtype(np.uint64) if form.d == "f64" else U32
    typed = np.ascontiguousarray(parts.transpose(1, 4, 0, 2, 3)).view(bits)
    return tuple(typed.reshape(-1, warps, COLUMNS * _GROUP))


def product(
    form: WarpForm, a: list[Array], b: list[Array], c: list[Array], where: Positions | None = None
) -> tuple[Array, ...]:
    """Return D's registers, (warps, 32) each, of the bits of all others.

    `where` says of a sparse A which element of K each stored one is, by warp, row and element.
    """
    left, right = words_of(a, form.m), words_of(b, COLUMNS)
    start = sums_of(c, form)
    if form.operation:
        total = _bits_in_common(form.operation, left, right)
        return registers_of(integer_result(total, start, form.satfinite), form)
    values, others = elements(left, form.a), elements(right, form.b)
    if where is not None:
        others = chosen(others, where)
    return registers_of(sums(values, others, start, form.d, form.satfinite), form)


def sums(a: Array, b: Array, c: Array, d: str, satfinite: bool = False) -> Array:
    """Return A x B^T + C as type `d`, by warp: A and B are (warps, rows, K).

    Of floats of up to 32 bits they are made in float64, which holds each product: over K in its
    order, then C. B may be another one for each row of A: (warps, rows of A, rows, K).
    """
    if d == "f64":
        return _of_doubles(a, b, c)
    b = b if b.ndim == 4 else b[:, None]
    if d == "s32":
        return integer_result((a[:, :, None] * b).sum(axis=-1), c, satfinite)
    a, b = a.astype(F64), b.astype(F64)
    total = np.zeros(c.shape, F64)
    for k in range(a.shape[2]):
        total += a[:, :, None, k] * b[..., k]
    return rounded(total + c.astype(F64), d)


def elements(words: Array, name: str) -> Array:
    """Return the elements of words, the last axis longer by those of one: integers as int64."""
    if name == "f64":
        return words.view(F64)
    if name[0] in "su":
        return _integers(words, name)
    return decode(np.ascontiguousarray(words).view(U8), FORMATS[name])


def rounded(total: Array, d: str) -> Array:
    """Return sums as f32 or f16, rounded to nearest, and every NaN the one of tensor cores."""
    if d == "f32":
        return np.asarray(canonical(total.astype(np.float32)))
    half = total.astype(F16)
    return np.where(np.isnan(half), NAN[F16], half)


def _of_doubles(a: Array, b: Array, c: Array) -> Array:
    """Return sums of float64, rounded at each step of K, from C on."""
    step, total = fma64(), c
    for k in range(a.shape[2]):
        left, right = np.broadcast_arrays(a[:, :, None, k], b[:, None, :, k])
        total = step(left, right, total)
    return np.asarray(canonical(total))


def integer_result(total: Array, c: Array, satfinite: bool) -> Array:
    """Return int64 sums with C as int32: clamped, or as they wrap."""
    total = total + c.astype(I64)
    if satfinite:
        total = np.clip(total, *_LIMITS)
    return np.asarray(total.astype(np.uint64).astype(U32).view(np.int32))


def _bits_in_common(operation: str, a: Array, b: Array) -> Array:
    left, right = a[:, :, None, :], b[:, None, :, :]
    both = left & right if operation == "and" else left ^ right
    return np.asarray(np.bitwise_count(both).sum(axis=-1, dtype=I64))


def _integers(words: Array, name: str) -> Array:
    """Return elements of 8 or 4 bits, the lowest first."""
    held = np.ascontiguousarray(words).view(U8)
    if name[1:] == "4":
        held = np.stack((held & 15, held >> 4), axis=-1).reshape(*held.shape[:-1], -1)
    wide = held.astype(I64)
    sign = 1 << (int(name[1:]) - 1)
    return (wide ^ sign) - sign if name[0] == "s" else wide


def hardware_product(
    form: WarpForm, a: list[Array], b: list[Array], c: list[Array], where: Positions | None = None
) -> tuple[Array, ...]:
    """Return D's registers as an H200 was measured to make them of floats.

    It has no product of 8-bit floats for a warp: ptxas converts them to f16, multiplies the lower
    half of each word of A and then the upper, from zero on, and adds C to the sum.
    """
    left, right, start = words_of(a, form.m), words_of(b, COLUMNS), sums_of(c, form)
    values, others = elements(left, form.a), elements(right, form.b)
    before = start.astype(np.float32)
    if where is not None:  # each row has elements of B of its own
        others = chosen(others, where)
    made = [_hardware_sums(form, *parts) for parts in zip(values, others, before, strict=True)]
    total = np.stack(made).astype(start.dtype)
    if form.d == "f16":
        total = np.where(np.isnan(total), NAN[F16], total)
    return registers_of(total, form)


def _hardware_sums(form: WarpForm, a: Array, b: Array, before: Array) -> Array:
    """Return A x B^T + C of one warp: A is (rows, K), B (columns, K) or (rows, columns, K)."""
    rounding = replace(HOPPER, half=form.d == "f16")
    add_up = hardware_sum if b.ndim == 2 else hardware_sum_by_row
    if form.bits > 8:
        return add_up(a, b, (FORMATS[form.a], FORMATS[form.b]), before, rounding)
    total: NDArray[np.float32] | None = None
    f16 = FORMATS["f16"]
    for half in (0, 1):
        left, right = (
            np.ascontiguousarray(m.reshape(*m.shape[:-1], -1, 2, 2)[..., half, :]).reshape(
                *m.shape[:-1], -1
            )
            for m in (a, b)
        )
        total = add_up(left, right, (f16, f16), total, rounding)
    assert total is not None
    return rounded(total.astype(F64) + before, form.d)
