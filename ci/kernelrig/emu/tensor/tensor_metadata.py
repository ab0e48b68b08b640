"""Metadata of tcgen05.mma.sp: codes of A's rows in tensor memory (PTX ISA 9.7.16.10.8).

Of 8 and 4 bits row m has lane m, and K goes along two columns. Of 16 and 32 bits K goes along one
column, which the selector adds to the address: each 16 lanes have 16 rows, of row r % 8 the lower
half of words and of row r % 8 + 8 the upper, the first half of K in lanes 0 to 7. M is 128 a CTA.
As CUTLASS lays them out (tmem_e_frg); no GPU that runs it was asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.operations import Op
from kernelrig.emu.tensor.sparse_metadata import (
    Positions,
    Sparsity,
    bad_codes,
    codes_of_bytes,
    positions,
)
from kernelrig.emu.tensor.summation import F32
from kernelrig.emu.tensor.tensor_memory import TENSOR_LANES, TensorMemory


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where the metadata of a product start, and what they are about."""

    column: int
    sparsity: Sparsity

    @property
    def columns(self) -> slice:
        """The columns that are read."""
        if self.sparsity.bits >= 16:
            first = self.column + self.sparsity.selector
            return slice(first, first + 1)
        return slice(self.column, self.column + 2)

    def positions(self, memory: TensorMemory, op: Op, slot: int, a: F32) -> Positions:
        """Return the elements of K that those of A's rows are; report codes that no matrix has."""
        machine = memory.machine
        if machine.hooks:
            op.detail = None
            machine.hooks.op_tensor(op, slot, slice(0, TENSOR_LANES), self.columns, False)
        words = np.ascontiguousarray(memory.words(slot)[:, self.columns])
        codes = codes_of_words(words, self.sparsity)
        for one in bad_codes(codes[None], a[None], self.sparsity):
            text = f"{op.name}: {one.text}"
            machine.report_op(op, "descriptor", text, same=one.rule, context=one.context)
        return positions(codes, self.sparsity)


def codes_of_words(words: NDArray[np.uint32], sparsity: Sparsity) -> NDArray[np.uint8]:
    """Return codes (128, chunks) of the words in 128 lanes."""
    if sparsity.bits < 16:
        return codes_of_bytes(words.view(np.uint8))
    halves = words.view(np.uint16).reshape(8, 2, 8, 2)  # 16 rows, part of K, row, its half
    rows = np.ascontiguousarray(halves.transpose(0, 3, 2, 1)).view(np.uint8)
    return codes_of_bytes(rows.reshape(TENSOR_LANES, -1))
