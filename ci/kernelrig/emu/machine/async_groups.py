"""Groups of asynchronous operations: what a thread has committed, and waits for by their number.

Bulk copies, cp.async and wgmma have separate lists. Lanes of a warp that issued the same so far
share one list; it is copied where they diverge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from kernelrig.emu.machine.findings import NO_CONTEXT, Context
from kernelrig.emu.machine.instruction_table import Blocked
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.operations import ALL_LANES, Op
from kernelrig.emu.machine.stall import BARRIER, Stall
from kernelrig.emu.numerics.arrays import Mask, lane_bits
from kernelrig.ptx.rules import COPY_NOT_COMMITTED


@dataclass(eq=False, slots=True)
class _Queue:
    """What some lanes of a warp have issued: not committed yet, and the groups, oldest first.

    `seen_read` groups at the front were reported to observers by a wait for their reads.
    """

    lanes: int
    uncommitted: list[Op] = field(default_factory=list)
    groups: list[list[Op]] = field(default_factory=list)
    seen_read: int = 0

    def split(self, lanes: int) -> _Queue:
        """Split `lanes` off, with a copy of the list."""
        self.lanes &= ~lanes
        copied = [list(g) for g in self.groups]
        return _Queue(lanes, list(self.uncommitted), copied, self.seen_read)

    def older(self, newest: int | None, read: bool) -> Iterator[Op]:
        """Yield the operations that a wait which leaves `newest` groups waits for."""
        last = len(self.groups) - (newest or 0)
        for group in self.groups[self.seen_read if read else 0 : max(last, 0)]:
            yield from group
        if newest is None:
            yield from self.uncommitted


@dataclass(eq=False)
class Groups:
    """The groups of one kind; `what` is in a group, `commit` the instruction that makes one."""

    machine: Machine
    what: str = ""
    commit_name: str = ""
    uncommitted: Context = NO_CONTEXT  # of the finding for an operation that is never committed
    _queues: dict[int, list[_Queue]] = field(default_factory=dict)  # by warp

    def _of(self, warp: int, lanes: int) -> list[_Queue]:
        """Return the histories of exactly `lanes`."""
        known = self._queues.setdefault(warp, [_Queue(ALL_LANES)])
        found = []
        for queue in tuple(known):
            shared = queue.lanes & lanes
            if shared and shared != queue.lanes:
                queue = queue.split(shared)
                known.append(queue)
            if shared:
                found.append(queue)
        return found

    def _of_batch(self, batch: WarpBatch, mask: Mask) -> Iterator[tuple[int, int, list[_Queue]]]:
        """Yield row, lanes and histories of each warp."""
        whole = batch.mask_of(mask)
        for row in range(batch.size):
            lanes = lane_bits(whole[row])
            if lanes:
                yield row, lanes, self._of(int(batch.warps[row]), lanes)

    def add(self, op: Op, warp: int, lanes: int) -> None:
        """Put `op` into the next group of `lanes` (bits) of a warp."""
        for queue in self._of(warp, lanes):
            queue.uncommitted.append(op)

    def commit(self, batch: WarpBatch, mask: Mask) -> None:
        """Make a group, maybe an empty one, of what is not committed."""
        for row, _, queues in self._of_batch(batch, mask):
            for queue in queues:
                if not self.machine.hooks:
                    self._forget(int(batch.warps[row]), queue)
                queue.groups.append(queue.uncommitted)
                queue.uncommitted = []

    def _forget(self, warp: int, queue: _Queue) -> None:
        """Drop what is done from the front: no wait needs it any more."""
        done = 0
        for group in queue.groups:
            if any(True for op in group for _ in self._blocking(warp, op, read=False)):
                break
            self._left(warp, group)
            done += 1
        del queue.groups[:done]

    def issued(self, warp: int, lanes: int) -> list[tuple[int, list[Op]]]:
        """Return what lanes issued so far and have not waited for; those that did alike as one."""
        return [(h.lanes, list(h.older(None, False))) for h in self._of(warp, lanes)]

    def must_wait(
        self, batch: WarpBatch, mask: Mask, newest: int | None, read: bool = False
    ) -> Blocked | None:
        """Say which warps may go on with at most `newest` groups left.

        None also waits for what is not committed; `read` only for the reads of the sources.
        """
        ready = np.ones(batch.size, np.bool_)
        keys: dict[object, None] = {}
        for row, _, queues in self._of_batch(batch, mask):
            for queue in queues:
                for op in queue.older(newest, read):
                    for key in self._blocking(int(batch.warps[row]), op, read):
                        ready[row] = False
                        keys[key] = None
        return None if not keys else Blocked(ready, tuple(keys))

    def _blocking(self, warp: int, op: Op, read: bool) -> Iterable[object]:
        """Yield the keys of what a wait of `warp` for `op` has to wait for."""
        if not (op.read if read else op.done):
            yield op

    def _left(self, warp: int, ops: Iterable[Op]) -> list[Op]:
        """A warp waits for these no more: return all that is complete with them."""
        return list(dict.fromkeys(ops))

    def waited(self, batch: WarpBatch, mask: Mask, newest: int | None, read: bool = False) -> None:
        """The wait returned: notify observers of what is complete for these threads."""
        if not self.machine.hooks:
            return
        for row, lanes, queues in self._of_batch(batch, mask):
            for queue in queues:
                ops = self._left(int(batch.warps[row]), queue.older(newest, read))
                last = max(len(queue.groups) - (newest or 0), 0)
                queue.seen_read = max(queue.seen_read, last)
                if not read:
                    del queue.groups[:last]
                    queue.seen_read -= last
                    if newest is None:
                        queue.uncommitted.clear()
                if ops:
                    self._notify(batch, row, lanes, queue, ops, read)

    def _notify(
        self, batch: WarpBatch, row: int, lanes: int, queue: _Queue, ops: list[Op], read: bool
    ) -> None:
        hooks = self.machine.hooks
        assert hooks
        waited = queue.lanes & lanes
        if waited == lane_bits(self.machine.alive[batch.warps[row]]):
            waited = ALL_LANES
        hooks.group_waited(batch, row, waited, ops, read)

    def describe(self, key: object) -> Stall | None:
        """Say which operation a wait_group waits for, for a deadlock; None for other keys."""
        if not isinstance(key, Op) or not self._holds(key):
            return None
        text = f"{key.name} of {self.what}, which never ends"
        return Stall("", text, BARRIER, frozenset((key.warp,)))

    def _holds(self, op: Op) -> bool:
        return any(op in group for h in self._queues.get(op.warp, ()) for group in h.groups)

    def finish(self) -> None:
        """Report what was never committed."""
        for warp, queues in self._queues.items():
            for queue in queues:
                for op in dict.fromkeys(queue.uncommitted):
                    self._report(op.name, warp, queue.lanes & op.bits, op.at)

    def _report(self, name: str, warp: int, lanes: int, at: int) -> None:
        text = f"{name} was never committed to a group: {self.commit_name} is missing behind it"
        self.machine.report("leak", text, warp, lanes, at, context=self.uncommitted)


class BulkGroups(Groups):
    """Of cp.async.bulk: stores and reductions from shared memory."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(
            machine, "bulk copies", "cp.async.bulk.commit_group", Context(COPY_NOT_COMMITTED.name)
        )


