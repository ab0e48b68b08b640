"""Accesses: checked against the shadow, told where they race, and put into it."""

from __future__ import annotations

import numpy as np

from kernelrig.emu.machine.asynchronous import Op
from kernelrig.emu.machine.hooks import Hooks
from kernelrig.emu.machine.state import Crew, Machine
from kernelrig.emu.machine.state_spaces import RESERVED_BYTES, SLOT_BYTES
from kernelrig.emu.numerics.arrays import LANES, Array, Mask
from kernelrig.emu.observe.access_records import LANE_BITS, Records
from kernelrig.emu.observe.clocks import ALL, LEVELS, MOST_OPERATIONS, Actor, Cluster, Sync, Warp
from kernelrig.emu.observe.codes import codes_of
from kernelrig.emu.observe.conflicts import TENSOR_COLUMNS, Reports, side_of
from kernelrig.emu.observe.judgement import Touch, Verdict
from kernelrig.emu.observe.ordering import free_columns
from kernelrig.emu.observe.readers import BITS, Readers
from kernelrig.emu.observe.shadow import UNORDERED, Region, Where

TENSOR_LANES = 128
MOST_WRONG = 4096
"""Conflicts in one buffer, or one CTA's shared memory, after which it is watched no longer: where a
barrier is missing everything races, and each access is then looked at closely."""
LANES_A_GRANULE = 16  # of tensor memory: the fewest that instructions with M 64 leave to others
Strong = tuple[Warp, tuple[str, int], int]
"""Lanes (bits) of a warp that access a variable: its space and flat byte."""
_SEVERAL = np.full(1, -1, np.int32)
_LANE_NUMBERS = np.arange(LANES, dtype=np.int32)


