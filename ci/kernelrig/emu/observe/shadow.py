"""The shadow of memory: who accessed each granule last.

How it works. A granule is 4 bytes, until an access is narrower: then it is as small as that, in the
whole region, so that no two threads share one by accident. It holds the last write and the reads
since, as codes (a record and a lane).

One write is enough, as a new write must be ordered behind it anyway, and what is ordered behind the
new one is then ordered behind the old one. Reads are several: two reads need no order, and a write
must be ordered behind each. A read replaces an earlier one of the same threads, and one that is
ordered before it; most granules hold one or two (FIRST_READERS columns, doubled when they do not
suffice, MOST_READERS at most).

Strong accesses (atomics, relaxed and stronger loads and stores) do not race with one another (PTX
ISA 8.7, morally strong), but with weak ones they do. So a strong write that is not ordered behind
earlier strong ones does not replace them: they stay among the reads (`write_strongly`). Nor does it
replace weak ones that it is ordered behind: the next strong access must be behind those, too, and
need not be behind this write.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Any, Protocol

import numpy as np

from kernelrig.emu.numerics.arrays import LANES, Array
from kernelrig.emu.observe.access_records import LANE_BITS, AccessRecords, code_of, shared_code
from kernelrig.emu.observe.cached_lines import CachedLines
from kernelrig.emu.observe.readers import Readers, Where

WORD = 2
FIRST_READERS = 2
MOST_READERS = 64
MOST_REMEMBERED = 50_000
ALL_LANES = (1 << LANES) - 1


class Judge(Protocol):
    """Knows the access under way."""

    def settled(self, number: int) -> bool:
        """Say whether all of a record is ordered before it, as far as one look shows."""

    def knows(self, column: int, time: int) -> bool:
        """Say whether what the warp of `column` did by `time` is ordered before it."""

    def __call__(self, codes: Array, own: Array | int) -> Array | None:
        """Say of each code whether it is not ordered before; None where all are. `own` is the
        column of the thread that accesses, one for all or one each; -1 is several threads.
        """


Wrong = list[tuple[int, int]]
"""Codes, each with the number of a granule among those accessed; a code once."""
Before = tuple[Array, Array]
"""The reads and the write of granules, as they were."""


class Region:
    """A buffer, the shared memory of a CTA, or its tensor memory.

    Until the first write, reads are only remembered (`unwritten`): most of a grid's input.
    """

    def __init__(
        self, name: str, start: int, size: int, records: AccessRecords, *, lazy: bool = False
    ) -> None:
        self.name = name
        self.start = start
        self.size = size
        self.records = records
        self.shift = WORD
        records.check_granules(name, size, WORD)
        count = (size >> WORD) + 1
        self.writes: Array = np.zeros(count, np.int32)
        self.reads: Array = np.zeros((count, FIRST_READERS), np.int32)
        self.step = 1  # of tensor memory: lanes in a granule
        self.strong = False  # writes among the reads
        self.non_coherent: Array | None = None  # by ld.global.nc: the codes
        self.readers: Readers | None = None
        self.wrong = 0  # conflicts that are errors
        self.advised = 0  # operations that threads alone order
        self.unwritten: deque[tuple[Any, ...]] | None = (
            deque(maxlen=MOST_REMEMBERED) if lazy else None
        )
        self.lines = CachedLines(start, size) if lazy else None

    def granules(self, starts: Array, size: int, *, aligned: bool = False) -> tuple[Array, int]:
        """Return the granules of `size` bytes at each of `starts`, and how many each has.

        `aligned`: each start is a multiple of the size.
        """
        relative = starts - self.start
        small = (1 << self.shift) - 1
        # An access narrower than a granule, or across its edge: halve until none is.
        if size & small or (not aligned and (relative & small).any()):
            together = int(np.bitwise_or.reduce(relative)) | size
            self.refine((together & -together).bit_length() - 1)
        first = relative >> self.shift
        each = size >> self.shift
        if each == 1:
            return first, 1
        return (first[:, None] + _steps(each)).reshape(-1), each

    def refine(self, shift: int) -> None:
        """Make granules as small as 1 << shift bytes."""
        self.records.check_granules(self.name, self.size, shift)
        parts = 1 << (self.shift - shift)
        self.writes = np.repeat(self.writes, parts)
        self.reads = np.repeat(self.reads, parts, axis=0)
        if self.non_coherent is not None:
            self.non_coherent = np.repeat(self.non_coherent, parts)
        if self.readers is not None:
            self.readers.refine(parts)
        self.shift = shift

    def split_rows(self, parts: int, columns: int) -> None:
        """Of tensor memory: make a granule of each lane."""
        self.writes = np.repeat(self.writes[:-1].reshape(-1, columns), parts, axis=0).reshape(-1)
        readers = self.reads.shape[1]
        reads = self.reads[:-1].reshape(-1, columns, readers)
        self.reads = np.repeat(reads, parts, axis=0).reshape(-1, readers)

    def run(self, starts: Array, size: int) -> Where:
        """Return the granules of one operation, which may come in any order: a slice if it can."""
        ordered = np.sort(starts)
        if (np.diff(ordered) == size).all():
            granules, each = self.granules(ordered, size)
            return slice(int(granules[0]), int(granules[0]) + len(starts) * each)
        return self.granules(starts, size)[0]

    def write(
        self, where: Where, codes: Array | int, own: Array | int, judge: Judge
    ) -> tuple[Wrong, Before]:
        """Note a write of these granules, and return what is not ordered before it, and what was
        there: views of it, where `where` is a slice.

        Where it has been read since, a write before is ordered by way of that read: a completion
        says nothing of what came before its operation, but order is transitive. A strong read may
        itself be unordered, and proves nothing.
        """
        read = self._plain_reads(where, judge)
        rows, old = self.reads[where], self.writes[where]
        # Without reads since, the earlier write itself must be ordered before this one.
        if not rows.any():
            wrong = _wrong(old, own, judge) if read is None else _wrong_of(old, own, judge, ~read)
        else:
            wrong = _wrong_rows(rows, own, judge)
            unread = self._unread(rows, old)
            if read is not None:
                unread &= ~read
            wrong += _wrong_of(old, own, judge, unread)
            self.reads[where] = 0
        self.writes[where] = codes
        return wrong, (rows, old)

    def _unread(self, rows: Array, old: Array) -> Array:
        """Say which granules no weak read is of since the write `old`.

        Such a read was checked against that write when it came, so that the write needs no second
        look. Those of before a strong write stay in the shadow: their records are older.
        """
        weak = rows != 0
        if self.strong:
            number, last = rows >> LANE_BITS, old >> LANE_BITS
            weak &= self.records.level[number] + self.records.write[number] == 0
            weak &= (self.records.level[last] == 0)[:, None] | (number > last[:, None])
        return np.asarray(~weak.any(axis=1))

    def _plain_reads(self, where: Where, judge: Judge) -> Array | None:
        """Say which granules `readers` had, None for none; of those unordered make codes."""
        if self.readers is None or not self.readers.used:
            return None
        read, left = self.readers.take(where, judge)
        for granules, numbers, lanes in left:
            pairs, which = np.unique(numbers.astype(np.int64) << LANES | lanes, return_inverse=True)
            made = [code_of(self.records, p >> LANES, p & ALL_LANES) for p in pairs.tolist()]
            self.note_read(granules, np.array(made, np.int32)[which], 0, UNORDERED)
        return read

    def write_strongly(
        self, where: Array, codes: Array, own: Array | int, judge: Judge, strict: Judge
    ) -> Wrong:
        """As `write`, but strong accesses that are not ordered before this one stay: they race with
        none another, and with weak ones all of them may. So do weak accesses.
        """
        self.strong = True
        # The cheap form of reads has no room for strong writes beside them: give it up here.
        self._plain_reads(where, UNORDERED)
        wrong, before = self.write(where, codes, own, judge)
        # `strict` knows no moral strength: what it finds unordered has to stay visible to later
        # weak accesses, though it does not race with this one.
        self.keep(where, before, own, strict, weak=True)
        return wrong

    def keep(
        self, where: Array, before: Before, own: Array | int, judge: Judge, *, weak: bool = False
    ) -> None:
        """Let what was there `before` a write, and is not ordered before it, stay beside it; with
        `weak` what is weak, too.
        """
        self.strong = True
        rows, old = before
        last = judge(old, own)
        stay = np.zeros(len(old), np.bool_) if last is None else last
        unordered = _spread(rows, own, judge)
        if weak:
            level = self.records.level
            stay |= (old != 0) & (level[old >> LANE_BITS] == 0)
            unordered |= (rows != 0) & (level[rows >> LANE_BITS] == 0)
        stay &= self._unread(rows, old)
        rows[~unordered] = 0
        self.reads[where] = rows
        if stay.any():
            rows = rows[stay]
            self._put(where[stay], old[stay], rows, rows == 0)

    def read(
        self, where: Where, codes: Array | int, own: Array | int, judge: Judge, strict: Judge
    ) -> Wrong:
        """Note a read of these granules, and return what is not ordered before it."""
        wrong = _wrong(self.writes[where], own, judge)
        rows = self.reads[where]
        if self.strong:
            writes = np.where(self.records.write[rows >> LANE_BITS] == 0, 0, rows)
            wrong += _wrong_rows(writes, own, judge)
        if self._stands_aside(rows, codes, strict):
            self.reads[where, 0] = codes
        else:
            self.note_read(where, codes, own, strict)
        return wrong

    def _stands_aside(self, rows: Array, codes: Array | int, strict: Judge) -> bool:
        """Say whether what is in the first slots makes room as a whole, as it mostly does."""
        # The usual case, decided without looking at each granule: one slot in use, by one record
        # that is ordered before, or by the same lanes.
        first = rows[:, 0]
        if not first.any():
            return True
        if rows.shape[1] > 1 and rows[:, 1:].any():
            return False
        number = first >> LANE_BITS
        if not (number == number[0]).all():
            return False
        old = self.records.entries[number[0]]
        new = self.records.entries[int(np.max(codes)) >> LANE_BITS]
        if old.write or old.asynchronous != new.asynchronous or (new.level and not old.level):
            return False
        if strict.settled(int(number[0])):
            return True
        if old.who is not new.who or old.mask != new.mask:
            return False
        if not isinstance(codes, int) and (codes >> LANE_BITS != codes[0] >> LANE_BITS).any():
            return False
        return bool(((first ^ codes) & (LANES - 1) == 0).all())

    def note_read(self, where: Where, codes: Array | int, own: Array | int, strict: Judge) -> None:
        """Remember reads of distinct granules; one that is ordered before stands aside."""
        rows = self.reads[where].copy()
        if isinstance(where, slice):
            where = np.arange(where.start, where.stop)
        codes = np.broadcast_to(np.asarray(codes, np.int32), where.shape)
        ordered = ~_spread(rows, own, strict)
        free = (rows == 0) | self._replaced(rows, codes, ordered)
        self._put(where, codes, rows, free)

    def _replaced(self, rows: Array, codes: Array, ordered: Array) -> Array:
        """Say which of the reads in `rows` the new ones stand for: same threads, or ordered."""
        records = self.records
        old, new = rows >> LANE_BITS, (codes >> LANE_BITS)[:, None]
        lanes = records.lanes(codes)[:, None]
        same = (
            (records.column[old] == records.column[new])
            & (records.cluster[old] == records.cluster[new])
            & (records.lanes(rows) & ~lanes == 0)
        )
        fitting = (records.asynchronous[old] == records.asynchronous[new]) & (
            (records.level[old] != 0) | (records.level[new] == 0)
        )
        return np.asarray((same | ordered) & fitting & (records.write[old] == 0))

    def _put(self, where: Array, codes: Array, rows: Array, free: Array) -> None:
        # First free slot of each granule; granules without one try to merge, then grow.
        slot = free.argmax(axis=1)
        there = free.any(axis=1)
        self.reads[where[there], slot[there]] = codes[there]
        if there.all():
            return
        where, codes, rows = where[~there], codes[~there], rows[~there]
        left = self._merge(where, codes, rows)
        if not left.any():
            return
        if self.reads.shape[1] < MOST_READERS:
            self.reads = np.concatenate((self.reads, np.zeros_like(self.reads)), axis=1)
        free = self.reads[where[left]] == 0
        # Of more than there is room for, the latest make room: what stays beside writes is older.
        free[:, -1] = True
        self.reads[where[left], free.argmax(axis=1)] = codes[left]

    def _merge(self, where: Array, codes: Array, rows: Array) -> Array:
        """Make one record of reads by lanes of one warp at one time; return what is left."""
        records = self.records
        old, new = rows >> LANE_BITS, (codes >> LANE_BITS)[:, None]
        # 32 lanes that read one word one by one would fill 32 slots: reads of a warp at one time
        # are one record with a lane mask instead.
        alike = (rows != 0) & (records.asynchronous[new] == 0) & (records.write[old] == 0)
        for name in ("cluster", "column", "time", "asynchronous", "level"):
            values = getattr(records, name)
            alike &= values[old] == values[new]
        found = alike.any(axis=1)
        if found.any():
            slot = alike.argmax(axis=1)[found]
            into = rows[found, slot]
            pairs = into.astype(np.int64) << 32 | codes[found]
            unique, which = np.unique(pairs, return_inverse=True)
            made = [self.union(int(p >> 32), int(p & 0xFFFFFFFF)) for p in unique]
            self.reads[where[found], slot] = np.array(made, np.int32)[which]
        return np.asarray(~found)

    def union(self, a: int, b: int) -> int:
        """Return a code for the lanes of both."""
        records = self.records
        both = records.lanes(np.array([a, b], np.int32))
        return shared_code(records, b, int(both[0] | both[1]))


def _wrong(codes: Array, own: Array | int, judge: Judge) -> Wrong:
    if isinstance(own, int):
        few = distinct(codes)
        bad = judge(few, own)
        if bad is None:
            return []
        return [(c, int((codes == c).argmax())) for c in few[bad].tolist()]
    bad = judge(codes, own)
    if bad is None:
        return []
    where = np.flatnonzero(bad)
    found, first = np.unique(codes[where], return_index=True)
    return [(int(c), int(where[i])) for c, i in zip(found, first, strict=True)]


def _wrong_of(codes: Array, own: Array | int, judge: Judge, some: Array) -> Wrong:
    """Return what `judge` says of some of the codes."""
    if not some.any():
        return []
    each = own if isinstance(own, int) else own[some]
    back = np.flatnonzero(some)
    return [(code, int(back[i])) for code, i in _wrong(codes[some], each, judge)]


def _wrong_rows(rows: Array, own: Array | int, judge: Judge) -> Wrong:
    slots = rows.shape[1]
    each = own if isinstance(own, int) else np.repeat(own, slots)
    return [(code, i // slots) for code, i in _wrong(rows.reshape(-1), each, judge)]


def _spread(rows: Array, own: Array | int, judge: Judge) -> Array:
    """Return what `judge` says of each code in rows of granules."""
    if isinstance(own, int):
        few = distinct(rows.reshape(-1))
        bad = judge(few, own)
        return np.zeros(rows.shape, np.bool_) if bad is None else np.isin(rows, few[bad])
    bad = judge(rows.reshape(-1), np.repeat(own, rows.shape[1]))
    return np.zeros(rows.shape, np.bool_) if bad is None else bad.reshape(rows.shape)


_TRUE = np.ones(1, np.bool_)


@cache
def _steps(count: int) -> Array:
    return np.arange(count)


def distinct(codes: Array) -> Array:
    """Return each code once; most are alike, and in runs."""
    starts = np.flatnonzero(codes[1:] != codes[:-1])
    if not len(starts):
        return codes[:1]
    runs = np.concatenate((codes[:1], codes[starts + 1]))
    runs.sort()  # np.unique takes ten times as long for a few hundred
    return np.asarray(runs[np.concatenate((_TRUE, runs[1:] != runs[:-1]))])


class _Unordered:
    """Knows no order."""

    def settled(self, number: int) -> bool:
        return not number

    def knows(self, column: int, time: int) -> bool:
        return False

    def __call__(self, codes: Array, own: Array | int) -> Array | None:
        return np.asarray(codes != 0) if codes.any() else None


UNORDERED = _Unordered()
