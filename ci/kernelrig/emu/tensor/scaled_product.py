"""A block-scaled product of tcgen05.mma: each 16 or 32 elements of K of a row have a scale.

PTX ISA 9.7.16.10.7. Scales are bytes in tensor memory. Those of row r stand in lane r % 32, column
r / 32 of their own, one behind the other from the byte that the instruction descriptor names. Each
32 lanes have a copy, as tcgen05.cp.32x128b.warpx4 makes them: sums in lanes 32 w to 32 w + 31 take
the scales that stand in these lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.operations import AccessDetail, Op
from kernelrig.emu.numerics.rounding import canonical
from kernelrig.emu.tensor.formats import scale_values
from kernelrig.emu.tensor.instruction_descriptor import Scaling
from kernelrig.emu.tensor.sparse_metadata import Positions, chosen_rows
from kernelrig.emu.tensor.summation import F32
from kernelrig.emu.tensor.tensor_memory import TENSOR_LANES
from kernelrig.emu.tensor.tensor_product import Multiplication, tiles_of, width

_LANES = 32  # of a copy
Scales = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScaledMultiplication(Multiplication):
    """One such product. `a_scales` and `b_scales` are columns of tensor memory."""

    scaling: Scaling
    a_scales: int
    b_scales: int

    def __call__(self, op: Op) -> Iterator[None]:
        """Read the operands and their scales; then, some time, add to D."""
        product, group = self.product, len(self.slots)
        columns = width(product, group)
        of_a, of_b = -(-product.m // group // _LANES), -(-columns // _LANES)
        room = (("D", self.column, columns), ("A's scales", self.a_scales, of_a),
                ("B's scales", self.b_scales, of_b), *self.room_of_metadata())  # fmt: skip
        if not all([self.has_room(op, *part) for part in room]):
            return
        b = np.concatenate([self._fetch(op, self.b, "b", n) for n in range(group)])
        b = -b if product.negate_b else b
        rows = [self._rows(op, number) for number in range(group)]
        a_scales = [self._scales(op, s, self.a_scales, of_a, "a") for s in self.slots]
        b_scales = [self._scales(op, s, self.b_scales, of_b, "b") for s in self.slots]
        where = self.positions_of_rows(op, rows)
        op.read = True
        yield
        for number, slot in enumerate(self.slots):
            scales = a_scales[number], b_scales[number]
            self._add_scaled(op, number, slot, rows[number], b, *scales, where[number])

    def _scales(self, op: Op, slot: int, column: int, columns: int, which: str) -> Scales:
        """Return scales by the copy, the row and the part of K."""
        taken = slice(column, column + columns)
        hooks = self.memory.machine.hooks
        if hooks:
            op.detail = None
            hooks.op_tensor(op, slot, slice(0, TENSOR_LANES), taken, False)
        held = np.ascontiguousarray(self.memory.words(slot)[:, taken]).view(np.uint8)
        first = self.scaling.a_byte if which == "a" else self.scaling.b_byte
        parts = held.reshape(-1, _LANES, columns, 4)[..., first : first + self.scaling.vectors]
        codes = parts.transpose(0, 2, 1, 3).reshape(len(parts), -1, self.scaling.vectors)
        return np.take(scale_values(self.scaling.type), codes)

    def _add_scaled(
        self,
        op: Op,
        number: int,
        slot: int,
        rows: list[F32],
        b: F32,
        a_scales: Scales,
        b_scales: Scales,
        where: Positions | None,
    ) -> None:
        product, machine = self.product, self.memory.machine
        words = self.memory.words(slot)
        for block, a in zip(tiles_of(product, len(self.slots)), rows, strict=True):
            wide = block.columns.stop - block.columns.start
            columns = slice(self.column, self.column + wide)
            if machine.hooks:
                op.detail = AccessDetail("d", number, block.rows.start, block.columns.start)
                if self.accumulate:
                    machine.hooks.op_tensor(op, slot, block.lanes, columns, False)
                machine.hooks.op_tensor(op, slot, block.lanes, columns, True)
            for first in range(0, len(a), _LANES):
                lane = block.lanes.start + first
                copy, some = lane // _LANES, slice(first, first + _LANES)
                left = _scaled(a[some], a_scales[copy, some])
                right = _scaled(b[block.columns], b_scales[copy, :wide])
                d = words[lane : lane + _LANES, columns].view(np.float32)
                if where is None:
                    total = left @ right.T
                else:
                    of_rows = chosen_rows(right, where[block.rows][some])
                    total = (of_rows @ left[:, :, None])[..., 0]
                if self.accumulate:
                    total += d
                d[...] = canonical(total.astype(np.float32))


def _scaled(values: F32, scales: Scales) -> NDArray[np.float64]:
    """Return elements times the scale of their part of K."""
    return np.asarray(values * np.repeat(scales, values.shape[1] // scales.shape[1], axis=1))
