"""Groups of operations that the core keeps: what is issued, committed and waited for, or arrived at
behind copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelrig.emu.machine.async_groups import BulkGroups, CopyGroups, Groups, MatrixGroups
from kernelrig.emu.machine.copy_arrivals import CopyArrivals
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import Mask, lane_bits

if TYPE_CHECKING:
    from kernelrig.emu.native.machine_facade import NativeMachine

BULK, COPY, MATRIX = range(3)
"""Kinds of groups, by their number in the core."""


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
        for warp, lanes in zip(batch.warps.tolist(), batch.mask_of(mask), strict=True):
            bits = lane_bits(lanes)
            if bits:
                self.machine.calls.core_group_commit(self.machine.core, self.kind, warp, bits)

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


PARTS: dict[Callable[[Any], Any], Callable[[Any], Any]] = {
    BulkGroups: NativeBulkGroups,
    CopyGroups: NativeCopyGroups,
    CopyArrivals: NativeCopyArrivals,
}
"""What takes the place of a part of a machine, where the core has the operations."""
