"""Plain reads of shared memory by warps of its own CTA: most of all reads, kept in a cheap form.

A row a warp: when it read each granule last, by which lanes, under which record. That represents
all reads at one time, however many lanes share a granule, and later ones that replace those before.
Other reads go into the shadow one by one, and these too once something is not ordered behind them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from kernelrig.emu.numerics.arrays import LANES, Array

BITS = np.left_shift(np.uint32(1), np.arange(LANES, dtype=np.uint32))
"""Lane -> its bit."""


class Knows(Protocol):
    """The access under way."""

    def knows(self, column: int, time: int) -> bool:
        """Say whether what the warp of `column` did by `time` is ordered before it."""


Where = Array | slice
"""Granules, each once."""

Left = tuple[Where, Array, Array]
"""Granules, and for each the record and the lanes that read it."""


class Readers:
    """The reads of `columns`, the first of each warp of a CTA, of so many granules.

    `first` is the number on the machine of the CTA's first warp.
    """

    def __init__(self, first: int, columns: list[int], granules: int) -> None:
        self.first = first
        self.columns = columns
        self.used = False
        self._times = np.zeros((len(columns), granules), np.int32)
        self._lanes = np.zeros((len(columns), granules), np.uint32)
        self._records = np.zeros((len(columns), granules), np.int32)
        self._met = np.zeros(granules, np.uint32)

    def note(
        self, warp: int, granules: Array, bits: Array, time: int, record: int, judge: Knows
    ) -> bool:
        """Remember that lanes (`bits`) read `granules`, which may repeat; False if a row of the
        warp cannot say that beside what it says already.
        """
        row = warp - self.first
        times, lanes = self._times[row], self._lanes[row]
        met = self._met
        np.bitwise_or.at(met, granules, bits)
        new = met[granules]
        met[granules] = 0
        before = times[granules]
        if before.any():
            known = lanes[granules]
            same = before == time
            if not same.all():
                left = (before != 0) & ~same & (known & ~new != 0)
                if left.any() and not judge.knows(self.columns[row], int(before[left].max())):
                    return False
            new = np.where(same, known | new, new)
        lanes[granules] = new
        times[granules] = time
        self._records[row][granules] = record
        self.used = True
        return True

    def take(self, where: Where, judge: Knows) -> tuple[Array | None, list[Left]]:
        """Forget the reads of these granules, which are being written.

        Returns which of them had been read, None for none, and what is not ordered before.
        """
        times = self._times[:, where]
        latest = times.max(axis=1)
        left: list[Left] = []
        rows = np.flatnonzero(latest).tolist()
        if not rows:
            return None, left
        for row in rows:
            if not judge.knows(self.columns[row], int(latest[row])):
                there = np.flatnonzero(times[row])
                each = there + where.start if isinstance(where, slice) else where[there]
                left.append((each, self._records[row][each], self._lanes[row][each]))
        self._times[:, where] = 0
        return (times != 0).any(axis=0), left

    def refine(self, parts: int) -> None:
        self._times = np.repeat(self._times, parts, axis=1)
        self._lanes = np.repeat(self._lanes, parts, axis=1)
        self._records = np.repeat(self._records, parts, axis=1)
        self._met = np.repeat(self._met, parts)
