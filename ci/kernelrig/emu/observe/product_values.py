"""What follows from operands of a product that hold something nothing wrote.

A row of D follows from the same row of A, a column from the same column of B: the others are right
whatever stands there. So tiles may have a tail that nobody writes, and results that nobody takes.
An operation reads its operands some time before it writes D; of wgmma, D are registers, and are
marked at once: until the wait nobody reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.operations import AccessDetail, Op
from kernelrig.emu.numerics.arrays import LANES
from kernelrig.emu.observe.value_flow import bits_of
from kernelrig.emu.observe.value_origin import Hold, Origin
from kernelrig.emu.tensor.accumulator import WARP_ROWS

Lines = NDArray[np.bool_]


@dataclass(slots=True)
class _Operands:
    """Of a product in flight: by CTA of the pair, the rows and columns that are not to be used.

    `carried` are origins of the words of D that it adds to.
    """

    origin: Origin | None = None
    rows: dict[int, Lines] = field(default_factory=dict)
    columns: dict[int, Lines] = field(default_factory=dict)
    carried: NDArray[np.int32] | None = None


class ProductValues:
    """Such operands, until their product has written D."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._of: dict[int, _Operands] = {}

    def operand(self, op: Op, detail: AccessDetail, missing: Lines, origin: Origin) -> None:
        """See an operand in shared memory: `missing` are the bytes of its units, (units, 16)."""
        if not detail.mn_major:
            lines: Lines = np.any(missing.reshape(-1, detail.k_bytes), axis=1)
        else:
            k = detail.k_bytes // detail.element_bytes
            lines = np.any(missing.reshape(k, -1, detail.element_bytes), axis=(0, 2))
        if op.name.startswith("wgmma"):
            self._of_warpgroup(op, detail, lines, origin)
            return
        of = self._operands(op, origin)
        (of.rows if detail.what == "a" else of.columns)[detail.number] = lines

    def rows_of_words(self, op: Op, detail: AccessDetail, missing: Lines, origin: Origin) -> None:
        """See A in tensor memory: `missing` are words, by lane."""
        of = self._operands(op, origin)
        rows = of.rows.setdefault(detail.number, np.zeros(256, np.bool_))
        rows[detail.row : detail.row + len(missing)] |= missing.any(axis=1)

    def adds_to(self, op: Op, numbers: NDArray[np.int32]) -> None:
        """See words of D that are not to be used: by origin, 0 for the others."""
        self._operands(op, None).carried = numbers

    def written(self, op: Op, detail: AccessDetail, shape: tuple[int, int]) -> NDArray[np.int32]:
        """Return the origins of the words of D that the product writes, 0 for the others."""
        of = self._of.get(_key(op))
        if of is None:
            return np.zeros(shape, np.int32)
        numbers = np.zeros(shape, np.int32)
        if of.origin is not None:
            rows, columns = np.zeros(shape[0], np.bool_), np.zeros(shape[1], np.bool_)
            if (known := of.rows.get(detail.number)) is not None:
                rows = known[detail.row : detail.row + shape[0]]
            if of.columns:
                each = len(next(iter(of.columns.values())))
                every = np.zeros(2 * each, np.bool_)
                for number, some in of.columns.items():
                    every[number * each : number * each + each] = some
                columns = every[detail.column : detail.column + shape[1]]
            numbers[rows[:, None] | columns[None, :]] = of.origin.number
        if of.carried is not None:
            numbers = np.where(of.carried > 0, of.carried, numbers)
            of.carried = None
        return numbers

    def forget(self, op: Op) -> None:
        self._of.pop(_key(op), None)

    def _operands(self, op: Op, origin: Origin | None) -> _Operands:
        of = self._of.setdefault(_key(op), _Operands())
        of.origin = of.origin or origin
        return of

    def _of_warpgroup(self, op: Op, detail: AccessDetail, lines: Lines, origin: Origin) -> None:
        program = op.machine.program
        registers = [r.index for r, _ in program.codegen.steps[op.at].writes]
        half = "f16" in op.name.split(".")[3]
        lane = np.arange(LANES)
        for place, warp in enumerate(detail.warps):
            for number, register in enumerate(registers):
                pair = number if half else number // 2
                if detail.what == "a":
                    row = WARP_ROWS * place + lane // 4 + 8 * (pair & 1)
                    lanes = lines[row]
                else:
                    column = 8 * (pair >> 1) + 2 * (lane % 4)
                    lanes = (
                        lines[column] | lines[column + 1] if half else lines[column + (number & 1)]
                    )
                if lanes.any():
                    self._hold(warp, register, bits_of(lanes[None])[0], origin)


def _key(op: Op) -> int:
    return op.number if op.number >= 0 else id(op)
