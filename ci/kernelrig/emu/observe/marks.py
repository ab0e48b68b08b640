"""A byte of marks for each byte of an arena, looked at several bytes at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import UNSIGNED, Array

Marks = NDArray[np.uint8]


def words(marks: Marks, starts: Array, size: int) -> tuple[NDArray[Any], Array]:
    """Return `marks` as words, and which of them cover `size` bytes from each of `starts`.

    The words, (*starts.shape, k), are as wide as size and starts allow, at most 8 bytes.
    """
    bits = int(np.bitwise_or.reduce(starts, axis=None)) | size | 8
    unit = bits & -bits
    view = marks.view(UNSIGNED[unit])
    if unit == size:
        return view, (starts // unit)[..., None]
    return view, (starts[..., None] + np.arange(0, size, unit)) // unit


def mark(marks: Marks, starts: Array, size: int, bit: int) -> None:
    """Set `bit` of the marks of all those bytes."""
    if size:
        view, index = words(marks, starts, size)
        view[index] |= _pattern(view, bit)


def any_marked(marks: Marks, starts: Array, size: int, bit: int) -> NDArray[np.bool_]:
    """Say for each start whether one of its bytes has `bit`."""
    view, index = words(marks, starts, size)
    return np.asarray(((view[index] & _pattern(view, bit)) != 0).any(axis=-1))


def all_marked(marks: Marks, starts: Array, size: int, bit: int) -> NDArray[np.bool_]:
    """Say for each start whether all of its bytes have `bit`."""
    view, index = words(marks, starts, size)
    pattern = _pattern(view, bit)
    return np.asarray(((view[index] & pattern) == pattern).all(axis=-1))


def _pattern(view: NDArray[Any], bit: int) -> Any:  # noqa: ANN401 (a scalar of the view's type)
    return view.dtype.type(int.from_bytes(bytes([bit]) * view.dtype.itemsize, "little"))
