"""Whether what was done before is ordered before the access under way."""

from __future__ import annotations

import numpy as np

from ci.emu.arrays import LANES, Array
from ci.emu.observe.clocks import (
    DIRECT,
    GLOBAL,
    LEVELS,
    SAME,
    SHARED,
    TENSOR,
    Actor,
    Known,
    Warp,
)
from ci.emu.observe.order import pipelined, waited_for
from ci.emu.observe.shadow import LANE_BITS, Judge, Records

CROSS = {"shared": SHARED, "global": GLOBAL, "tensor": TENSOR}
"""Space -> the row that says what the other proxy sees."""


class Touch:
    """An access under way: by lanes of a warp that know the same, or by an operation."""

    __slots__ = ("actor", "asynchronous", "at", "bits", "clock", "cluster", "cta", "known", "level",
                 "size", "space", "who", "write")  # fmt: skip

    def __init__(
        self, who: Warp | Actor, clock: Array, known: Known, space: str, size: int, write: bool,
        level: int, at: int, bits: int,
    ) -> None:  # fmt: skip
        self.who = who
        self.actor = who if isinstance(who, Actor) else None
        self.asynchronous = int(self.actor is not None and self.actor.asynchronous)
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


class Judges:
    """Makes the functions that judge. `several` says whether there is more than one cluster."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.several = False

    def of(self, touch: Touch, piece: object, level: int, watch: set[int] | None = None) -> Judge:
        """Return the function that says which accesses are not ordered before this one.

        `watch` takes operations of other CTAs that are, but by threads alone.
        """
        records, clock = self.records, touch.clock
        flat, columns = clock.reshape(-1), clock.shape[1]
        cross = CROSS[touch.space]
        same = TENSOR if touch.space == "tensor" else SAME
        rows = (cross, same) if touch.asynchronous else (same, cross)
        base = np.array(rows) * columns
        number_of = touch.cluster.number
        several = self.several and touch.space == "global"
        direct = columns * DIRECT

        def judge(codes: Array, own: Array | int) -> Array:
            number = codes >> LANE_BITS
            column = records.column[number] + (codes & (LANES - 1))
            proxy = records.asynchronous[number]
            wrong = flat.take(base[proxy] + column, mode="clip") < records.need[number]
            foreign = None
            if several:
                foreign = (records.cluster[number] != number_of) & (number != 0)
                wrong |= foreign
            if (
                watch is not None
            ):  # row 27: what threads alone ordered after another CTA's operation
                late = flat.take(direct + column, mode="clip") < records.need[number]
                late &= ~wrong & (proxy == 1) & (records.cta[number] != touch.cta)
                if late.any():
                    watch.update(codes[late].tolist())
            if not wrong.any():
                return np.asarray(wrong)
            alone = (column == own) & (proxy == touch.asynchronous) & (records.mask[number] == 0)
            if foreign is not None:
                alone &= ~foreign
            wrong &= ~alone
            if level:
                wrong &= ~self._morally_strong(touch, number, level)
            for code in np.unique(codes[wrong]).tolist():
                if self._excused(touch, code, codes, own, wrong, rows, piece):
                    wrong &= codes != code
            return np.asarray(wrong)

        return judge

    def _morally_strong(self, touch: Touch, number: Array, level: int) -> Array:
        """Say which accesses race with no strong one of `level`: strong, of the same proxy and
        bytes, and scopes that include each other (PTX 8.7).
        """
        records = self.records
        relation = np.where(
            records.cta[number] == touch.cta,
            LEVELS["cta"],
            np.where(
                records.cluster[number] == touch.cluster.number, LEVELS["cluster"], LEVELS["gpu"]
            ),
        )
        return np.asarray(
            (records.level[number] >= relation)
            & (level >= relation)
            & (records.asynchronous[number] == touch.asynchronous)
            & ((records.size[number] == touch.size) | (records.asynchronous[number] == 1))
        )

    def _excused(
        self, touch: Touch, code: int, codes: Array, own: Array | int, wrong: Array,
        rows: tuple[int, int], piece: object,
    ) -> bool:  # fmt: skip
        """Look closer at one access: of several lanes, of another cluster, of tensor memory."""
        records = self.records
        number = code >> LANE_BITS
        who, columns = records.threads(code)
        if touch.space == "tensor":
            assert touch.actor is not None
            if who.waits is not None:
                return waited_for(who, touch.actor)
            return pipelined(who, touch.actor, piece)
        cluster = int(records.cluster[number])
        foreign = cluster != touch.cluster.number
        proxy = int(records.asynchronous[number])
        if not foreign and records.mask[number] and proxy == touch.asynchronous:
            mine = np.unique(np.broadcast_to(own, codes.shape)[wrong & (codes == code)])
            if len(mine) == 1:
                columns = [c for c in columns if c != int(mine[0])]
        elif not foreign and not records.mask[number]:
            return False
        clock = touch.known.get(cluster) if foreign else touch.clock
        if clock is None or max(columns, default=0) >= clock.shape[1]:
            return False
        return bool((clock[rows[proxy], columns] >= records.time[number]).all())
