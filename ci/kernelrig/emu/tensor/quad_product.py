"""mma.sync.m8n8k4 of f16: four products of 8 x 8 x 4 at once, one by each pair of quads of a warp.

PTX ISA 9.7.14.5.1, as CUTLASS's atoms of Volta have it too. Lanes 0 to 3 and 16 to 19 make the
first product, 4 to 7 and 20 to 23 the second. With q the lane's number modulo 4, h 1 for the upper
half of the warp and i the number of an element that a lane holds, A has row q + 4 h and K i where
it is .row, row i + 4 h and K q where it is .col; B has K q and column i + 4 h as .row, K i and
column q + 4 h as .col. C and D have row q + 4 h and column i where they are f16, two a register; as
f32, row (q & 1) + (i & 2) + 4 h and column (q & 2) + (i & 4) + (i & 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import F32, F64, LANES, U32, Array
from kernelrig.emu.numerics.float_functions import fma
from kernelrig.emu.numerics.rounding import F16, canonical
from kernelrig.emu.tensor.warp_product import rounded

PRODUCTS, ROWS, K = 4, 8, 4
Places = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""The product, row and column of each element of each lane: (32, elements)."""


@dataclass(frozen=True)
class QuadForm:
    """What the text says; `d` and `c` are f16 or f32."""

    a_by_row: bool
    b_by_row: bool
    d: str
    c: str

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The registers of D, of A, of B and of C."""
        return (_registers(self.d), 2, 2, _registers(self.c))

    @cached_property
    def of_a(self) -> Places:
        return _factor(by_lane=self.a_by_row)

    @cached_property
    def of_b(self) -> Places:
        """Of B, transposed: its column, then K."""
        return _factor(by_lane=not self.b_by_row)


def _registers(kind: str) -> int:
    return 4 if kind == "f16" else 8


def _lanes() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    lane = np.arange(LANES)[:, None]
    return lane % 16 // 4, lane % 4, lane // 16 * 4


def _factor(*, by_lane: bool) -> Places:
    product, quad, half = _lanes()
    element = np.arange(4)[None, :]
    places = (quad + half, element) if by_lane else (element + half, quad)
    return _spread(product, *places)


def _sums(kind: str) -> Places:
    product, quad, half = _lanes()
    i = np.arange(8)[None, :]
    if kind == "f16":
        return _spread(product, quad + half, i)
    return _spread(product, (quad & 1) + (i & 2) + half, (quad & 2) + (i & 4) + (i & 1))


def _spread(*places: NDArray[Any]) -> Places:
    product, row, column = np.broadcast_arrays(*places)
    return product, row, column


def _halves(registers: list[Array]) -> NDArray[Any]:
    """Return the elements of registers with two each, (warps, 32, elements)."""
    held = np.ascontiguousarray(np.stack(registers, axis=-1), U32)
    return held.view(F16)


def _of_kind(registers: list[Array], kind: str) -> NDArray[Any]:
    if kind == "f16":
        return _halves(registers)
    return np.ascontiguousarray(np.stack(registers, axis=-1), U32).view(F32)


def _matrices(elements: NDArray[Any], places: Places, width: int) -> NDArray[Any]:
    made = np.zeros((len(elements), PRODUCTS, ROWS, width), elements.dtype)
    made[:, *places] = elements
    return made


def quad_product(
    form: QuadForm, a: list[Array], b: list[Array], c: list[Array], *, hardware: bool
) -> tuple[Array, ...]:
    """Return D's registers, (warps, 32) each, of the bits of all others.

    `hardware`: as ptxas 13.0 makes it on sm_90a and sm_100a, which have no such instruction: by
    FP32 arithmetic of threads.
    """
    left = _matrices(_halves(a), form.of_a, K)
    right = _matrices(_halves(b), form.of_b, K)
    start = _matrices(_of_kind(c, form.c), _sums(form.c), ROWS)
    made = (_by_threads if hardware else _rounded_once)(form, left, right, start)
    elements = np.ascontiguousarray(made[:, *_sums(form.d)])
    return tuple(np.moveaxis(elements.view(U32), -1, 0).copy())


def _rounded_once(
    form: QuadForm, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]
) -> NDArray[Any]:
    total = np.zeros(c.shape, F64)
    for k in range(K):
        total += a[..., :, None, k].astype(F64) * b[..., None, :, k].astype(F64)
    return rounded(total + c.astype(F64), form.d)


def _by_threads(form: QuadForm, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    step = fma()
    left, right, start = a.astype(F32), b.astype(F32), c.astype(F32)

    def chain(total: NDArray[Any] | None, *columns: int) -> NDArray[Any]:
        for k in columns:
            one, other = np.broadcast_arrays(left[..., :, None, k], right[..., None, :, k])
            total = one * other if total is None else step(one, other, total)
        assert total is not None
        return total

    with np.errstate(all="ignore"):
        if form.d == "f32":
            return np.asarray(canonical(start + chain(np.zeros(c.shape, F32), 0, 1, 2, 3)))
        total = start + chain(None, 0, 1) + chain(None, 2, 3)
        return rounded(total.astype(F64), "f16")
