"""Whether earlier accesses are ordered before the access under way.

An `OrderCheck` is made for one access and asked about the codes of many granules. Three steps, from
cheap to exact: whole records first (`settled`: is the earliest lane's knowledge late enough?), then
all codes at once by NumPy (`_closely`), and what is left one by one (`_excused`): accesses of
several lanes, of other clusters, and of tensor memory, where order is more than a time.
"""

from __future__ import annotations

import numpy as np

from kernelrig.emu.numerics.arrays import LANES, Array
from kernelrig.emu.observe.access_records import LANE_BITS, NEVER, AccessRecords
from kernelrig.emu.observe.clocks import (
    DIRECT,
    GLOBAL,
    LEVELS,
    SAME,
    SHARED,
    TENSOR,
    AsyncOperation,
    Known,
    Warp,
)
from kernelrig.emu.observe.view_changes import pipelined, waited_for

CROSS = {"shared": SHARED, "global": GLOBAL, "tensor": TENSOR}
"""Space -> the row that says what the other proxy sees."""


class Access:
    """An access under way: by lanes of a warp that know the same, or by an operation.

    `copied`: up to when each lane has waited for copies of its own. `issued` is the time of the
    warp at which lanes issued the operation: what they did up to then comes before it.
    """

    __slots__ = (
        "asynchronous",
        "at",
        "atomic",
        "bits",
        "clock",
        "cluster",
        "copied",
        "cta",
        "issued",
        "known",
        "least",
        "level",
        "operation",
        "size",
        "space",
        "who",
        "write",
    )  # fmt: skip

    def __init__(
        self, who: Warp | AsyncOperation, clock: Array, known: Known, space: str, size: int,
        write: bool, level: int, at: int, bits: int,
        least: dict[tuple[int, int], int] | None = None,
    ) -> None:  # fmt: skip
        self.who = who
        self.operation = who if isinstance(who, AsyncOperation) else None
        self.asynchronous = int(self.operation is not None and self.operation.asynchronous)
        self.cluster = who.cluster
        self.cta = who.cta
        self.clock = who.cluster.fit(clock)
        self.known = known
        self.space = space
        self.size = size
        self.write = write
        self.level = level
        self.at = at
        self.bits = bits
        self.least = {} if least is None else least
        self.copied = 0
        self.issued = int(NEVER)
        self.atomic = False


