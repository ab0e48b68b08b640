"""Races: accesses to the same bytes, one of them a write, that nothing orders.

Everything is known from hooks alone. What is ordered is in `clocks`, who accessed what in `shadow`;
here the events of a run change the clocks or are checked against the shadow. The rules are those of
PTX ISA 8 (memory consistency), 9.7.13 (barriers, fences, mbarriers), 9.7.9.27 (groups) and 9.7.16.6
(tensor memory).
"""

from __future__ import annotations

from collections import OrderedDict

from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.mbarrier import Barrier
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import LANES, Array, Mask, lane_bits
from kernelrig.emu.observe import view_changes
from kernelrig.emu.observe.access_check import AccessCheck
from kernelrig.emu.observe.clocks import LEVELS, Cluster, Warp, lanes_of
from kernelrig.emu.observe.lane_stores import report_unlike_stores
from kernelrig.emu.observe.release_acquire import (
    StrongAccess,
    StrongForm,
    Sync,
    acquire,
    follow,
    perform,
    release,
    sync_warp,
)

MOST_INSTANCES = 1024


class Races(AccessCheck):
    """The observer `races`: kinds `race` and `proxy-fence`."""

    def __init__(self) -> None:
        super().__init__()
        self.wave = 0
        self.phases: dict[tuple[int, int], tuple[Barrier | None, dict[int, Sync]]] = {}
        self.instances: OrderedDict[object, Sync] = OrderedDict()
        self.sequential = Sync()  # of fence.sc, for the CTA and the cluster

    def started(self, machine: Machine) -> None:
        self.wave += 1
        self.machine = self.reports.machine = self.regions.machine = machine
        self.forget_wave()
        self.phases.clear()
        self.instances.clear()
        geometry = machine.geometry
        self.pairs = geometry.cluster_ctas > 1
        clusters: dict[int, Cluster] = {}
        self.warps = []
        for number, slot in enumerate(machine.slot_of.tolist()):
            rank = int(machine.rank_of[number])
            key = self.wave << 16 | (slot - rank)
            if key not in clusters:
                lanes = geometry.cluster_ctas * geometry.warps * LANES
                clusters[key] = Cluster(key, lanes)
            in_cta = number % geometry.warps
            column = (rank * geometry.warps + in_cta) * LANES
            place = (int(machine.cta_of[number]), in_cta)
            cta = self.wave << 16 | slot
            self.warps.append(Warp(clusters[key], column, cta, number, place))
        self.regions.warps = self.warps
        self.several |= self.wave > 1 or len(clusters) > 1

    # Threads that synchronise.
    def _of(self, batch: WarpBatch, mask: Mask) -> list[tuple[Warp, int]]:
        """Return the warps of the batch that have lanes in the mask, and which."""
        lanes = batch.mask_of(mask)
        found = []
        for row in range(batch.size):
            bits = lane_bits(lanes[row])
            if bits:
                found.append((self.warps[int(batch.warps[row])], bits))
        return found

    def _phase(self, barrier: Barrier, phase: int) -> Sync:
        """Return what is published in that phase; older ones cannot be acquired any more."""
        known, syncs = self.phases.get((barrier.slot, barrier.offset), (None, {}))
        # Another object at the same address is an mbarrier that was initialised anew: nothing of
        # the one before is acquired through it.
        if known is not barrier:
            syncs = {}
            self.phases[barrier.slot, barrier.offset] = (barrier, syncs)
        if phase not in syncs:
            for old in [p for p in syncs if p < phase - 1]:
                del syncs[old]
            syncs[phase] = Sync()
        return syncs[phase]

    def arrived(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        self._release(batch, mask, self._phase(barrier, phase), sem, scope)

    def waited(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        sync = self._phase(barrier, phase)
        for warp, bits in self._of(batch, mask):
            acquire(warp, bits, sync, sem, LEVELS[scope])

    def _instance(self, instance: object) -> Sync:
        # Uses of barriers are many and short-lived: the least recently used are dropped.
        sync = self.instances.get(instance)
        if sync is None:
            sync = self.instances[instance] = Sync()
            if len(self.instances) > MOST_INSTANCES:
                self.instances.popitem(last=False)
        else:
            self.instances.move_to_end(instance)
        return sync

    def barrier_arrived(
        self, batch: WarpBatch, mask: Mask, instance: object, scope: str, sem: str = "release"
    ) -> None:
        self._release(batch, mask, self._instance(instance), sem, scope)

    def barrier_passed(
        self, batch: WarpBatch, mask: Mask, instance: object, scope: str, sem: str = "acquire"
    ) -> None:
        sync = self._instance(instance)
        for warp, bits in self._of(batch, mask):
            acquire(warp, bits, sync, sem, LEVELS[scope])

    def _release(self, batch: WarpBatch, mask: Mask, sync: Sync, sem: str, scope: str) -> None:
        for warp, bits in self._of(batch, mask):
            release(warp, bits, sync, sem, LEVELS[scope])
            warp.tick()

    def warp_synced(self, batch: WarpBatch, mask: Mask) -> None:
        for warp, bits in self._of(batch, mask):
            sync_warp(warp, bits)

    def stored(
        self, batch: WarpBatch, mask: Mask, space: str, index: Array, values: tuple[Array, ...]
    ) -> None:
        report_unlike_stores(batch, mask, space, index, values)

    # Fences.
    def fenced(self, batch: WarpBatch, mask: Mask, sem: str, scope: str) -> None:
        level = LEVELS[scope]
        for warp, bits in self._of(batch, mask):
            if sem != "release":
                warp.change(bits, view_changes.acquire_fence(level))
            # Of two fence.sc either may come first, unless what strong accesses saw forbids it (PTX
            # 8.9.3). Within a cluster they have the order of execution instead: each is an acquire
            # and a release on one variable that all of them share.
            if sem == "sc":
                near = min(level, LEVELS["cluster"])
                acquire(warp, bits, self.sequential, "acquire", near)
                if level > near:
                    warp.change(bits, view_changes.sequential_fence())
                release(warp, bits, self.sequential, "release", near)
                warp.tick()
            if sem != "acquire":
                change = view_changes.release_fence(warp, level, sequential=sem == "sc")
                warp.change(bits, change)
                warp.tick()

    def proxy_fenced(self, batch: WarpBatch, mask: Mask, space: str) -> None:
        for warp, bits in self._of(batch, mask):
            warp.change(bits, view_changes.proxy_fence(warp, space))
            warp.tick()

    def tensor_fenced(self, batch: WarpBatch, mask: Mask, before: bool) -> None:
        for warp, bits in self._of(batch, mask):
            if before:
                warp.change(bits, view_changes.before_thread_sync(warp))
                warp.tick()
            else:
                warp.change(bits, view_changes.after_thread_sync(warp))

    # Asynchronous operations.
    def op_issued(self, op: Op) -> None:
        warps = [self.warps[int(op.rows[row])] for row in (op.row, *op.also)]
        cluster = warps[0].cluster
        if op.lanes:
            op.clock = view_changes.issue_by_lanes(op, warps[0])
            return
        op.clock = view_changes.issue(op, warps, self.regions.column_of(cluster))
        cluster.taken[op.clock.column] = op.clock

    def op_done(self, op: Op) -> None:
        op.clock.end()

    def op_arrived(self, op: Op, barrier: Barrier, phase: int, kind: str) -> None:
        operation = op.clock
        sync = self._phase(barrier, phase)
        if kind == "tx":
            # The waiter learns of reads (time) and writes (time + 1) of this operation.
            sync.end(operation, {operation.column: operation.time + 1}, operation.asynchronous)
            if not operation.done:  # this says nothing of what it does for another barrier
                operation.time += 2
                operation.records.clear()
        # A commit stands for all products that its thread issued before (PTX ISA 9.7.16.12).
        elif operation.taken is not None:
            sync.end(operation, operation.tracked, True)
            sync.pass_completions(operation.cluster, operation.waited)
            sync.pass_order(operation.cluster, operation.taken)

    def copies_arrived(self, ops: list[Op], lanes: int, barrier: Barrier, phase: int) -> None:
        if ops:
            latest = max((op.clock for op in ops), key=lambda copies: copies.time)
            times = {latest.column + lane: latest.time + 1 for lane in lanes_of(lanes)}
            self._phase(barrier, phase).end(latest, times, False)

    def tensor_waited(self, batch: WarpBatch, mask: Mask, ops: list[Op]) -> None:
        for warp, bits in self._of(batch, mask):
            for op in ops:
                waits = op.clock.waits
                if op.clock.number == warp.number:
                    waits[lanes_of(bits)] = warp.time
            warp.tick()

    def group_waited(
        self, batch: WarpBatch, row: int, lanes: int, ops: list[Op], read: bool
    ) -> None:
        warp = self.warps[int(batch.warps[row])]
        warp.change(lanes, view_changes.complete(warp, [op.clock for op in ops], read))

    # Strong accesses: what they carry.
    def synchronise(self, strong: list[StrongAccess], how: StrongForm) -> None:
        """Lanes of some warps accessed variables by one instruction, in that order.

        An atomic takes what those before it left in the variable, and leaves its own to those
        behind it (PTX 8.9.2). One whose result nobody gets is no read: it takes nothing.
        """
        reads = "acquire" if how.sem in ("acquire", "acq_rel") else "relaxed"
        releases = how.sem in ("release", "acq_rel")
        chained = how.atomic and how.level >= LEVELS["gpu"] and strong[0][1][0] == "global"
        for warp, key, bits in strong:
            if how.observed:
                self._acquire(warp, key, bits, reads, how)
            if not how.write:
                continue
            if not how.atomic:  # a write that is no read-modify-write ends the chain, PTX 8.9.2
                self.variables.pop(key, None)
                bits = 1 << bits.bit_length() - 1  # of these the memory keeps what the last wrote
            if chained:
                self.chains.goes_on(warp, key[1], bits, how.observed)
            elif key[0] == "global":
                self.chains.breaks(key[1])
            if releases or warp.has_fenced(bits):
                sync = self.variables.setdefault(key, Sync())
                release(warp, bits, sync, "release" if releases else "relaxed", how.level)
                if how.level >= LEVELS["gpu"]:
                    perform(warp, bits, sync, releases=releases)
            if self.stores and how.level >= LEVELS["gpu"] and key[0] == "global":
                follow(warp, bits, self.variables.setdefault(key, Sync()))
        if how.write and releases:
            for warp in {warp.number: warp for warp, _, _ in strong}.values():
                warp.tick()

    def _acquire(
        self, warp: Warp, key: tuple[str, int], bits: int, sem: str, how: StrongForm
    ) -> None:
        sync = self.variables.get(key)
        if sync:
            if sem == "relaxed" and sync.performed:
                self.relaxed[warp.cta] = how.at
            if sync.followed:
                self.flags[warp.cta] = how.at
            acquire(warp, bits, sync, sem, how.level, cap=True)
