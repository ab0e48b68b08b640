"""The accumulator of a warpgroup's products: registers that are not readable until the wait.

Products onto the same registers are one chain; it is kept as a matrix, and becomes registers when
it is waited for. PTX ISA 9.7.15.5.1.1: register v of thread t holds row t / 4 % 8 + 8 (v >> 1 & 1)
of its warp's 16, column 8 (v >> 2) + 2 (t % 4) + (v & 1); of f16, two columns share one.
"""

from __future__ import annotations

from operator import is_

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import Array, Pending, whole

WARP_ROWS = 16
WAIT = "the wgmma.wait_group of its group"


class Accumulator:
    """The sums of some warps, (warps, 16, n): float32, or int32 of type s32. `group` is by warp the
    last group that adds to them.

    `register` is the index of the first register, which identifies an accumulator of a warp,
    `registers_of` are all of them.
    """

    def __init__(self, warps: list[int], n: int, type_: str, register: int) -> None:
        kind: type[np.int32] | type[np.float32] = np.int32 if type_ == "s32" else np.float32
        self.sums: Array = np.zeros((len(warps), WARP_ROWS, n), kind)
        self.type = type_
        self.half = half = type_ == "f16"
        self.register = register
        self.registers_of: frozenset[int] = frozenset()
        self.group = dict.fromkeys(warps, 0)
        self._registers: NDArray[np.uint32] | None = None
        count = n // (4 if half else 2)
        self.fragments = tuple(Fragment(self, number) for number in range(count))

    @property
    def n(self) -> int:
        return int(self.sums.shape[2])

    def load(self, values: list[Array]) -> None:
        """Start from what the registers hold."""
        warps = len(self.sums)
        held = np.stack([whole(v, warps) for v in values])
        if self.half:
            pairs = np.ascontiguousarray(held).view(np.float16).reshape(len(held), warps, 32, 2)
            floats = pairs.transpose(0, 3, 1, 2).reshape(2 * len(held), warps, 32)
        else:
            floats = held.view(self.sums.dtype)
        # 8 columns, the row's half, the column of a pair, warp, row, pair
        parts = floats.reshape(self.n // 8, 2, 2, warps, 8, 4)
        self.sums[...] = parts.transpose(3, 1, 4, 0, 5, 2).reshape(self.sums.shape)

    def of(self, rows: NDArray[np.intp]) -> Array:
        """Return the sums of some warps, stacked: for `set`, which may find them changed."""
        some = slice(int(rows[0]), int(rows[0]) + len(rows))
        together = bool((rows == np.arange(some.start, some.stop)).all())
        return self.sums[some if together else rows].reshape(-1, self.n)

    def set(self, rows: NDArray[np.intp], sums: Array) -> None:
        """Let the sums of some warps be these, stacked."""
        self._registers = None
        if np.may_share_memory(sums, self.sums) and not self.half:
            return
        made = sums.astype(np.float16) if self.half else sums
        self.sums[rows] = made.reshape(len(rows), WARP_ROWS, self.n)

    def registers(self) -> NDArray[np.uint32]:
        """Return the bits of all registers, (registers, warps, 32)."""
        if self._registers is None:
            warps = len(self.sums)
            parts = self.sums.reshape(warps, 2, 8, self.n // 8, 4, 2).transpose(3, 1, 5, 0, 2, 4)
            floats = parts.reshape(self.n // 2, warps, 32)
            if self.half:
                pairs = floats.reshape(-1, 2, warps, 32).transpose(0, 2, 3, 1).astype(np.float16)
                made = np.ascontiguousarray(pairs).view(np.uint32)[..., 0]
            else:
                made = np.ascontiguousarray(floats).view(np.uint32)
            self._registers = made
        return self._registers

    def first_of(self, warp: int) -> Array:
        """Return the first register of a warp."""
        found: Array = self.registers()[0, list(self.group).index(warp)]
        return found


class Fragment(Pending):
    """One register of an accumulator."""

    __slots__ = ("number",)

    tag: Accumulator

    def __init__(
        self, accumulator: Accumulator, number: int, rows: NDArray[np.intp] | None = None
    ) -> None:
        super().__init__(accumulator.sums, accumulator, WAIT, rows)
        self.number = number

    @property
    def values(self) -> Array:
        found: Array = self.tag.registers()[self.number]
        return found if self.rows is None else found[self.rows]

    def at(self, rows: NDArray[np.intp]) -> Fragment:
        return Fragment(self.tag, self.number, rows)


def chained(values: tuple[object, ...], n: int, type_: str) -> Fragment | None:
    """Return the first register of an accumulator of this form, if these are all of its, in their
    order.
    """
    first = values[0]
    if not isinstance(first, Fragment) or first.number:
        return None
    if (first.tag.n, first.tag.type) != (n, type_):
        return None
    fragments = first.tag.fragments
    if len(values) == len(fragments) and all(map(is_, values, fragments)):
        return first
    for number, value in enumerate(values):
        if (
            not isinstance(value, Fragment)
            or value.tag is not first.tag
            or value.number != number
            or not _same(value.rows, first.rows)
        ):
            return None
    return first if len(values) == len(fragments) else None


def _same(rows: NDArray[np.intp] | None, others: NDArray[np.intp] | None) -> bool:
    return rows is others or (
        rows is not None and others is not None and np.array_equal(rows, others)
    )
