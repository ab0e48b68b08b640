"""Four rows of a tensor of two dimensions, copied as one box: .tile::gather4 and .tile::scatter4.

Their map has boxes of one row; in shared memory the four lie as a box of that width, 4 high, with
the map's swizzle. PTX ISA 5.5.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernelrig.emu.isa._tensor_box import Box, box_of
from kernelrig.emu.machine.bulk_copy import Bytes, Issuer
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.numerics.read_modify_write import Combine
from kernelrig.emu.tensor.tensor_map import TensorMap

ROWS_COPIED = 4


class FourRows:
    """The box of four rows, each where its own coordinate says."""

    __slots__ = ("map", "parts")

    def __init__(self, parts: list[Box]) -> None:
        one: TensorMap = parts[0].map
        self.map = replace(one, box=(one.box[0], ROWS_COPIED), element_strides=(1, 1))
        self.parts = parts

    @property
    def size(self) -> int:
        return self.map.box_bytes

    @property
    def is_whole(self) -> bool:
        return all(part.is_whole for part in self.parts)

    def inside(self) -> Bytes:
        return np.concatenate([part.inside() for part in self.parts])

    def load(self, op: Op) -> Bytes:
        return np.concatenate([part.load(op) for part in self.parts])

    def store(self, op: Op, box: Bytes, combine: Combine | None) -> None:
        for part, row in zip(self.parts, box.reshape(ROWS_COPIED, -1), strict=True):
            part.store(op, row, combine)


def four_rows(
    issuer: Issuer, address: Array, coordinates: tuple[Array, ...], *, write: bool
) -> FourRows | None:
    """Read the tensor map of a column and four rows; None where it was reported at fault."""
    column, *rows = coordinates
    parts: list[Box] = []
    for row in rows:
        part = box_of(issuer, address, (column, row), write)
        if part is None:
            return None
        parts.append(part)
    high = parts[0].map.box[1]
    if high != 1:
        text = f"a tensor map with boxes of {high} rows in a copy of four rows: encode one of 1"
        issuer.report("descriptor", text, "rows")
        return None
    return FourRows(parts)
