"""Every access of a run, checked against the shadow memory and then entered into it.

Threads and operations take different ways in (`accessed`, `op_accessed`, `op_tensor`), and one way
from there (`_check`): find the region and its granules, make the access a code, let an `OrderCheck`
compare it with what the shadow holds, report what is not ordered, and put the code in its place.

Speed decides the structure: nearly all accesses are ordered, and of the same few kinds. Plain reads
of shared memory by the CTA's own warps have a table of their own (`readers`); reads of a buffer
that was not written yet are only remembered (`_recall`).
"""

from __future__ import annotations

import numpy as np

from kernelrig.emu.machine.machine_state import Hooks, Machine, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import Array, Mask, lane_words
from kernelrig.emu.observe.access_records import ATOMIC, LANE_BITS, AccessRecords
from kernelrig.emu.observe.announced import announced, of_other_lanes
from kernelrig.emu.observe.atomic_chains import AtomicChains
from kernelrig.emu.observe.clocks import ALL, LEVELS, Warp, lanes_of
from kernelrig.emu.observe.codes import ALL_LANES, by_itself, codes_of, lanes_in, note_non_coherent
from kernelrig.emu.observe.conflicts import Reports
from kernelrig.emu.observe.order_check import Access, OrderCheck
from kernelrig.emu.observe.readers import BITS, Where
from kernelrig.emu.observe.regions import Regions
from kernelrig.emu.observe.release_acquire import StrongAccess, StrongForm, Sync, in_turns
from kernelrig.emu.observe.shadow import UNORDERED, Before, Region, Wrong
from kernelrig.emu.observe.tile_swizzles import TileSwizzles
from kernelrig.emu.observe.unacquired import Hint

MOST_WRONG = 4096
"""Conflicts in one buffer, or one CTA's shared or tensor memory, after which it is watched no
longer: where a barrier is missing everything races, and each access is then looked at closely. Of
operations that are ordered by threads alone, as many are advised on."""
MOST_IN_RUN = 2 * MOST_WRONG
"""Conflicts, or advice, of a run, after which one of each buffer or CTA is enough: CTAs that come
later mostly repeat what those before did."""
_SEVERAL = np.full(1, -1, np.int32)


