"""tcgen05.cp: rows of shared memory to lanes of tensor memory, some of them several times.

PTX ISA 9.7.16.9. It is an operation of its thread's pipeline: what is issued behind it in the same
CTA group, an mma or a commit, comes behind it. With cta_group::2 each CTA of the pair copies out of
its own shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._forms import expect, read
from kernelrig.emu.isa._tensor_operands import (
    Wrong,
    check_span,
    cta_group_of,
    issuing,
    slots_of,
)
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.numerics.arrays import I64, U64, Array
from kernelrig.emu.tensor.formats import U8
from kernelrig.emu.tensor.operand_layout import (
    PATTERN,
    UNIT,
    Descriptor,
    pattern,
    sm100_descriptor,
)
from kernelrig.emu.tensor.tensor_memory import (
    COLUMN_MASK,
    COLUMNS,
    LANE_SHIFT,
    TENSOR_LANES,
    TensorMemory,
)
from kernelrig.ptx import Address, Instruction

_COLUMNS_A_UNIT = UNIT // 4


@dataclass(frozen=True, slots=True)
class _Shape:
    """`rows` of `units` of 16 bytes; `places` are (first row, rows, first lane)."""

    rows: int
    units: int
    places: tuple[tuple[int, int, int], ...]


_SHAPES: dict[tuple[str, str], _Shape] = {
    ("128x256b", ""): _Shape(128, 2, ((0, 128, 0),)),
    ("128x128b", ""): _Shape(128, 1, ((0, 128, 0),)),
    ("4x256b", ""): _Shape(4, 2, tuple((n, 1, 32 * n) for n in range(4))),
    ("64x128b", "warpx2::02_13"): _Shape(64, 1, ((0, 64, 0), (0, 64, 64))),
    ("64x128b", "warpx2::01_23"): _Shape(
        64, 1, ((0, 32, 0), (0, 32, 32), (32, 32, 64), (32, 32, 96))
    ),
    ("32x128b", "warpx4"): _Shape(32, 1, tuple((0, 32, 32 * n) for n in range(4))),
}
_COPIES = ("warpx2::02_13", "warpx2::01_23", "warpx4")


@dataclass(frozen=True, slots=True)
class _Copy:
    """The operation: reads shared memory, then writes tensor memory."""

    memory: TensorMemory
    shape: _Shape
    slots: tuple[int, ...]
    units: NDArray[np.intp]  # (rows, units), from the CTA's first byte
    lane: int
    column: int

    def __call__(self, op: Op) -> Iterator[None]:
        machine, shape = self.memory.machine, self.shape
        held = []
        for slot in self.slots:
            units = self.units + slot * SLOT_BYTES // UNIT
            if machine.hooks:
                machine.hooks.op_accessed(op, "shared", units.reshape(-1) * UNIT, UNIT, False)
            found = np.take(machine.memory.shared.bytes.view(np.complex128), units, mode="clip")
            held.append(found.view(np.uint32))
        op.read = True
        yield
        columns = slice(self.column, self.column + shape.units * _COLUMNS_A_UNIT)
        for slot, words in zip(self.slots, held, strict=True):
            wrong = self.memory.fault(slot, columns.start, columns.stop - columns.start)
            if wrong:
                machine.report_op(op, "tmem", f"{op.name} to {wrong}")
                return
            for first, count, lane in shape.places:
                lanes = slice(self.lane + lane, self.lane + lane + count)
                if machine.hooks:
                    machine.hooks.op_tensor(op, slot, lanes, columns, True)
                self.memory.words(slot)[lanes, columns] = words[first : first + count]


def _shape(i: Instruction) -> _Shape:
    sizes = [size for size, _ in _SHAPES if size in i.flags]
    copies = [c for c in _COPIES if c in i.flags]
    found = _SHAPES.get((sizes[0] if sizes else "", copies[0] if copies else ""))
    if found is None or len(set(sizes)) > 1 or len(copies) > 1:
        allowed = ", ".join(".".join(filter(None, ("", *key))) for key in _SHAPES)
        raise Unsupported(f"{i.mnemonic} needs one of {allowed}")
    return found


def _units(bits: int, shape: _Shape) -> tuple[Descriptor, NDArray[np.intp]]:
    """Return the descriptor, and where the units lie in the CTA's shared memory."""
    d = sm100_descriptor(bits)
    found = pattern(d.leading, d.stride, d.swizzle, d.start % PATTERN, shape.rows, U8, False)
    return d, found.units[:, : shape.units] + d.start // PATTERN * (PATTERN // UNIT)


def _cp(i: Instruction) -> Step:
    group, shape = cta_group_of(i), _shape(i)
    to, source = expect(i, 2)
    if not isinstance(to, Address):
        raise Unsupported(f"{i.mnemonic} writes at an address of tensor memory, not {to}")

    def decoded(batch: WarpBatch, row_: int, one: Array, values: list[int]) -> _Copy:
        address, bits = values
        memory = batch.machine.part(TensorMemory)
        descriptor, units = _units(bits, shape)
        span = int(units.min()) * UNIT, (int(units.max()) + 1) * UNIT
        check_span(batch, "the source", shape.rows, descriptor, span)
        first, column = address >> LANE_SHIFT & 0xFFFF, address & COLUMN_MASK
        last = max(lane + count for _, count, lane in shape.places)
        if first + last > TENSOR_LANES:
            raise Wrong(
                "tmem",
                f"{address:#x} starts at lane {first}, and {last} lanes from there are more than"
                f" the {TENSOR_LANES} that there are",
            )
        if column + shape.units * _COLUMNS_A_UNIT > COLUMNS:
            raise Wrong("tmem", f"{address:#x} starts at column {column}: there are {COLUMNS}")
        slots = slots_of(batch, memory, int(batch.slot[row_, 0]), group)
        return _Copy(memory, shape, slots, units, first, column)

    issue = issuing(i.mnemonic, group, decoded)
    return Step(issue, ((to, I64), read(source, U64)), effect=True, stop=True)


_SIZES = " ".join(dict.fromkeys(size for size, _ in _SHAPES))
ROWS: tuple[Row, ...] = (
    row("tcgen05", _cp, "cp", f"cta_group::1 cta_group::2 {_SIZES} {' '.join(_COPIES)}"),
)
