"""Bytes that were never written: reads of them, and outputs that hold some at the end (initcheck).

Registers that were never written, or that an asynchronous load has not filled yet, are found by
the generated code: it knows where they are read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.addressing import name_of, object_of
from kernelrig.emu.machine.findings import Context, Wait
from kernelrig.emu.machine.hooks import Hooks
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import Array, Mask
from kernelrig.emu.observe.marks import all_marked
from kernelrig.emu.tensor.tensor_memory import COLUMNS, TENSOR_LANES

_WRITTEN = 1
MOST_OF_ONE = 8  # bytes
_RULES = {
    "shared": "uninitialised-shared-read",
    "global": "uninitialised-read",
    "local": "uninitialised-local-read",
}


class Init(Hooks):
    """Watches reads."""

    def __init__(self) -> None:
        self.machine: Machine | None = None
        self.tensor: dict[int, NDArray[np.bool_]] = {}  # by slot: which words are written

    def started(self, machine: Machine) -> None:
        """Mark the shared, local and tensor memory of a new wave of CTAs as never written."""
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
        padded = wrong & _may_be_padded(batch, arena.written, index, size)
        if padded.any() and space != "local":
            _report(batch, padded, space, index, size, "uninitialised-padding")
            wrong &= ~padded
        if wrong.any():
            _report(batch, wrong, space, index, size, _RULES[space])

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
            f"{op.name} reads {space} memory that was never written: {missing.size} of"
            f" {starts.size} rows of {size} bytes, {name_of(machine.memory, space, at)} first"
        )
        context = Context(
            _RULES[space], (object_of(machine.memory, space, at),), wait=op.wait, reads=True
        )
        text, same = _with_wait(text, op.wait), (op.name, space, context.objects)
        wrong = sum(1 << lane for lane, right in zip(op.lanes, written, strict=False) if not right)
        machine.report_op(op, "uninitialised", text, same=same, context=context, lanes=wrong)

    def marks(self, cta: int) -> NDArray[np.bool_]:
        """Return which words of the tensor memory of the CTA in a slot are written."""
        if cta not in self.tensor:
            self.tensor[cta] = np.zeros((TENSOR_LANES, COLUMNS), np.bool_)
        return self.tensor[cta]

    def op_tensor(self, op: Op, cta: int, lanes: slice, columns: slice, write: bool) -> None:
        """See words of tensor memory that was never written.

        A product that adds to them is wrong. A load may bring more than is wanted: with 64 rows
        half the lanes of a 32x32b load hold nothing.
        """
        marks = self.marks(cta)
        if write:
            marks[lanes, columns] = True
            return
        part = marks[lanes, columns]
        if part.all():
            return
        lane, column = (int(i[0]) for i in np.nonzero(~part))
        text = (
            f"{op.name} reads tensor memory that was never written: {int((~part).sum())} of"
            f" {part.size} words, lane {lanes.start + lane}, column {columns.start + column} first"
        )
        loads = op.name.startswith("tcgen05.ld")
        name = op.machine.memory.names.of_tensor(columns.start + column) or "tensor memory"
        rule = "uninitialised-tensor-load" if loads else "uninitialised-sum"
        context = Context(rule, (name,), wait=op.wait, reads=True)
        text = _with_wait(text, op.wait)
        op.machine.report_op(op, "uninitialised", text, same=op.name, context=context)

    def left_unwritten(self, machine: Machine, outputs: tuple[str, ...]) -> None:
        """Report bytes of `outputs` that hold nothing when the launch is over."""
        memory = machine.memory.global_
        for one in memory.allocations:
            if one.name not in outputs:
                continue
            marks = memory.written[one.start : one.start + one.size]
            if empty := one.size - int(np.count_nonzero(marks)):
                where = name_of(machine.memory, "global", one.start + int(marks.argmin()))
                text = (
                    f"{empty} of the {one.size} bytes of {one.name} were never written,"
                    f" {where} first: the grid does not cover its output"
                )
                context = Context("output-not-written", (one.name,))
                machine.report("uninitialised", text, same=("left", one.name), context=context)


def _report(
    batch: WarpBatch, wrong: NDArray[np.bool_], space: str, index: Array, size: int, rule: str
) -> None:
    """Report a read by the lanes of `wrong`."""
    machine = batch.machine
    first = int(np.broadcast_to(index, wrong.shape)[wrong][0])
    at = first + _first_unwritten(machine.memory.arena(space).written, first, size)
    text = f"read of {size} bytes of {space} memory of which"
    text = f"{text} {name_of(machine.memory, space, at)} is the first never written"
    row = int(np.flatnonzero(wrong.any(axis=1))[0])
    wait = machine.last_wait.get(int(batch.warps[row]))
    context = Context(rule, (object_of(machine.memory, space, at),), wait=wait, reads=True)
    batch.report("uninitialised", _with_wait(text, wait), wrong, same=rule, context=context)


def _may_be_padded(
    batch: WarpBatch, marks: NDArray[np.uint8], index: Array, size: int
) -> NDArray[np.bool_] | bool:
    """Say of which reads the bytes that are missing may be the padding of a structure.

    Compilers copy structures as integers. Of one, the first byte is of a member; of what is wider,
    by vectors too, the first half of each 8 bytes, behind which members are aligned again.
    """
    flags = batch.machine.program.function.instructions[batch.at].flags
    if flags & {"f32", "f64"}:
        return False
    if size <= MOST_OF_ONE and not flags & {"v2", "v4", "v8"}:
        return size > 1 and all_marked(marks, index, 1, _WRITTEN)
    if size % MOST_OF_ONE:
        return False
    halves = (
        all_marked(marks, index + start, MOST_OF_ONE // 2, _WRITTEN)
        for start in range(0, size, MOST_OF_ONE)
    )
    every: NDArray[np.bool_] | bool = np.logical_and.reduce(list(halves))
    return every


def _first_unwritten(marks: NDArray[np.uint8], start: int, size: int) -> int:
    """Return the offset of the first byte without a mark."""
    return int(np.argmin(marks[start : start + size]))


def _with_wait(text: str, wait: Wait | None) -> str:
    """Append the early wait that the thread passed last, if there is one."""
    return f"{text}; {wait.text}" if wait and wait.early else text