class AccessCheck(Hooks):
    """The half of the race detector that sees accesses; `races` is the other."""

    def __init__(self) -> None:
        self.machine: Machine
        self.records = AccessRecords()
        self.pairs = False  # more than one CTA in a cluster
        self.several = False  # clusters
        self.reports = Reports(self.records)
        self.warps: list[Warp] = []
        self.regions = Regions(self.records)
        self.variables: dict[tuple[str, int], Sync] = {}
        self.chains = AtomicChains(self.records)
        self.swizzles = TileSwizzles(self.records)
        self.relaxed: dict[int, int] = {}
        """CTA -> its last instruction that saw a release and acquired nothing."""
        self.flags: dict[int, int] = {}
        """CTA -> its last instruction that saw a strong write."""
        self.stores = False
        """Whether a strong store, no atomic, went to global memory: data, or a flag."""
        self.wrong = self.advised = 0  # of all regions of the run
        self._non_coherent = False
        self._turns: list[int] | None = None
        self._observed = True

    def forget_wave(self) -> None:
        """Shared and tensor memory of the CTAs that have run is no more."""
        self.regions.forget_wave()
        for key in [k for k in self.variables if k[0] == "shared"]:
            del self.variables[key]

    # Threads.
    def read_non_coherent(self, batch: WarpBatch, mask: Mask, index: Array, size: int) -> None:
        self._non_coherent = True

    def in_turn(
        self, batch: WarpBatch, mask: Mask, turns: list[int] | None, observed: bool
    ) -> None:
        # Those that observe nothing take nothing: what they leave is the same in any order.
        self._turns, self._observed = turns if observed else None, observed

    def accessed(
        self,
        batch: WarpBatch,
        mask: Mask,
        space: str,
        index: Array,
        size: int,
        write: bool,
        atomic: bool = False,
        sem: str = "weak",
        scope: str = "",
    ) -> None:
        non_coherent, self._non_coherent = self._non_coherent, False
        turns, self._turns = self._turns, None
        observed, self._observed = self._observed, True
        if space == "local":
            return
        lanes = batch.mask_of(mask)
        if index.shape != lanes.shape:
            index = np.broadcast_to(index, lanes.shape)
        # The level is how far a strong access reaches; weak ones have none.
        level = 0 if sem == "weak" else LEVELS["sys" if sem == "volatile" else scope]
        strong: list[StrongAccess] = []
        # What comes before a strong write is told apart from the write itself by its time.
        writes = write and space == "global" and level >= LEVELS["gpu"]
        self.stores |= writes and not atomic
        for row, bits in enumerate(lane_words(lanes).tolist()):
            if not bits:
                continue
            chosen = lanes[row]
            warp = self.warps[int(batch.warps[row])]
            if writes and self.stores:
                warp.tick()
            # Lanes with different knowledge are different threads to the check.
            for part, view in warp.parts(bits):
                if part == ALL:
                    flat, numbers = index[row], ALL_LANES
                else:
                    numbers = lanes_in(part)
                    flat = index[row][numbers]
                access = Access(
                    warp, warp.mine(view), view.known, space, size, write, level, batch.at, part,
                    view.least,
                )  # fmt: skip
                access.copied = view.copied
                access.atomic = atomic and write
                record = self._record(access, warp.column, warp.time)
                self._by_threads(access, warp, record, flat, numbers, non_coherent)
            # A weak write ends the chain of a variable: what a release left there is not read any
            # more (PTX ISA 8.9.2).
            if self.variables and level == 0 and write:
                for flat_byte in index[row][chosen].tolist():
                    self.variables.pop((space, flat_byte), None)
            if level and turns is None:
                places: dict[int, int] = {}
                for lane in np.flatnonzero(chosen).tolist():
                    flat_byte = int(index[row][lane])
                    places[flat_byte] = places.get(flat_byte, 0) | 1 << lane
                strong += [(warp, (space, at), lanes_at) for at, lanes_at in places.items()]
        for row, flat_byte, bits in in_turns(turns or [], index):
            strong.append((self.warps[int(batch.warps[row])], (space, flat_byte), bits))
        if strong:
            kind = "relaxed" if sem == "volatile" else sem
            observed &= atomic or not write
            how = StrongForm(write, atomic and write, observed, kind, level, batch.at)
            self.synchronise(strong, how)

    def synchronise(self, strong: list[StrongAccess], how: StrongForm) -> None:
        raise NotImplementedError

    def _by_threads(
        self,
        access: Access,
        warp: Warp,
        record: int,
        flat: Array,
        numbers: Array,
        non_coherent: bool,
    ) -> None:
        for region, where in self.regions.of(access.space, flat, access.size):
            if _is_enough(region.wrong, self.wrong):
                continue
            mine, lanes = (flat, numbers) if where is None else (flat[where], numbers[where])
            # Inputs are read by everybody and never written: remember the reads, check them if a
            # write comes after all.
            if region.unwritten is not None:
                if not access.write:
                    region.unwritten.append((record, mine, lanes, access.size, non_coherent))
                    continue
                self._recall(region)
            if region.lines is not None and access.write:
                region.lines.written(mine, access.cta)
            elif region.lines is not None and not access.level:
                region.lines.read(mine, access.cta)
            if self._plainly_read(region, access, warp, record, mine, lanes):
                continue
            granules, codes, own = codes_of(region, access, record, mine, lanes)
            if non_coherent:
                self._check_non_coherent(region, access, granules, codes)
                continue
            one = int(mine[0]) if access.space == "global" and len(mine) == 1 else -1
            self._check(region, access, granules, codes, own + warp.column * (own >= 0), one=one)

    def _plainly_read(
        self, region: Region, access: Access, warp: Warp, record: int, flat: Array, lanes: Array
    ) -> bool:
        """Check and remember a read the cheap way, if it is nothing special."""
        readers = region.readers
        if readers is None or access.write or access.level or region.strong or access.operation:
            return False
        if not 0 <= warp.number - readers.first < len(readers.columns):
            return False
        bits, own = BITS[lanes], lanes + warp.column
        if len(flat) > 1 and flat[0] == flat[-1] and (flat == flat[0]).all():
            flat, bits, own = flat[:1], np.array([access.bits], np.uint32), _SEVERAL
        granules, each = region.granules(flat, access.size, aligned=True)
        if each > 1:
            own, bits = np.repeat(own, each), np.repeat(bits, each)
        judge = OrderCheck(self.records, access, None, 0)
        if judge(region.writes[granules], own) is not None:
            return False
        return readers.note(warp.number, granules, bits, warp.time, record, judge)

    def _record(self, access: Access, column: int, time: int) -> int:
        key = (access.at, time, access.write, access.level, access.size)
        records = access.who.records
        known = records.get(key)
        if known is None:
            known = records[key] = self.records.add(
                access.who,
                (access.cluster.number, column, time, access.asynchronous, access.at, access.cta,
                 access.level, ATOMIC if access.atomic else int(access.write), access.size),
                asks=access.operation is not None and access.operation.waits is not None,
            )  # fmt: skip
        return known

    def _recall(self, region: Region) -> None:
        """Somebody writes after all: put the reads that were remembered into the shadow."""
        remembered, region.unwritten = region.unwritten, None
        records = self.records

        for record, flat, lanes, size, non_coherent in remembered or ():
            who = records.entries[record].who
            if lanes is None:
                region.note_read(region.run(flat, size), record << LANE_BITS, who.column, UNORDERED)
                continue
            if region.lines is not None and not records.level[record]:
                region.lines.read(flat, who.cta)
            bits = int(np.bitwise_or.reduce(np.left_shift(1, lanes.astype(np.int64))))
            access = Access(who, who.cluster.nothing, {}, "global", size, False, 0, 0, bits)
            granules, codes, own = codes_of(region, access, record, flat, lanes)
            if non_coherent:
                note_non_coherent(region, granules, codes)
            else:
                region.note_read(granules, codes, own + who.column * (own >= 0), UNORDERED)

    def _check_non_coherent(
        self, region: Region, access: Access, granules: Array, codes: Array
    ) -> None:
        for code in np.unique(region.writes[granules]).tolist():
            if code:
                self._count(region, 1)
                self.reports.report_non_coherent(region, access, granules, code, True)
        note_non_coherent(region, granules, codes)

    # Operations.
    def op_accessed(self, op: Op, space: str, starts: Array, size: int, write: bool) -> None:
        flat = np.asarray(starts).reshape(-1)
        if not len(flat) or space == "local":
            return
        operation = op.clock
        if operation.by_lanes:
            self._by_lanes(op, space, flat, size, write)
            return
        access = Access(
            operation, operation.clock, operation.known, space, size, write,
            operation.level if write else 0, op.at, operation.bits,
        )  # fmt: skip
        record = self._record(access, operation.column, operation.time + write)
        swizzle = op.detail.swizzle if op.detail and space == "shared" else 0
        operation.swizzle = swizzle if write else operation.swizzle
        for region, some in self.regions.of(space, flat, size):
            if _is_enough(region.wrong, self.wrong):
                continue
            mine = flat if some is None else flat[some]
            if region.unwritten is not None:
                if not write:
                    region.unwritten.append((record, mine, None, size, False))
                    continue
                self._recall(region)
            if swizzle and not write:
                other = self.swizzles.other(region, access, int(mine[0]), swizzle)
                if other:
                    granule, code, written = other
                    self.reports.report_swizzle(region, access, granule, code, swizzle, written)
            where = region.run(mine, size)
            self._check(region, access, where, record << LANE_BITS, operation.column)

    def _by_lanes(self, op: Op, space: str, flat: Array, size: int, write: bool) -> None:
        """Check what lanes do each for itself, some time after they issued it."""
        operation, warp = op.clock, self.warps[op.warp]
        lanes = np.array(op.lanes, np.int32)
        # Lanes that write the same bytes race: look at one after the other.
        apart = write and len(flat) > 1 and bool((np.diff(np.sort(flat)) < size).any())
        for bits, view in operation.parts:
            for part in [1 << lane for lane in lanes_of(bits)] if apart else [bits]:
                access = Access(
                    operation, warp.mine(view), view.known, space, size, write, 0, op.at, part,
                    view.least,
                )  # fmt: skip
                access.copied, access.issued = view.copied, operation.issuer[1]
                record = self._record(access, operation.column, operation.time + write)
                some = (part >> lanes.astype(np.int64) & 1).astype(np.bool_)
                self._by_threads(access, warp, record, flat[some], lanes[some], False)

    def op_tensor(self, op: Op, cta: int, lanes: slice, columns: slice, write: bool) -> None:
        operation = op.clock
        region = self.regions.tensor_of(cta)
        if _is_enough(region.wrong, self.wrong):
            return
        access = Access(
            operation, operation.clock, operation.known, "tensor", 0, write, 0, op.at,
            operation.bits,
        )  # fmt: skip
        record = self._record(access, operation.column, operation.time + write)
        piece = (cta, lanes.start, lanes.stop, columns.start, columns.stop)
        cells = self.regions.cells(region, piece)
        self._check(region, access, cells, record << LANE_BITS, operation.column, piece)
        if write:
            operation.pieces.add(piece)

    # What both do.
    def _check(
        self,
        region: Region,
        access: Access,
        granules: Where,
        codes: Array | int,
        own: Array | int,
        piece: object = None,
        one: int = -1,
    ) -> None:
        """`one`: the flat byte of global memory, where a single lane accesses."""
        watch: set[int] | None = None
        watched = access.asynchronous and access.space != "tensor" and self.pairs
        if watched and not _is_enough(region.advised, self.advised):
            watch = set()
        records = self.records
        judge = OrderCheck(records, access, piece, access.level, several=self.several, watch=watch)
        # `strict` decides what stays in the shadow, `judge` what is a race: of strong accesses, and
        # of operations that are ordered by threads only, both are different.
        strict = judge
        if access.level or watch is not None:
            strict = OrderCheck(records, access, piece, 0, several=self.several)
        before: Before | None = None
        if not access.write:
            wrong = region.read(granules, codes, own, judge, strict)
        elif access.level:
            if isinstance(granules, slice):
                granules = np.arange(granules.start, granules.stop)
            codes = np.broadcast_to(np.asarray(codes, np.int32), granules.shape)
            wrong = region.write_strongly(granules, codes, own, judge, strict)
        else:
            wrong, before = region.write(granules, codes, own, judge)
        if wrong and one >= 0 and not access.operation:
            wrong = [each for each in wrong if not self.chains.is_observed(access, one, each[0])]
        if wrong:
            self.reports.relaxed_at = self.relaxed.get(access.cta, -1)
            reported = self.reports.report(region, access, granules, wrong)
            self._count(region, sum(each.counts for each in reported))
            # Who is ordered behind the later write alone races with the earlier one: where that is
            # no error by itself, it must not be forgotten.
            if before is not None and any(each.of_one_value for each in reported):
                assert not isinstance(granules, slice)
                region.keep(granules, before, own, judge)
        if not access.write and access.level and not access.operation:
            codes = region.writes[granules]
            lanes = of_other_lanes(records, access, codes, own, strict)
            self._tell_unordered(region, access, granules, lanes, Hint.OF_A_WARP)
            if self.stores and access.space == "global" and access.level >= LEVELS["gpu"]:
                self.reports.relaxed_at = self.flags.get(access.cta, -1)
                flagged = announced(records, access, codes)
                self._tell_unordered(region, access, granules, flagged, Hint.ANNOUNCED)
        if watch:
            region.advised += len(watch)
            self.advised += len(watch)
            self.reports.advise(access, watch)
        if access.write and region.non_coherent is not None:
            loads = region.non_coherent[granules]
            others = set(loads[~by_itself(records, access, loads, own)].tolist())
            for code in np.unique(loads).tolist():
                if code:
                    told = self.reports.report_non_coherent(
                        region, access, granules, code, False, itself=code not in others
                    )
                    self._count(region, int(told.counts))

    def _tell_unordered(
        self, region: Region, access: Access, granules: Where, found: Wrong, hint: Hint
    ) -> None:
        """Report what a strong read may not have seen: it does not race with it."""
        if found:
            reported = self.reports.report(region, access, granules, found, hint)
            self._count(region, sum(each.counts for each in reported))

    def _count(self, region: Region, wrong: int) -> None:
        region.wrong += wrong
        self.wrong += wrong


def _is_enough(of_region: int, of_run: int) -> bool:
    return of_region > (0 if of_run > MOST_IN_RUN else MOST_WRONG)