class Touches(Hooks):
    """The half of the observer that accesses are told to."""

    def __init__(self) -> None:
        self.machine: Machine
        self.records = Records()
        self.pairs = False  # more than one CTA in a cluster
        self.several = False  # clusters
        self.reports = Reports(self.records)
        self.warps: list[Warp] = []
        self.buffers: dict[int, Region] = {}
        self.shared: dict[int, Region] = {}
        self.tensor: dict[int, Region] = {}
        self.variables: dict[tuple[str, int], Sync] = {}
        self._promised = False
        self._cells: dict[tuple[int, ...], Array] = {}

    def forget_wave(self) -> None:
        """Shared and tensor memory of the CTAs that have run is no more."""
        self.shared.clear()
        self.tensor.clear()
        for key in [k for k in self.variables if k[0] == "shared"]:
            del self.variables[key]

    # Where.
    def _buffer(self, flat: int) -> Region | None:
        found = self.machine.memory.global_.find(flat)
        if found is None or found.read_only:
            return None
        region = self.buffers.get(found.start)
        if region is None:
            region = Region(found.name, found.start, found.size, self.records, lazy=True)
            self.buffers[found.start] = region
        return region

    def _slot(self, slot: int) -> Region:
        region = self.shared.get(slot)
        if region is None:
            first = self.machine.slot_of.tolist().index(slot)
            size = self.machine.memory.shared_bytes + RESERVED_BYTES
            name = f"shared memory of CTA {int(self.machine.cta_of[first])}, address"
            region = Region(name, slot * SLOT_BYTES, size, self.records)
            own = self.warps[first : first + self.machine.geometry.warps]
            region.readers = Readers(first, [w.column for w in own], len(region.writes))
            self.shared[slot] = region
        return region

    def _regions(self, space: str, flat: Array, size: int) -> list[tuple[Region, Array | None]]:
        """Return the regions of flat bytes, with the numbers of those in each; None is all."""
        low, high = int(flat.min()), int(flat.max())
        if space == "shared":
            first = low // SLOT_BYTES
            if high // SLOT_BYTES == first:
                return [(self._slot(first), None)]
            slots = flat // SLOT_BYTES
            return [(self._slot(int(s)), np.flatnonzero(slots == s)) for s in np.unique(slots)]
        region = self._buffer(low)
        if region and high + size <= region.start + region.size:
            return [(region, None)]
        found = self.machine.memory.global_.find(low)
        if found and high + size <= found.start + found.size:
            return []  # parameters and the like: nobody writes there
        each = [self._buffer(int(f)) for f in flat]
        unique = {id(r): r for r in each if r}
        return [
            (r, np.array([i for i, other in enumerate(each) if other is r]))
            for r in unique.values()
        ]

    # Threads.
    def promised_read_only(self, crew: Crew, mask: Mask, index: Array, size: int) -> None:
        self._promised = True

    def accessed(
        self,
        crew: Crew,
        mask: Mask,
        space: str,
        index: Array,
        size: int,
        write: bool,
        atomic: bool = False,
        sem: str = "weak",
        scope: str = "",
    ) -> None:
        promised, self._promised = self._promised, False
        if space == "local":
            return
        lanes = crew.mask_of(mask)
        if index.shape != lanes.shape:
            index = np.broadcast_to(index, lanes.shape)
        level = 0 if sem == "weak" else LEVELS["sys" if sem == "volatile" else scope]
        strong: list[Strong] = []
        packed = np.packbits(lanes, axis=1, bitorder="little").view(np.uint32)
        for row, bits in enumerate(packed[:, 0].tolist()):
            if not bits:
                continue
            chosen = lanes[row]
            warp = self.warps[int(crew.warps[row])]
            for part, view in warp.parts(bits):
                if part == ALL:
                    flat, numbers = index[row], _LANE_NUMBERS
                else:
                    numbers = _numbers(part)
                    flat = index[row][numbers]
                touch = Touch(
                    warp,
                    warp.mine(view),
                    view.known,
                    space,
                    size,
                    write,
                    level,
                    crew.at,
                    part,
                    view.least,
                )
                self._by_threads(touch, warp, flat, numbers, promised)
            if self.variables and level == 0 and write:
                for flat_byte in index[row][chosen].tolist():
                    self.variables.pop((space, flat_byte), None)
            if level:
                places: dict[int, int] = {}
                for lane in np.flatnonzero(chosen).tolist():
                    flat_byte = int(index[row][lane])
                    places[flat_byte] = places.get(flat_byte, 0) | 1 << lane
                strong += [(warp, (space, at), lanes_at) for at, lanes_at in places.items()]
        if strong:
            kind = "relaxed" if sem == "volatile" else sem
            self.synchronise(strong, (write, atomic, kind, level))

    def synchronise(self, strong: list[Strong], how: tuple[bool, bool, str, int]) -> None:
        raise NotImplementedError

    def _by_threads(
        self, touch: Touch, warp: Warp, flat: Array, numbers: Array, promised: bool
    ) -> None:
        record = self._record(touch, warp.column, warp.time)
        for region, where in self._regions(touch.space, flat, touch.size):
            if region.wrong > MOST_WRONG:
                continue
            mine, lanes = (flat, numbers) if where is None else (flat[where], numbers[where])
            if region.unwritten is not None:
                if not touch.write:
                    region.unwritten.append((record, mine, lanes, touch.size, promised))
                    continue
                self._recall(region)
            if self._plainly_read(region, touch, warp, record, mine, lanes):
                continue
            granules, codes, own = codes_of(region, touch, record, mine, lanes)
            if promised:
                self._promise(region, touch, granules, codes)
                continue
            self._touch(region, touch, granules, codes, own + warp.column * (own >= 0))

    def _plainly_read(
        self, region: Region, touch: Touch, warp: Warp, record: int, flat: Array, lanes: Array
    ) -> bool:
        """Check and remember a read the cheap way, if it is nothing special."""
        readers = region.readers
        if readers is None or touch.write or touch.level or region.strong:
            return False
        if not 0 <= warp.number - readers.first < len(readers.columns):
            return False
        bits, own = BITS[lanes], lanes + warp.column
        if len(flat) > 1 and flat[0] == flat[-1] and (flat == flat[0]).all():
            flat, bits, own = flat[:1], np.array([touch.bits], np.uint32), _SEVERAL
        granules, each = region.granules(flat, touch.size, aligned=True)
        if each > 1:
            own, bits = np.repeat(own, each), np.repeat(bits, each)
        judge = Verdict(self.records, touch, None, 0)
        if judge(region.writes[granules], own) is not None:
            return False
        return readers.note(warp.number, granules, bits, warp.time, record, judge)

    def _record(self, touch: Touch, column: int, time: int) -> int:
        key = (touch.at, time, touch.write, touch.level, touch.size)
        records = touch.who.records
        known = records.get(key)
        if known is None:
            known = records[key] = self.records.add(
                touch.who,
                (touch.cluster.number, column, time, touch.asynchronous, touch.at, touch.cta,
                 touch.level, int(touch.write), touch.size),
                asks=touch.actor is not None and touch.actor.waits is not None,
            )  # fmt: skip
        return known

    def _recall(self, region: Region) -> None:
        """Somebody writes after all: put the reads that were remembered into the shadow."""
        remembered, region.unwritten = region.unwritten, None
        records = self.records

        for record, flat, lanes, size, promised in remembered or ():
            who = records.entries[record].who
            if isinstance(who, Actor):
                region.note_read(region.run(flat, size), record << LANE_BITS, who.column, UNORDERED)
                continue
            bits = int(np.bitwise_or.reduce(np.left_shift(1, lanes.astype(np.int64))))
            touch = Touch(who, who.cluster.nothing, {}, "global", size, False, 0, 0, bits)
            granules, codes, own = codes_of(region, touch, record, flat, lanes)
            if promised:
                _keep_promise(region, granules, codes)
            else:
                region.note_read(granules, codes, own + who.column * (own >= 0), UNORDERED)

    def _promise(self, region: Region, touch: Touch, granules: Array, codes: Array) -> None:
        for code in np.unique(region.writes[granules]).tolist():
            if code:
                self.reports.tell_promise(
                    region, touch, granules, side_of(self.records, code), True
                )
        _keep_promise(region, granules, codes)

    # Operations.
    def op_accessed(self, op: Op, space: str, starts: Array, size: int, write: bool) -> None:
        flat = np.asarray(starts).reshape(-1)
        if not len(flat) or space == "local":
            return
        actor = op.clock
        touch = Touch(
            actor, actor.clock, actor.known, space, size, write, actor.level if write else 0,
            op.at, actor.bits,
        )  # fmt: skip
        record = self._record(touch, actor.column, actor.time + write)
        for region, some in self._regions(space, flat, size):
            if region.wrong > MOST_WRONG:
                continue
            mine = flat if some is None else flat[some]
            if region.unwritten is not None:
                if not write:
                    region.unwritten.append((record, mine, None, size, False))
                    continue
                self._recall(region)
            where = region.run(mine, size)
            self._touch(region, touch, where, record << LANE_BITS, actor.column)

    def op_tensor(self, op: Op, cta: int, lanes: slice, columns: slice, write: bool) -> None:
        actor = op.clock
        region = self.tensor.get(cta)
        if region is None:
            number = int(self.machine.cta_of[self.machine.slot_of.tolist().index(cta)])
            granules = TENSOR_LANES // LANES_A_GRANULE * TENSOR_COLUMNS
            name = f"tensor memory of CTA {number}"
            region = self.tensor[cta] = Region(name, 0, granules * 4, self.records)
            region.step = LANES_A_GRANULE
        touch = Touch(
            actor, actor.clock, actor.known, "tensor", 0, write, 0, op.at, actor.bits
        )  # fmt: skip
        record = self._record(touch, actor.column, actor.time + write)
        piece = (cta, lanes.start, lanes.stop, columns.start, columns.stop)
        cells = self._tensor_cells(region, piece)
        self._touch(region, touch, cells, record << LANE_BITS, actor.column, piece)
        if write:
            actor.pieces.add(piece)

    def _tensor_cells(self, region: Region, piece: tuple[int, ...]) -> Array:
        _, top, bottom, left, right = piece
        if (top | bottom) % region.step:
            region.split_rows(region.step, TENSOR_COLUMNS)
            region.step = 1
        key = (region.step, *piece[1:])
        cells = self._cells.get(key)
        if cells is None:
            rows = np.arange(top // region.step, bottom // region.step) * TENSOR_COLUMNS
            cells = self._cells[key] = (rows[:, None] + np.arange(left, right)).reshape(-1)
        return cells

    def column_of(self, cluster: Cluster) -> int:
        """Return a column for an operation.

        What operations did to global memory keeps no column: a grid writes all of its output. Who
        knows a later operation of the column seems to know the old one too, so that a race over
        its bytes may be missed; none is invented.
        """
        if not cluster.free:
            in_use = np.zeros(cluster.columns, np.bool_)
            for region in (*self.shared.values(), *self.tensor.values()):
                for codes in (region.writes, region.reads):
                    used = np.unique(codes) >> LANE_BITS
                    used = used[self.records.cluster[used] == cluster.number]
                    in_use[self.records.column[used]] = True
            free_columns(cluster, in_use)
            if len(cluster.free) < len(cluster.taken) // 2:
                if cluster.columns < MOST_OPERATIONS:
                    cluster.grow()
                else:  # what the oldest did may pass for known: a race may be missed, none invented
                    done = [c for c, a in cluster.taken.items() if a.done]
                    cluster.release(iter(done[: len(done) // 2 + 1]))
        return cluster.free.pop()

    # What both do.
    def _touch(
        self,
        region: Region,
        touch: Touch,
        granules: Where,
        codes: Array | int,
        own: Array | int,
        piece: object = None,
    ) -> None:
        watch: set[int] | None = None
        if touch.asynchronous and touch.space != "tensor" and self.pairs:
            watch = set()
        records = self.records
        judge = Verdict(records, touch, piece, touch.level, several=self.several, watch=watch)
        strict = judge
        if touch.level or watch is not None:
            strict = Verdict(records, touch, piece, 0, several=self.several)
        if not touch.write:
            wrong = region.read(granules, codes, own, judge, strict)
        elif touch.level:
            if isinstance(granules, slice):
                granules = np.arange(granules.start, granules.stop)
            codes = np.broadcast_to(np.asarray(codes, np.int32), granules.shape)
            wrong = region.write_strongly(granules, codes, own, judge, strict)
        else:
            wrong = region.write(granules, codes, own, judge)
        if wrong:
            region.wrong += len(wrong)
            self.reports.tell(region, touch, granules, wrong)
        if watch:
            self.reports.advise(touch, watch)
        if touch.write and region.promised is not None:
            for code in np.unique(region.promised[granules]).tolist():
                if code:
                    side = side_of(self.records, code)
                    self.reports.tell_promise(region, touch, granules, side, False)


def _numbers(bits: int) -> Array:
    if bits & (bits - 1) == 0:
        return np.array([bits.bit_length() - 1], np.int32)
    return np.flatnonzero(bits >> _LANE_NUMBERS.astype(np.int64) & 1).astype(np.int32)


def _keep_promise(region: Region, granules: Array, codes: Array) -> None:
    if region.promised is None:
        region.promised = np.zeros_like(region.writes)
    region.promised[granules] = codes
