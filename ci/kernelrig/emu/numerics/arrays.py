"""The arrays a register holds.

A register of a batch of n warps is a NumPy array that broadcasts to (n, 32): a value that all lanes
share is (n, 1), one that all warps share is (1, 1). Bits are kept as unsigned integers of the
register's width, predicates as bool. Arrays are never written in place: what looks like a change is
a new array, so that batches that part may share all they had.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import cache
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
    """A register that may not be read: it was never written, or not yet."""

    __slots__ = ()


class Undefined(Unready):
    """A register that was never written."""

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

    def settled(self, tags: Set[object]) -> Pending | Array:
        """Return what the register holds when the waits of `tags` have returned."""
        return self.values if self.tag in tags else self

    def take(self, rows: NDArray[np.intp]) -> Pending | Array:
        """Return what some of the warps wait for: it may still be filled in."""
        return self.at(rows if self.rows is None else self.rows[rows])

    def at(self, rows: NDArray[np.intp]) -> Pending:
        """Return the same of other `rows` of what the operation fills in."""
        return Pending(self.filled, self.tag, self.text, rows)


Part = tuple["Pending | Array", NDArray[np.intp], Mask]
"""A value, the rows where it goes, and which lanes of them, None for all."""


class Gathered(Pending):
    """What warps or lanes that reconverged hold in one register, of more than one operation.

    `parts` are values, the rows where they go and the lanes of those, a later one over those before
    it; `tag` is the set of what is waited for, or the one.
    """

    __slots__ = ("parts", "size")

    def __init__(self, parts: Sequence[Part], size: int) -> None:
        waiting = [part for part, _, _ in parts if isinstance(part, Pending)]
        tags = frozenset().union(
            *(p.tag if isinstance(p.tag, frozenset) else {p.tag} for p in waiting)
        )
        tag = next(iter(tags)) if len(tags) == 1 else tags
        super().__init__(waiting[0].filled, tag, waiting[0].text)
        self.parts = parts
        self.size = size

    @property
    def values(self) -> Array:
        arrays = [
            (part.values if isinstance(part, Pending) else part, rows, lanes)
            for part, rows, lanes in self.parts
        ]
        return _side_by_side(arrays, self.size)

    def settled(self, tags: Set[object]) -> Pending | Array:
        parts = [
            (part.settled(tags) if isinstance(part, Pending) else part, rows, lanes)
            for part, rows, lanes in self.parts
        ]
        waits = any(isinstance(part, Pending) for part, _, _ in parts)
        return Gathered(parts, self.size) if waits else self.values

    def take(self, rows: NDArray[np.intp]) -> Pending | Array:
        taken: list[Part] = []
        for part, places, lanes in self.parts:
            here = np.flatnonzero(np.isin(rows, places))
            if len(here):
                inside = np.searchsorted(places, rows[here])
                one = isinstance(part, np.ndarray) and len(part) == 1
                chosen = (
                    part
                    if one
                    else (part.take(inside) if isinstance(part, Pending) else part[inside])
                )
                taken.append((chosen, here, None if lanes is None else lanes[inside]))
        if any(isinstance(p, Pending) for p, _, _ in taken):
            return gathered(taken, len(rows))
        arrays = [(p, at, lanes) for p, at, lanes in taken if isinstance(p, np.ndarray)]
        return _side_by_side(arrays, len(rows))


def _side_by_side(parts: Sequence[tuple[Array, NDArray[np.intp], Mask]], size: int) -> Array:
    made = np.zeros((size, LANES), parts[0][0].dtype)
    for array, rows, lanes in parts:
        made[rows] = array if lanes is None else np.where(lanes, array, made[rows])
    return made


def gathered(parts: Sequence[Part], size: int) -> Pending:
    """Return one register of several batches that reconverge, at least one of them pending."""
    first = parts[0][0]
    if isinstance(first, Pending) and not isinstance(first, Gathered):
        rows = np.zeros(size, np.intp)
        for part, places, _ in parts:  # of one operation: lanes that are nobody's wait for it too
            if type(part) is not type(first) or part.filled is not first.filled:
                return Gathered(parts, size)
            rows[places] = np.arange(len(part.filled)) if part.rows is None else part.rows
        return first.at(rows)
    return Gathered(parts, size)


Held = Array | Unready
"""What a register holds."""


def narrowed(mask: Mask, guard: Array) -> Mask:
    """Return the lanes of `mask` where `guard` holds too."""
    return guard if mask is None else mask & guard


def anyone(mask: Mask) -> bool:
    return mask is None or bool(mask.any())


def full_mask(mask: Mask, rows: int) -> NDArray[np.bool_]:
    """Return `mask` as a whole (rows, 32) array."""
    if mask is None:
        return _all_lanes(rows)
    return mask if mask.shape == (rows, LANES) else np.broadcast_to(mask, (rows, LANES))


@cache
def _all_lanes(rows: int) -> NDArray[np.bool_]:
    mask = np.ones((rows, LANES), np.bool_)
    mask.setflags(write=False)
    return mask


def whole(array: Array, rows: int) -> Array:
    """Return `array` broadcast to (rows, 32)."""
    return np.broadcast_to(array, (rows, LANES))


def lane_bits(mask: NDArray[np.bool_]) -> int:
    """Return 32 lanes as an integer, lane 0 lowest."""
    return int(np.packbits(mask, bitorder="little").view(np.uint32)[0])


def lanes_of_bits(bits: int) -> NDArray[np.bool_]:
    """Return the 32 lanes of an integer, lane 0 lowest."""
    (lanes,) = lanes_of_words(np.array([bits], np.uint32))
    return np.asarray(lanes)


def lane_words(lanes: Array) -> NDArray[np.uint32]:
    """Return each row of an (n, 32) array of lanes as a word, lane 0 lowest."""
    return np.packbits(np.ascontiguousarray(lanes), axis=1, bitorder="little").view(np.uint32)[:, 0]


def lanes_of_words(words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return the lanes of words as an (n, 32) array."""
    bits = np.unpackbits(words.view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    return bits.view(np.bool_)
