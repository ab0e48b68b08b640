"""Accesses as numbers: a record says who did it, when, how and by which instruction; a code is a
record and a lane.

The shadow memory holds codes, 32 bits each, so that comparing thousands of granules is one NumPy
operation on their records' columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelrig.emu.numerics.arrays import LANES, Array
from kernelrig.errors import CiError

LANE_BITS = 5
MOST_GRANULES = (1 << 31) - 1
NEVER = np.int32(2**31 - 1)
ATOMIC = 2
"""`write` of an access that reads and writes at once; of other writes it is 1."""


class RacesFull(CiError):
    """More accesses, or bytes of one buffer, than the race detector can tell apart."""


def races_full() -> RacesFull:
    """Return the error, with what to do."""
    return RacesFull(
        "the race detector has no numbers left for further accesses",
        "run fewer CTAs, or leave races out of --observe",
    )


def too_many_granules(name: str, size: int, shift: int) -> RacesFull:
    """Return the error of a buffer that is accessed in parts of 1 << shift bytes."""
    parts = f"parts of {1 << shift} bytes" if shift else "single bytes"
    most = (MOST_GRANULES + 1 << shift) >> 30
    return RacesFull(
        f"{name} has {size / (1 << 30):.1f} GiB and is accessed in {parts}, which the race detector"
        f" tells apart in buffers of less than {most} GiB",
        "make the buffer smaller, or leave races out of --observe",
    )


@dataclass(slots=True)
class AccessRecord:
    """A record, for a look at one alone. `asks`: its time says too little."""

    who: Any
    cluster: int
    column: int
    time: int
    asynchronous: int
    cta: int
    level: int
    write: int
    mask: int
    asks: bool


class AccessRecords:
    """Accesses, as far as all of a kind share. Record 0 is what was there before the launch.

    `need` is the time that a thread must know to be ordered; NEVER where that does not suffice: of
    several lanes at once (`mask`), which all access the same granules, and of a warp's tcgen05.ld.
    """

    FIELDS = ("cluster", "column", "time", "need", "asynchronous", "at", "cta", "level", "write")

    def __init__(self) -> None:
        self.count = 1
        self.table = np.zeros((len(self.FIELDS) + 1, 1024), np.int32)
        self.mask = np.zeros(1024, np.uint32)
        self.entries = [AccessRecord(None, -1, 0, 0, 0, -1, 0, 1, 0, False)]
        self._views()

    def _views(self) -> None:
        table = self.table
        (
            self.cluster, self.column, self.time, self.need, self.asynchronous, self.at, self.cta,
            self.level, self.write, self.size,
        ) = table  # fmt: skip

    def add(
        self, who: object, values: tuple[int, ...], mask: int = 0, *, asks: bool = False
    ) -> int:
        """Make a record; `values` are cluster, column, time, and the rest behind `need`."""
        number = self.count
        if number == self.table.shape[1]:
            self.table = np.concatenate((self.table, np.zeros_like(self.table)), axis=1)
            self.mask = np.concatenate((self.mask, np.zeros_like(self.mask)))
            self._views()
        cluster, column, time, *rest = values
        self.table[:, number] = (cluster, column, time, NEVER if mask or asks else time, *rest)
        self.mask[number] = mask
        _, cta, level, write, _ = rest[1:]
        self.entries.append(
            AccessRecord(who, cluster, column, time, rest[0], cta, level, write, mask, asks)
        )
        self.count += 1
        return number

    @staticmethod
    def check_granules(name: str, size: int, shift: int) -> None:
        """Check that granules of a buffer have numbers. Raises RacesFull."""
        if size >> shift > MOST_GRANULES:
            raise too_many_granules(name, size, shift)

    def threads(self, code: int) -> tuple[Any, list[int]]:
        """Return who accessed, and which columns of the cluster they are."""
        entry, lane = self.entries[code >> LANE_BITS], code & (LANES - 1)
        first, mask = entry.column, entry.mask
        if not mask:
            return entry.who, [first + lane]
        return entry.who, [first + i for i in range(LANES) if mask >> i & 1]

    def lanes(self, codes: Array) -> Array:
        """Return the lanes of each code as bits."""
        masks = self.mask[codes >> LANE_BITS]
        single = np.left_shift(np.uint32(1), (codes & (LANES - 1)).astype(np.uint32))
        return np.where(masks != 0, masks, single)


def code_of(records: AccessRecords, number: int, mask: int) -> int:
    """Return the code of an access of record `number` by the lanes of `mask`."""
    if mask & (mask - 1):
        return shared_code(records, number << LANE_BITS, mask)
    return number << LANE_BITS | mask.bit_length() - 1


def shared_code(records: AccessRecords, code: int, mask: int) -> int:
    """Return the code of an access like `code` by all the lanes of `mask` together."""
    number = code >> LANE_BITS
    who = records.entries[number].who
    values = [int(v) for v in records.table[:, number]]
    del values[3]
    key = ("lanes", mask, *values)
    known = who.records.get(key)
    if known is None:
        known = who.records[key] = records.add(who, tuple(values), mask)
    return int(known) << LANE_BITS
