"""Groups of operations that the core keeps: what is issued, committed and waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernelrig.emu.machine.async_groups import BulkGroups, Groups, MatrixGroups
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import Mask, lane_bits

if TYPE_CHECKING:
    from kernelrig.emu.native.machine_facade import NativeMachine

BULK, MATRIX = 0, 2
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


class NativeMatrixGroups(_GroupsOfCore, MatrixGroups):
    """Of wgmma."""

    kind = MATRIX
