"""Which instructions wrote and copied what of global memory, for the line of a wrong value."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelrig.emu.machine.machine_state import Hooks
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import Array, Mask

UNIT = 16
NO_WRITER = -1


class LastWriter(Hooks):
    """The instruction that wrote each unit of 16 bytes last, and where each copy first read."""

    def __init__(self) -> None:
        self.last: Array | None = None
        self.copied: Array | None = None

    def of_machine(self, machine: Any) -> Array:  # noqa: ANN401 - see Hooks
        """Return the table: an instruction for each unit of 16 bytes, NO_WRITER where none."""
        if self.last is None:
            units = len(machine.memory.global_) // UNIT + 1
            self.last = np.full(units, NO_WRITER, np.int32)
        return self.last

    def copied_by(self, machine: Any) -> Array:  # noqa: ANN401 - see Hooks
        """Return the first flat byte that copies of each instruction read, NO_WRITER of none."""
        if self.copied is None:
            self.copied = np.full(len(machine.program.function.instructions), NO_WRITER, np.int64)
        return self.copied

    def accessed(
        self,
        batch: Any,  # noqa: ANN401 - see Hooks
        mask: Mask,
        space: str,
        index: Array,
        size: int,
        write: bool,
        atomic: bool = False,
        sem: str = "weak",
        scope: str = "",
    ) -> None:
        if write and space == "global":
            if mask is not None:
                lanes = batch.mask_of(mask)
                index = np.broadcast_to(index, lanes.shape)[lanes]
            last = self.of_machine(batch.machine)
            last[index // UNIT] = batch.at
            last[(index + size - 1) // UNIT] = batch.at

    def op_accessed(self, op: Op, space: str, starts: Array, size: int, write: bool) -> None:
        if write and space == "global":
            last = self.of_machine(op.machine)
            for offset in range(0, size, UNIT):
                last[(starts + offset) // UNIT] = op.at
            last[(starts + size - 1) // UNIT] = op.at
        elif space == "global" and len(starts):
            copied = self.copied_by(op.machine)
            if copied[op.at] == NO_WRITER:
                copied[op.at] = starts[0]

    def copies_from(self, start: int, size: int) -> tuple[int, ...]:
        """Return the instructions of which the first copy read one of those flat bytes."""
        if self.copied is None:
            return ()
        inside = (self.copied >= start) & (self.copied < start + size)
        return tuple(np.flatnonzero(inside).tolist())

    def of(self, machine: Any, index: int) -> int:  # noqa: ANN401 - see Hooks
        """Return the instruction that wrote the flat byte last, NO_WRITER if none did."""
        return int(self.of_machine(machine)[index // UNIT])