class CopyGroups(Groups):
    """Of cp.async; an uncommitted one is not reported, since an mbarrier may track it."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, "asynchronous copies", "cp.async.commit_group")

    def finish(self) -> None:
        """Nothing leaks: the thread's exit ends its copies."""


WARPGROUP = 4
"""Warps of a warpgroup."""


@dataclass(eq=False, slots=True)
class JointProduct:
    """What the warps of a warpgroup issue together: as an operation of each batch of them.

    `warps` have issued it, `unwaited` have not waited for it.
    """

    ops: list[Op] = field(default_factory=list)
    warps: int = 0
    unwaited: int = WARPGROUP


class MatrixGroups(Groups):
    """Of wgmma.mma_async: a warpgroup's. A warp that waits for its own waits for the part of each
    other warp, issued or not: PTX ISA 9.7.15.7 makes groups per warpgroup, so that one thread's
    word after its wait is enough for those who refill the operands.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, "matrix products", "wgmma.commit_group")
        self._products: dict[tuple[str, int, int], JointProduct] = {}
        self._of_op: dict[tuple[Op, int], tuple[str, int, int]] = {}

    def take_part(self, first: int, number: int) -> None:
        """A warp issues product `number` of the warpgroup whose first warp is `first`."""
        key = ("wgmma", first, number)
        self._products.setdefault(key, JointProduct()).warps += 1
        self.machine.wake(key)

    def add_part(self, op: Op, warp: int, first: int, number: int) -> None:
        """`op` is the part of `warp` in that product."""
        key = ("wgmma", first, number)
        ops = self._products[key].ops
        if op not in ops:
            ops.append(op)
        self._of_op[op, warp] = key
        self.add(op, warp, ALL_LANES)

    def _blocking(self, warp: int, op: Op, read: bool) -> Iterable[object]:
        key = self._of_op.get((op, warp))
        joint = self._products.get(key) if key else None
        if joint is None:
            yield from super()._blocking(warp, op, read)
            return
        if joint.warps < WARPGROUP:
            yield key
        for part in joint.ops:
            yield from super()._blocking(warp, part, read)

    def _left(self, warp: int, ops: Iterable[Op]) -> list[Op]:
        every: dict[Op, None] = {}
        for op in ops:
            key = self._of_op.pop((op, warp), None)
            joint = self._products.get(key) if key else None
            every |= dict.fromkeys(joint.ops if joint else [op])
            if key and joint:
                joint.unwaited -= 1
                if not joint.unwaited:
                    del self._products[key]
        return list(every)

    def describe(self, key: object) -> Stall | None:
        match key:
            case ("wgmma", int(first), int(number)):
                return self._stall(first, self._warps_of(first, number))
        return super().describe(key)

    def _warps_of(self, first: int, number: int) -> int:
        """Return how many warps have issued a product."""
        return self._products["wgmma", first, number].warps

    def _stall(self, first: int, warps: int) -> Stall:
        text = f"a wgmma.mma_async that {warps} of the {WARPGROUP} warps of a warpgroup have issued"
        return Stall("", text, BARRIER, frozenset(range(first, first + WARPGROUP)))
