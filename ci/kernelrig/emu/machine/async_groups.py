"""Groups of asynchronous operations: what a thread has committed, and waits for by their number.

Bulk copies, cp.async and wgmma have separate lists. Lanes of a warp that issued the same so far
share one list; it is copied where they diverge.
"""

from __future__ import annotations

from collections.abc import Iterator
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
        for _, _, queues in self._of_batch(batch, mask):
            for queue in queues:
                if not self.machine.hooks:
                    _forget(queue)
                queue.groups.append(queue.uncommitted)
                queue.uncommitted = []

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
                    if not (op.read if read else op.done):
                        ready[row] = False
                        keys[op] = None
        return None if not keys else Blocked(ready, tuple(keys))

    def waited(self, batch: WarpBatch, mask: Mask, newest: int | None, read: bool = False) -> None:
        """The wait returned: notify observers of what is complete for these threads."""
        if not self.machine.hooks:
            return
        for row, lanes, queues in self._of_batch(batch, mask):
            for queue in queues:
                ops = list(dict.fromkeys(queue.older(newest, read)))
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


class MatrixGroups(Groups):
    """Of wgmma.mma_async: a warp's, all lanes together."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, "matrix products", "wgmma.commit_group")


def _forget(queue: _Queue) -> None:
    """Drop what is done from the front: no wait needs it any more."""
    done = 0
    while done < len(queue.groups) and all(op.done for op in queue.groups[done]):
        done += 1
    del queue.groups[:done]
