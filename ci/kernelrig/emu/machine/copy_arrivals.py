"""Arrivals on mbarriers that wait until copies are done: cp.async.mbarrier.arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelrig.emu.machine.async_groups import CopyGroups
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import LANES


@dataclass(eq=False)
class CopyArrivals:
    """All of a machine."""

    machine: Machine
    _behind: dict[Op, list[tuple[Op, set[Op]]]] = field(default_factory=dict)

    def arrive_later(self, batch: WarpBatch, row: int, lanes: int, slot: int, offset: int) -> None:
        """Let lanes (bits) of a warp arrive when their copies so far are done: those with the same
        copies together.
        """
        machine = self.machine
        for bits, copies in machine.part(CopyGroups).issued(int(batch.warps[row]), lanes):
            op = Op(
                "cp.async.mbarrier.arrive", machine, batch.warps, row, -1, batch.at, "generic",
                lanes=tuple(lane for lane in range(LANES) if bits >> lane & 1),
            )  # fmt: skip
            op.steps = self._steps(op, copies, slot, offset)
            if machine.hooks:
                machine.hooks.op_issued(op)
            missing = {copy for copy in copies if not copy.done}
            for copy in missing:
                self._behind.setdefault(copy, []).append((op, missing))
            if not missing:
                machine.operations.issue(op)

    def _steps(self, op: Op, copies: list[Op], slot: int, offset: int) -> Iterator[None]:
        barriers, hooks = self.machine.part(Barriers), self.machine.hooks
        barrier, bits = barriers.find(slot, offset), op.bits
        # Arrivals that complete the phase on their way are of two phases: one by one.
        together = barrier is None or bits.bit_count() <= barrier.pending
        for some in [bits] if together else [1 << lane for lane in op.lanes]:
            if hooks and barrier:
                hooks.copies_arrived(copies, some, barrier, barrier.phase)
            barriers.op_arrive(op, slot, offset, some.bit_count())
        return
        yield

    def ended(self, copy: Op) -> None:
        """Start the arrivals that waited for this copy last."""
        for arrival, missing in self._behind.pop(copy, ()):
            missing.discard(copy)
            if not missing:
                self.machine.operations.issue(arrival)
