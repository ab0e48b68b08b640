"""Bytes that were never written: reads of them, and outputs that hold some at the end (initcheck).

Registers that were never written, or that an asynchronous load has not filled yet, are found by
the generated code: it knows where they are read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa.tcgen05_load import places_of
from kernelrig.emu.machine.addressing import name_of, object_of
from kernelrig.emu.machine.findings import Context, Wait
from kernelrig.emu.machine.machine_state import Hooks, Machine, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import Array, Mask, lane_bits
from kernelrig.emu.observe.byte_flow import loaded
from kernelrig.emu.observe.marks import all_marked
from kernelrig.emu.observe.unwritten_values import UnwrittenValues
from kernelrig.emu.observe.value_flow import bits_of
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
        self.values: UnwrittenValues | None = None

    def started(self, machine: Machine) -> None:
        """Mark the shared, local and tensor memory of a new wave of CTAs as never written."""
        self.machine = machine
        self.tensor = {}
        machine.memory.shared.written[:] = 0
        machine.memory.local.written[:] = 0
        machine.values = self.values = UnwrittenValues(machine)

    def ended(self, machine: Machine) -> None:
        if self.values is not None:
            self.values.origins.ended()

    def _values(self, machine: Machine) -> UnwrittenValues:
        """Return what follows values; of a machine that no wave was started on, too."""
        if self.values is None:
            machine.values = self.values = UnwrittenValues(machine)
        return self.values

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
            if self.values is not None:
                self.values.stores.about_to_store(batch, mask, space, index, size)
            return
        arena = batch.machine.memory.arena(space)
        written = all_marked(arena.written, index, size, _WRITTEN)
        if written.all():
            return
        wrong = batch.mask_of(mask) & ~written
        if not wrong.any():
            return
        if not atomic and space != "global":
            wrong &= np.logical_not(self._brings(batch, wrong, space, index, size))
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
        detail = op.detail
        if detail is not None and detail.needed is not None:
            places = starts[:, None] + np.arange(size)
            empty = (marks[places] & _WRITTEN == 0) & (detail.needed[places - starts.min()] != 0)
            written = ~empty.any(axis=1)
            if written.all():
                return
            starts, written = starts[~written], written[~written]
        missing = starts[~written]
        at = int(missing[0]) + _first_unwritten(marks, int(missing[0]), size)
        values = self._values(machine)
        known = values.stores.known(space, at)  # of what was stored and is not to be used
        if known and not (detail is not None and detail.what):
            values.origins.report(known, op.at, op.warp, op.bits)
            return
        text = (
            f"{op.name} reads {space} memory that was never written: {missing.size} of"
            f" {starts.size} rows of {size} bytes, {name_of(machine.memory, space, at)} first"
        )
        context = Context(
            _RULES[space], (object_of(machine.memory, space, at),), wait=op.wait, reads=True
        )
        text, same = _with_wait(text, op.wait), (op.name, space, context.objects)
        if detail is not None and detail.what:
            origin = known or values.origins.of(op.at, same, text, context, op.warp, op.bits, 1)
            empty = marks[starts[:, None] + np.arange(size)] & _WRITTEN == 0
            values.products.operand(op, detail, empty, origin)
            return
        wrong = sum(1 << lane for lane, right in zip(op.lanes, written, strict=False) if not right)
        machine.report_op(op, "uninitialised", text, same=same, context=context, lanes=wrong)

    def _brings(
        self, batch: WarpBatch, wrong: NDArray[np.bool_], space: str, index: Array, size: int
    ) -> NDArray[np.bool_] | bool:
        """Follow what a load brings of bytes that nothing wrote; return the lanes where it does."""
        machine = batch.machine
        instruction = machine.program.function.instructions[batch.at]
        if instruction.opcode not in ("ld", "ldmatrix"):
            return False
        values = self._values(machine)
        marks = machine.memory.arena(space).written
        flat = np.broadcast_to(index, wrong.shape)
        missing = np.zeros((*wrong.shape, size), np.bool_)
        missing[wrong] = marks[flat[wrong][:, None] + np.arange(size)] & _WRITTEN == 0
        numbers = values.stores.origins_of(space, flat + missing.argmax(axis=2)) * wrong
        chosen = wrong & (numbers > 0)
        if space == "shared":
            chosen |= wrong & np.logical_not(_may_be_padded(batch, marks, index, size))
        for number in np.unique(numbers[chosen]).tolist():
            some = chosen & (numbers == number)
            if number:
                origin = values.origins.numbered(number)
            else:
                text, context = _read(batch, some, space, index, size, _RULES[space])
                row = int(np.flatnonzero(some.any(axis=1))[0])
                origin = values.origins.of(
                    batch.at, context.rule, text, context, int(batch.warps[row]),
                    lane_bits(some[row]), int(some.sum()),
                )  # fmt: skip
            brought = loaded(instruction, missing & some[..., None])
            step = machine.program.codegen.steps[batch.at]
            for (register, _), (lanes, part) in zip(step.writes, brought, strict=True):
                if register is not None:
                    rows = zip(batch.warps.tolist(), bits_of(lanes), part, strict=True)
                    for warp, bits, own in rows:
                        values.hold(warp, register.index, bits, origin, own)
        return chosen

    def marks(self, cta: int) -> NDArray[np.bool_]:
        """Return which words of the tensor memory of the CTA in a slot are written."""
        if cta not in self.tensor:
            self.tensor[cta] = np.zeros((TENSOR_LANES, COLUMNS), np.bool_)
        return self.tensor[cta]

    def op_issued(self, op: Op) -> None:
        """See what a tcgen05.st is to store of values that must not be used."""
        values = self.values
        if values and values.stores.pending and op.name.startswith("tcgen05.st"):
            op.stored = values.stores.pending.rows.get(op.row)

    def op_done(self, op: Op) -> None:
        if self.values is not None:
            self.values.products.forget(op)

    def op_tensor(self, op: Op, cta: int, lanes: slice, columns: slice, write: bool) -> None:
        """See words of tensor memory that was never written, and what follows from them.

        A product that adds to them is wrong. A load may bring more than is wanted: with 64 rows
        half the lanes of a 32x32b load hold nothing; so may A have rows that nobody needs.
        """
        marks = self.marks(cta)
        if write:
            marks[lanes, columns] = True
            self._follows(op, cta, lanes, columns)
            return
        part = marks[lanes, columns]
        if part.all():
            return
        values = self._values(op.machine)
        if op.name.startswith("tcgen05.ld"):
            self._load(op, cta, lanes.start, columns.start, part)
            return
        what = op.detail.what if op.detail else ""
        numbers = values.stores.tensor(cta)[lanes, columns] * ~part
        rule = "uninitialised-operand" if what == "a words" else "uninitialised-sum"
        text, context = _tensor_read(op, part, lanes.start, columns.start, rule)
        if what == "a words" and op.detail:
            first = int(numbers[~part][0])
            origin = (
                values.origins.numbered(first)
                if first
                else values.origins.of(op.at, rule, text, context, op.warp, op.bits, 1)
            )
            values.products.rows_of_words(op, op.detail, ~part, origin)
            return
        if what == "d":
            values.products.adds_to(op, numbers)
            if (part | (numbers > 0)).all():
                return
        elif (numbers > 0).any():
            known = values.origins.numbered(int(numbers[numbers > 0][0]))
            values.origins.report(known, op.at, op.warp, op.bits)
            return
        op.machine.report_op(op, "uninitialised", text, same=op.name, context=context)

    def _follows(self, op: Op, cta: int, lanes: slice, columns: slice) -> None:
        """Mark the words that an operation writes of values that must not be used."""
        values = self.values
        if values is None:
            return
        marks = self.marks(cta)
        if op.detail and op.detail.what == "d":
            numbers = values.products.written(op, op.detail, marks[lanes, columns].shape)
            if numbers.any():
                marks[lanes, columns] = numbers == 0
                values.stores.tensor(cta)[lanes, columns] = numbers
        if op.stored:
            shape = places_of(op.machine.program.function.instructions[op.at])
            for held, at, column in zip(op.stored, shape.lanes, shape.columns, strict=True):
                if held is None:
                    continue
                chosen = np.array([held.lanes >> lane & 1 for lane in range(len(at))], np.bool_)
                for half in range(1 + shape.halves):
                    place = lanes.start + at[chosen], columns.start + column[chosen] + half
                    marks[place] = False
                    values.stores.tensor(cta)[place] = held.origin.number

    def _load(self, op: Op, cta: int, lane: int, column: int, part: NDArray[np.bool_]) -> None:
        """Follow what a tcgen05.ld brings into registers of words that hold nothing."""
        machine, values = op.machine, self._values(op.machine)
        shape = places_of(machine.program.function.instructions[op.at])
        missing = ~part[shape.lanes, shape.columns]
        numbers = values.stores.tensor(cta)[lane + shape.lanes, column + shape.columns]
        if shape.halves:
            second = ~part[shape.lanes, shape.columns + 1]
            others = values.stores.tensor(cta)[lane + shape.lanes, column + shape.columns + 1]
            numbers = np.where(missing, numbers, others)
            missing |= second
        registers = [r.index for r, _ in machine.program.codegen.steps[op.at].writes]
        for number in np.unique(numbers[missing]).tolist():
            if number:
                origin = values.origins.numbered(number)
            else:
                rule = "uninitialised-tensor-load"
                text, context = _tensor_read(op, part, lane, column, rule)
                origin = values.origins.of(op.at, op.name, text, context, op.warp, op.bits, 1)
            some = bits_of(missing & (numbers == number))
            for register, bits in zip(registers, some, strict=True):
                values.hold(op.warp, register, bits, origin)

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


def _tensor_read(
    op: Op, part: NDArray[np.bool_], lane: int, column: int, rule: str
) -> tuple[str, Context]:
    """Say which words an operation reads that nothing wrote; `part` says of each if it was."""
    first, other = (int(i[0]) for i in np.nonzero(~part))
    text = (
        f"{op.name} reads tensor memory that was never written: {int((~part).sum())} of"
        f" {part.size} words, lane {lane + first}, column {column + other} first"
    )
    name = op.machine.memory.names.of_tensor(column + other) or "tensor memory"
    context = Context(rule, (name,), wait=op.wait, reads=True)
    return _with_wait(text, op.wait), context


def _report(
    batch: WarpBatch, wrong: NDArray[np.bool_], space: str, index: Array, size: int, rule: str
) -> None:
    """Report a read by the lanes of `wrong`."""
    text, context = _read(batch, wrong, space, index, size, rule)
    batch.report("uninitialised", text, wrong, same=rule, context=context)


def _read(
    batch: WarpBatch, wrong: NDArray[np.bool_], space: str, index: Array, size: int, rule: str
) -> tuple[str, Context]:
    """Say what the lanes of `wrong` read."""
    machine = batch.machine
    first = int(np.broadcast_to(index, wrong.shape)[wrong][0])
    at = first + _first_unwritten(machine.memory.arena(space).written, first, size)
    where = name_of(machine.memory, space, at)
    text = f"read of {size} bytes of {space} memory: nothing wrote {where}"
    row = int(np.flatnonzero(wrong.any(axis=1))[0])
    wait = machine.last_wait.get(int(batch.warps[row]))
    context = Context(rule, (object_of(machine.memory, space, at),), wait=wait, reads=True)
    return _with_wait(text, wait), context


def _may_be_padded(
    batch: WarpBatch, marks: NDArray[np.uint8], index: Array, size: int
) -> NDArray[np.bool_] | bool:
    """Say of which reads the bytes that are missing may be the padding of a structure.

    Compilers copy structures as integers. Of one, the first byte is of a member; of what is wider,
    by vectors too, the first half of each 8 bytes, behind which members are aligned again.
    """
    instruction = batch.machine.program.function.instructions[batch.at]
    flags = instruction.flags
    if instruction.opcode != "ld" or flags & {"f32", "f64"}:
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
