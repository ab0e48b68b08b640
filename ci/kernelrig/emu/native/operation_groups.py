"""Groups of operations that the core keeps: what is issued, committed and waited for, or arrived at
behind copies.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelrig.emu.machine.async_groups import BulkGroups, CopyGroups, Groups, MatrixGroups
from kernelrig.emu.machine.copy_arrivals import CopyArrivals
from kernelrig.emu.machine.instruction_table import Blocked
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.native.machine_facade import NativeMachine, PartKind
from kernelrig.emu.numerics.arrays import Mask, lane_bits

BULK, COPY, MATRIX = range(3)
"""Kinds of groups, by their number in the core."""
_MOST_GROUPS = 1 << 62
"""More than there ever are: beyond it a number need not be a word of the core."""


def _rows(batch: WarpBatch, mask: Mask) -> Iterator[tuple[int, int, int]]:
    """Yield row, warp and lanes (bits) of each warp that executes."""
    for row, lanes in enumerate(batch.mask_of(mask)):
        bits = lane_bits(lanes)
        if bits:
            yield row, int(batch.warps[row]), bits


def _left(newest: int | None) -> int:
    """Return how many groups a wait leaves as the core has it: -1 is none, committed or not."""
    return -1 if newest is None else min(newest, _MOST_GROUPS)


class _GroupsOfCore(Groups):
    """The groups of one kind of operations, of the core and of Python."""

    machine: NativeMachine
    kind: int

    def __init__(self, machine: NativeMachine) -> None:
        super().__init__(machine)
        self._added: dict[int, Op] = {}

    def add(self, op: Op, warp: int, lanes: int) -> None:
        self._added[op.number] = op
        self.machine.calls.core_group_add(self.machine.core, self.kind, warp, lanes, op.number)

    def commit(self, batch: WarpBatch, mask: Mask) -> None:
        for _, warp, lanes in _rows(batch, mask):
            self.machine.calls.core_group_commit(self.machine.core, self.kind, warp, lanes)

    def must_wait(
        self, batch: WarpBatch, mask: Mask, newest: int | None, read: bool = False
    ) -> Blocked | None:
        ready = np.ones(batch.size, np.bool_)
        keys: dict[object, None] = {}
        for row, warp, lanes in _rows(batch, mask):
            found = self._unfinished(warp, lanes, _left(newest), read)
            ready[row] = not found
            keys |= dict.fromkeys(map(self.machine.keys.name_of, found))
        return None if not keys else Blocked(ready, tuple(keys))

    def waited(self, batch: WarpBatch, mask: Mask, newest: int | None, read: bool = False) -> None:
        for _, warp, lanes in _rows(batch, mask):
            self.machine.calls.core_group_waited(
                self.machine.core, self.kind, warp, lanes, _left(newest), read
            )

    def _unfinished(self, warp: int, lanes: int, newest: int, read: bool) -> list[int]:
        """Return the numbers of the keys of what lanes of a warp wait for."""
        asked = self.machine.core, self.kind, warp, lanes, newest, read
        count = self.machine.calls.core_group_unfinished(*asked, None, 0)
        found = (ctypes.c_int64 * count)()
        self.machine.calls.core_group_unfinished(*asked, found, count)
        return [*found]

    def _of(self, warp: int, lanes: int) -> list[Any]:
        raise NotImplementedError("histories are the core's: nothing is known of them here")

    def _holds(self, op: Op) -> bool:
        machine = self.machine
        return bool(machine.calls.core_group_holds(machine.core, self.kind, op.warp, op.number))

    def finish(self) -> None:
        machine = self.machine
        count = machine.calls.core_group_uncommitted(machine.core, self.kind, None, 0)
        words = np.zeros((count, 6), np.int64)
        machine.calls.core_group_uncommitted(machine.core, self.kind, words.ctypes.data, count)
        for warp, lanes, number, lane, at, name in words.tolist():
            op = self._added.get(number)
            if op is not None:
                self._report(op.name, warp, lanes & op.bits, op.at)
            else:
                bits = lanes & 1 << lane if lane >= 0 else lanes
                self._report(machine.encoded.op_names[name], warp, bits, at)


class NativeBulkGroups(_GroupsOfCore, BulkGroups):
    """Of cp.async.bulk."""

    kind = BULK


class NativeCopyGroups(_GroupsOfCore, CopyGroups):
    """Of cp.async."""

    kind = COPY

    def finish(self) -> None:
        """Nothing leaks: the thread's exit ends its copies."""


class NativeCopyArrivals(CopyArrivals):
    """Arrivals behind copies of the core and of Python."""

    machine: NativeMachine

    def arrive_later(self, batch: WarpBatch, row: int, lanes: int, slot: int, offset: int) -> None:
        machine, warp = self.machine, int(batch.warps[row])
        machine.calls.core_copy_arrives(machine.core, warp, lanes, batch.at, slot, offset)

    def ended(self, copy: Op) -> None:
        self.machine.calls.core_copy_ended(self.machine.core, copy.number)


class NativeMatrixGroups(_GroupsOfCore, MatrixGroups):
    """Of wgmma."""

    kind = MATRIX

    def _warps_of(self, first: int, number: int) -> int:
        return int(self.machine.calls.core_product_warps(self.machine.core, number << 32 | first))


PARTS: dict[PartKind, PartKind] = {
    BulkGroups: NativeBulkGroups,
    CopyGroups: NativeCopyGroups,
    CopyArrivals: NativeCopyArrivals,
}
"""What takes the place of a part of a machine, where the core has the operations."""
