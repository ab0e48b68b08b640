"""The arrays a register holds.

A register of a crew of n warps is a NumPy array that broadcasts to (n, 32): a value that all lanes
share is (n, 1), one that all warps share is (1, 1). Bits are kept as unsigned integers of the
register's width, predicates as bool. Arrays are never written in place: what looks like a change is
a new array, so that crews that part may share all they had.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_] | None
"""The lanes that execute, broadcastable to (n, 32); None is all lanes of all warps."""

LANES = 32

UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}
"""Bytes -> the type that holds a register's bits."""

SIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.int8),
    2: np.dtype(np.int16),
    4: np.dtype(np.int32),
    8: np.dtype(np.int64),
}
BOOL = np.dtype(np.bool_)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
U8, U16, U32, U64 = UNSIGNED[1], UNSIGNED[2], UNSIGNED[4], UNSIGNED[8]
I8, I16, I32, I64 = SIGNED[1], SIGNED[2], SIGNED[4], SIGNED[8]


class Unready:
    """What stands in a register that may not be read: nobody wrote it, or not yet."""

    __slots__ = ()


class Undefined(Unready):
    """A register that nobody has written."""

    __slots__ = ()


UNDEFINED = Undefined()


class Pending(Unready):
    """The result of an asynchronous instruction that has not been waited for.

    `values` is what the register will hold, a whole (n, 32) array: `rows` of what the operation
    fills in, or all of it. `tag` names the wait that settles it, `text` says which one that is.
    """

    __slots__ = ("filled", "rows", "tag", "text")

    def __init__(
        self, filled: Array, tag: object, text: str, rows: NDArray[np.intp] | None = None
    ) -> None:
        self.filled = filled
        self.tag = tag
        self.text = text
        self.rows = rows

    @property
    def values(self) -> Array:
        return self.filled if self.rows is None else self.filled[self.rows]

    def take(self, rows: NDArray[np.intp]) -> Pending:
        """Return what some of the warps wait for: it may still be filled in."""
        return Pending(self.filled, self.tag, self.text, self.chosen(rows))

    def chosen(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        return rows if self.rows is None else self.rows[rows]


def narrowed(mask: Mask, guard: Array) -> Mask:
    """Return the lanes of `mask` where `guard` holds too."""
    return guard if mask is None else mask & guard


def anyone(mask: Mask) -> bool:
    return mask is None or bool(mask.any())


def full_mask(mask: Mask, rows: int) -> NDArray[np.bool_]:
    """Return `mask` as a whole (rows, 32) array."""
    if mask is None:
        return np.ones((rows, LANES), np.bool_)
    return np.broadcast_to(mask, (rows, LANES))


def whole(array: Array, rows: int) -> Array:
    """Return `array` broadcast to (rows, 32)."""
    return np.broadcast_to(array, (rows, LANES))


def lane_bits(mask: NDArray[np.bool_]) -> int:
    """Return 32 lanes as an integer, lane 0 lowest."""
    return int(np.packbits(mask, bitorder="little").view(np.uint32)[0])