class OrderCheck:
    """Judges what was done before one access.

    `watch` takes operations of other CTAs that are ordered before, but by threads alone. `several`
    says whether there is more than one cluster.
    """

    __slots__ = ("access", "level", "piece", "records", "rows", "several", "watch")

    def __init__(
        self, records: AccessRecords, access: Access, piece: object, level: int, *,
        several: bool = False, watch: set[int] | None = None,
    ) -> None:  # fmt: skip
        cross = CROSS[access.space]
        same = TENSOR if access.space == "tensor" else SAME
        self.records = records
        self.access = access
        self.piece = piece
        self.level = level
        self.several = several and access.space == "global"
        self.watch = watch
        self.rows = (cross, same) if access.asynchronous else (same, cross)

    def settled(self, number: int) -> bool:
        if not number:
            return True
        entry = self.records.entries[number]
        access = self.access
        if entry.asks or entry.cluster != access.cluster.number:
            return False
        # Same proxy or the other one: that decides which row of the clock counts.
        row, column = self.rows[entry.asynchronous], entry.column
        if column >= access.cluster.lanes and access.cluster.counts_operations(column):
            # An operation: one column, one time.
            if access.clock[row, column] < entry.time:
                return False
            if (
                self.watch is not None
                and entry.asynchronous
                and entry.write
                and entry.cta != access.cta
                and access.clock[DIRECT, column] < entry.time
            ):
                self.watch.add(number << LANE_BITS)
            return True
        return self._least(row, column) >= entry.time

    def knows(self, column: int, time: int) -> bool:
        return self._least(self.rows[0], column) >= time

    def _least(self, row: int, column: int) -> int:
        """Return the earliest time of a warp's lanes."""
        least = self.access.least.get((row, column))
        if least is None:
            least = int(self.access.clock[row, column : column + LANES].min())
            self.access.least[row, column] = least
        return least

    def __call__(self, codes: Array, own: Array | int) -> Array | None:
        number = codes >> LANE_BITS
        # Most accesses meet one record, or a few, all of them settled.
        if (number == number[0]).all():
            first = int(number[0])
            if self.settled(first) or self._by_the_same(first, codes, own):
                return None
        elif all([self.settled(n) for n in set(number.tolist())]):  # all of them: some are watched
            return None
        return self._closely(codes, number, own)

    def _by_the_same(self, number: int, codes: Array, own: Array | int) -> bool:
        """Say whether each thread accesses what it accessed last itself."""
        entry, access = self.records.entries[number], self.access
        if entry.who is not access.who or entry.asynchronous != access.asynchronous or entry.mask:
            return False
        return bool(((codes & (LANES - 1)) + entry.column == own).all())

    def _closely(self, codes: Array, number: Array, own: Array | int) -> Array | None:
        records, access = self.records, self.access
        flat, columns = access.clock.reshape(-1), access.clock.shape[1]
        column = records.column[number] + (codes & (LANES - 1))
        proxy = records.asynchronous[number]
        base = np.array(self.rows) * columns
        # One lookup for all codes: the time that this thread knows of each, against the one needed.
        wrong = flat.take(base[proxy] + column, mode="clip") < records.need[number]
        # A thread is in order with itself, within a proxy (program order, PTX ISA 8.9.1).
        alone = (column == own) & (proxy == access.asynchronous)
        if access.issued != NEVER:
            alone &= records.time[number] <= access.issued
        if access.copied:
            copied = (column == own + access.cluster.copies) & (np.asarray(own) >= 0)
            alone |= copied & (records.time[number] <= access.copied)
        alone &= records.mask[number] == 0
        # Columns count within a cluster: another cluster's need a closer look.
        if self.several:
            foreign = (records.cluster[number] != access.cluster.number) & (number != 0)
            wrong |= foreign
            alone &= ~foreign
        wrong &= ~alone
        if self.level:
            wrong &= ~self._morally_strong(access, number, self.level)
        if not wrong.any():
            return None
        for code in np.unique(codes[wrong]).tolist():
            if self._excused(access, code, codes, own, wrong, self.rows, self.piece):
                wrong &= codes != code
        return wrong if wrong.any() else None

    def _morally_strong(self, access: Access, number: Array, level: int) -> Array:
        """Say which accesses race with no strong one of `level`: strong, of the same proxy and
        bytes, and scopes that include each other (PTX 8.7).
        """
        records = self.records
        # How far both scopes must reach to include each other.
        relation = np.where(
            records.cta[number] == access.cta,
            LEVELS["cta"],
            np.where(
                records.cluster[number] == access.cluster.number, LEVELS["cluster"], LEVELS["gpu"]
            ),
        )
        return np.asarray(
            (records.level[number] >= relation)
            & (level >= relation)
            & (records.asynchronous[number] == access.asynchronous)
            & ((records.size[number] == access.size) | (records.asynchronous[number] == 1))
        )

    def _excused(
        self, access: Access, code: int, codes: Array, own: Array | int, wrong: Array,
        rows: tuple[int, int], piece: object,
    ) -> bool:  # fmt: skip
        """Look closer at one access: of several lanes, of another cluster, of tensor memory."""
        records = self.records
        number = code >> LANE_BITS
        who, columns = records.threads(code)
        # Tensor memory is ordered by rules of its own, not by times alone (PTX ISA 9.7.16.6).
        if access.space == "tensor":
            assert access.operation is not None
            if who.waits is not None:
                return waited_for(who, access.operation)
            return pipelined(who, access.operation, piece)
        cluster = int(records.cluster[number])
        foreign = cluster != access.cluster.number
        proxy = int(records.asynchronous[number])
        # An access of several lanes together: the one that accesses again is in order with itself.
        if not foreign and records.mask[number] and proxy == access.asynchronous:
            mine = np.unique(np.broadcast_to(own, codes.shape)[wrong & (codes == code)])
            if len(mine) == 1:
                own_column, until = int(mine[0]), access.issued
                if isinstance(who, AsyncOperation):  # that each lane issued for itself
                    own_column, until = own_column + access.cluster.copies, access.copied
                if records.time[number] <= until:
                    columns = [c for c in columns if c != own_column]
        elif not foreign and not records.mask[number]:
            return False
        clock = access.known.get(cluster) if foreign else access.clock
        if clock is None or max(columns, default=0) >= clock.shape[1]:
            return False
        return bool((clock[rows[proxy], columns] >= records.time[number]).all())


def is_seen(records: AccessRecords, code: int, clock: Array | None, row: int = SAME) -> bool:
    """Say whether a row of `clock` has that access; by SAME, whatever the proxies."""
    _, columns = records.threads(code)
    need = records.entries[code >> LANE_BITS].time
    if clock is None or max(columns) >= clock.shape[1]:
        return False
    return bool((clock[row, columns] >= need).all())
