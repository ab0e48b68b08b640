"""A product of tcgen05.mma: where its operands and its sums lie, and how it is done.

PTX ISA 9.7.16.10. With cta_group::2 each CTA of the pair holds half of A by rows and half of B by
columns of D, at the same addresses of its own shared memory, and its rows of D.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.operations import AccessDetail, Op
from kernelrig.emu.tensor.formats import decode
from kernelrig.emu.tensor.instruction_descriptor import Product
from kernelrig.emu.tensor.operand_layout import UNIT, Operand, detail_of
from kernelrig.emu.tensor.sparse_metadata import Positions, chosen_rows
from kernelrig.emu.tensor.summation import (
    BLACKWELL_FP8,
    F32,
    hardware_sum,
    multiply,
    multiply_into,
)
from kernelrig.emu.tensor.tensor_memory import TENSOR_LANES, TensorMemory
from kernelrig.emu.tensor.tensor_metadata import Metadata

A_COLUMNS = 8
"""Columns of tensor memory that 32 bytes of A take."""

Words = NDArray[np.uint32]


class Tile(NamedTuple):
    """A block of a CTA's part of D: rows and columns of the product, lanes and columns from D's."""

    rows: slice
    columns: slice
    lanes: slice
    shift: int  # of the columns


def parts_of(product: Product, cta_group: int) -> int:
    """Return into how many parts the columns of D are cut, which lie below one another."""
    if product.stationary or cta_group == 2:
        return TENSOR_LANES // (product.m // cta_group)
    return 1


def tiles_of(product: Product, cta_group: int) -> tuple[Tile, ...]:
    """Return the blocks of D (layouts A, B, and D to G), of each CTA alike."""
    rows, parts = product.m // cta_group, parts_of(product, cta_group)
    if rows * parts == TENSOR_LANES:  # A, D; B, E, G: further columns are in further lanes
        wide = product.n // parts
        return tuple(
            Tile(
                slice(0, rows),
                slice(part * wide, (part + 1) * wide),
                slice(rows * part, rows * (part + 1)),
                0,
            )
            for part in range(parts)
        )
    everything = slice(0, product.n)
    quarters = range(4)  # layout F: 16 lanes of each warp's 32
    return tuple(
        Tile(slice(16 * q, 16 * q + 16), everything, slice(32 * q, 32 * q + 16), 0)
        for q in quarters
    )


def width(product: Product, cta_group: int) -> int:
    """Return the columns of tensor memory that D takes."""
    return product.n // parts_of(product, cta_group)


@dataclass(frozen=True, slots=True)
class Multiplication:
    """One tcgen05.mma, its descriptors decoded.

    `slots` are the CTAs, the even one first. `a` is an operand in shared memory, or the address
    (lane, column) of one in tensor memory. `kept` are lanes (CTAs, 128) that are not written.
    """

    memory: TensorMemory
    product: Product
    slots: tuple[int, ...]
    a: Operand | tuple[int, int]
    b: Operand
    lane: int
    column: int
    accumulate: bool
    shift: int  # D counts 2^-shift of itself
    kept: NDArray[np.bool_] | None
    hardware: bool
    metadata: Metadata | None = field(default=None, kw_only=True)  # of a sparse A

    def __call__(self, op: Op) -> Iterator[None]:
        """Read the operands; then, some time, add to D."""
        group = len(self.slots)
        room = [("D", self.column, width(self.product, group))]
        room += self.room_of_metadata()
        if not all([self.has_room(op, *part) for part in room]):
            return
        b = [self._fetch(op, self.b, "b", number) for number in range(group)]
        columns_of_b = np.concatenate(b) if group == 2 else b[0]
        if self.product.negate_b:
            columns_of_b = -columns_of_b
        rows = [self._rows(op, number) for number in range(group)]
        where = self.positions_of_rows(op, rows)
        op.read = True
        yield
        for number, slot in enumerate(self.slots):
            which = where[number]
            of_rows = columns_of_b if which is None else chosen_rows(columns_of_b, which)
            self._add(op, number, slot, rows[number], of_rows)

    def room_of_metadata(self) -> list[tuple[str, int, int]]:
        """Return what must be allocated besides, as `has_room` takes it."""
        if self.metadata is None:
            return []
        taken = self.metadata.columns
        return [("A's metadata", taken.start, taken.stop - taken.start)]

    def positions_of_rows(self, op: Op, rows: list[list[F32]]) -> list[Positions | None]:
        """Return by CTA which elements of K a sparse A stores."""
        if self.metadata is None:
            return [None] * len(self.slots)
        return [
            self.metadata.positions(self.memory, op, slot, np.concatenate(parts))
            for slot, parts in zip(self.slots, rows, strict=True)
        ]

    def has_room(self, op: Op, what: str, column: int, columns: int) -> bool:
        """Say whether all CTAs own these columns; report it where one does not."""
        for slot in self.slots:
            wrong = self.memory.fault(slot, column, columns)
            if wrong:
                self.memory.machine.report_op(op, "tmem", f"{op.name}: {what} has {wrong}")
                return False
        return True

    # Reading.
    def _fetch(self, op: Op, operand: Operand, what: str, number: int) -> F32:
        machine = self.memory.machine
        units = operand.units(self.slots[number])
        if machine.hooks:
            op.detail = detail_of(operand, what, number)
            machine.hooks.op_accessed(op, "shared", units.reshape(-1) * UNIT, UNIT, False)
        return operand.fetch(machine.memory.shared.bytes, units)

    def _rows(self, op: Op, number: int) -> list[F32]:
        """Return A's rows for each block of D."""
        product, slot = self.product, self.slots[number]
        blocks = tiles_of(product, len(self.slots))
        if isinstance(self.a, Operand):
            values = self._fetch(op, self.a, "a", number)
            values = -values if product.negate_a else values
            return [values[block.rows] for block in blocks]
        lane, column = self.a
        wrong = self.memory.fault(slot, column, A_COLUMNS)
        machine = self.memory.machine
        if wrong:
            machine.report_op(op, "tmem", f"{op.name}: A has {wrong}")
            column = 0
        found = []
        for block in blocks:
            lanes = slice(block.lanes.start + lane, block.lanes.stop + lane)
            if machine.hooks:
                taken = slice(column, column + A_COLUMNS)
                op.detail = AccessDetail("a words", number, block.rows.start)
                machine.hooks.op_tensor(op, slot, lanes, taken, False)
            words = self.memory.words(slot)[lanes, column : column + A_COLUMNS]
            values = decode(np.ascontiguousarray(words).view(np.uint8), product.a)
            found.append(-values if product.negate_a else values)
        return found

    # Writing.
    def _add(self, op: Op, number: int, slot: int, rows: list[F32], b: F32) -> None:
        product = self.product
        machine = self.memory.machine
        words = self.memory.words(slot)
        blocks = tiles_of(product, len(self.slots))
        for block, a in zip(blocks, rows, strict=True):
            lanes = slice(block.lanes.start + self.lane, block.lanes.stop + self.lane)
            wide = block.columns.stop - block.columns.start
            columns = slice(self.column, self.column + wide)
            if machine.hooks:
                op.detail = AccessDetail("d", number, block.rows.start, block.columns.start)
                if self.accumulate:
                    machine.hooks.op_tensor(op, slot, lanes, columns, False)
                machine.hooks.op_tensor(op, slot, lanes, columns, True)
            d = words[lanes, columns]
            kept = None if self.kept is None else self.kept[number, lanes]
            before = d.copy() if kept is not None and kept.any() else None
            self._sum(d, a, b[..., block.columns, :])
            if before is not None:
                d[kept] = before[kept]

    def _sum(self, d: Words, a: F32, b: F32) -> None:
        """Make D of A x B^T, and of itself."""
        product = self.product
        if product.d == "s32":
            self._sum_integers(d, multiply(a, b))
            return
        floats = d.view(np.float32)
        if product.d == "f32" and not self.hardware:
            if self.accumulate and self.shift:
                floats[...] = multiply(a, b) + floats * np.float32(2.0**-self.shift)
            else:
                multiply_into(a, b, floats, self.accumulate)
            return
        half = d.astype(np.uint16).view(np.float16)
        start = floats if product.d == "f32" else half.astype(np.float32)
        start = start * np.float32(2.0**-self.shift) if self.shift else start
        if self.hardware and product.d == "f32":
            forms = (product.a, product.b)
            c = start if self.accumulate else None
            floats[...] = hardware_sum(a, b, forms, c, BLACKWELL_FP8)
            return
        total = multiply(a, b) + start if self.accumulate else multiply(a, b)
        d[...] = total.astype(np.float16).view(np.uint16)

    def _sum_integers(self, d: Words, total: F32) -> None:
        sums = total.astype(np.int64)
        if self.accumulate:
            sums += d.view(np.int32)
        if self.product.saturate:
            sums = np.clip(sums, -(1 << 31), (1 << 31) - 1)
        d[...] = sums.astype(np.uint64).astype(np.uint32)
