"""What nobody wrote: reads of such bytes, and outputs that hold some at the end (initcheck).

Registers that nobody wrote, or that an asynchronous load has not filled yet, are the compiler's to
see: it knows where they are read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.addressing import name_of
from kernelrig.emu.machine.hooks import Hooks
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import Array, Mask
from kernelrig.emu.observe.marks import all_marked
from kernelrig.emu.tensor.tensor_memory import COLUMNS, TENSOR_LANES

_WRITTEN = 1


class Init(Hooks):
    """Watches reads."""

    def __init__(self) -> None:
        self.machine: Machine | None = None
        self.tensor: dict[int, NDArray[np.bool_]] = {}  # by slot: which words are written

    def started(self, machine: Machine) -> None:
        """What a new wave finds in its CTAs' memory is nothing that anybody may read."""
        self.machine = machine
        self.tensor = {}
        machine.memory.shared.written[:] = 0
        machine.memory.local.written[:] = 0

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
        if write and not atomic:
            return
        arena = batch.machine.memory.arena(space)
        written = all_marked(arena.written, index, size, _WRITTEN)
        if written.all():
            return
        wrong = batch.mask_of(mask) & ~written
        if not wrong.any():
            return
        first = np.broadcast_to(index, wrong.shape)[wrong][:1]
        at = int(first[0]) + _first_unwritten(arena.written, int(first[0]), size)
        # A compiler copies the padding of a local structure along with what it holds.
        severity = "warning" if space == "local" else "error"
        text = f"read of {size} bytes of {space} memory of which"
        text = f"{text} {name_of(batch.machine.memory, space, at)} is the first that nobody wrote"
        batch.report("uninitialised", f"{text}; {_suggested_fix(space)}", wrong, severity, space)

    def op_accessed(self, op: Op, space: str, starts: Array, size: int, write: bool) -> None:
        if write or not size or not len(starts):
            return
        machine: Machine = op.machine
        marks = machine.memory.arena(space).written
        written = all_marked(marks, starts, size, _WRITTEN)
        if written.all():
            return
        missing = starts[~written]
        at = int(missing[0]) + _first_unwritten(marks, int(missing[0]), size)
        text = (
            f"{op.name} reads {space} memory that nobody wrote: {missing.size} of {starts.size}"
            f" rows of {size} bytes, {name_of(machine.memory, space, at)} first;"
            f" {_suggested_fix(space)}"
        )
        lanes = 1 << op.lane if op.lane >= 0 else 0xFFFF_FFFF
        machine.report("uninitialised", text, op.warp, lanes, op.at, same=(op.name, space))

    def op_tensor(self, op: Op, cta: int, lanes: slice, columns: slice, write: bool) -> None:
        """See words of tensor memory that nobody wrote.

        A product that adds to them is wrong. A load may bring more than is wanted: with 64 rows
        half the lanes of a 32x32b load hold nothing.
        """
        marks = self.tensor.get(cta)
        if marks is None:
            marks = self.tensor[cta] = np.zeros((TENSOR_LANES, COLUMNS), np.bool_)
        if write:
            marks[lanes, columns] = True
            return
        part = marks[lanes, columns]
        if part.all():
            return
        lane, column = (int(i[0]) for i in np.nonzero(~part))
        text = (
            f"{op.name} reads tensor memory that nobody wrote: {int((~part).sum())} of {part.size}"
            f" words, lane {lanes.start + lane}, column {columns.start + column} first; let the"
            " first product of a sum not add to D, and load the columns that it wrote"
        )
        bits = 1 << op.lane if op.lane >= 0 else 0xFFFF_FFFF
        severity = "warning" if op.name.startswith("tcgen05.ld") else "error"
        op.machine.report("uninitialised", text, op.warp, bits, op.at, severity, same=op.name)

    def left_unwritten(self, machine: Machine, outputs: tuple[str, ...]) -> None:
        """Report bytes of `outputs` that hold nothing when the launch is over."""
        memory = machine.memory.global_
        for one in memory.allocations:
            if one.name not in outputs:
                continue
            empty = np.nonzero(memory.written[one.start : one.start + one.size] == 0)[0]
            if len(empty):
                where = name_of(machine.memory, "global", one.start + int(empty[0]))
                text = (
                    f"{len(empty)} of the {one.size} bytes of {one.name} were never written,"
                    f" {where} first: the grid does not cover its output"
                )
                machine.report("uninitialised", text, same=("left", one.name))


def _first_unwritten(marks: NDArray[np.uint8], start: int, size: int) -> int:
    """Return the offset of the first byte without a mark."""
    return int(np.argmin(marks[start : start + size]))


def _suggested_fix(space: str) -> str:
    if space == "shared":
        return "write it, or wait for the copy that brings it, before the read"
    return "fill it before the launch, or write it before the read"
