"""ldmatrix and stmatrix: 8x8 matrices of 16-bit elements between shared memory and a warp.

Lane 8 m + r names row r, 16 bytes, of matrix m. Lane t holds elements 2 (t % 4) and the next one
of row t / 4 of each matrix in a register; with .trans, of column t / 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._address_operands import bracketed
from kernelrig.emu.isa._forms import MEMORY_ON_H200, expect, partly, width
from kernelrig.emu.machine.addressing import locate
from kernelrig.emu.machine.instruction_table import Native, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.thread_memory import MemorySemantics
from kernelrig.emu.numerics.arrays import LANES, U16, U32, Array, Mask
from kernelrig.ptx import Instruction, Operand, Register, Vector

ROW_BYTES = 16
ROWS_EACH = 8
_ELEMENT = np.arange(ROW_BYTES // 2) * 2


def _matrices(i: Instruction) -> int:
    counts = [n for n in (1, 2, 4) if f"x{n}" in i.flags]
    if len(counts) != 1:
        raise Unsupported(f"{i.mnemonic}: one of .x1, .x2, .x4 is needed")
    return counts[0]


def _registers(i: Instruction, operand: Operand, count: int) -> tuple[Register, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    registers = tuple(item for item in items if isinstance(item, Register))
    if len(items) != count or len(registers) != count or any(width(r) != 4 for r in registers):
        raise Unsupported(f"{i.mnemonic}: {operand} is not {count} registers of 32 bits")
    return registers


def _how(i: Instruction) -> tuple[str, str]:
    return i.opcode, "shared" if i.flags & {"shared", "shared::cta"} else "generic"


def _native(how: tuple[str, str], count: int, transposed: bool) -> Native:
    what, space = how
    return Native(f"{what}.x{count}", (MemorySemantics(space).numbers[0], transposed))


def _rows(
    batch: WarpBatch, mask: Mask, address: Array, count: int, how: tuple[str, str], *, write: bool
) -> tuple[Array, NDArray[np.bool_]]:
    """Return flat positions of the rows, (n, 8 count), and which of them are no fault.

    `how` is the instruction's opcode and space.
    """
    what, space = how
    naming = batch.mask_of(mask) & (np.arange(LANES) < count * ROWS_EACH)
    flat = np.zeros((batch.size, LANES), np.int64)
    right = np.zeros((batch.size, LANES), np.bool_)
    for place in locate(batch, naming, address, ROW_BYTES, space, what, write=write):
        if place.space != "shared":
            batch.report("out-of-bounds", f"{what} is of shared memory, not {place.space}", naming)
            continue
        lanes = batch.mask_of(place.mask)
        if batch.machine.hooks:
            batch.machine.hooks.accessed(batch, lanes, "shared", place.flat, ROW_BYTES, write)
        flat = np.where(lanes, place.flat, flat)
        right |= lanes
    rows = count * ROWS_EACH
    return flat[:, :rows], right[:, :rows]


def _ldmatrix(i: Instruction) -> Step:
    count = _matrices(i)
    into, address = expect(i, 2)
    registers = _registers(i, into, count)
    transposed, how = "trans" in i.flags, _how(i)

    def run(batch: WarpBatch, mask: Mask, address: Array) -> Array | tuple[Array, ...]:
        flat, right = _rows(batch, mask, address, count, how, write=False)
        halves = batch.machine.memory.shared.bytes.view(U16)
        elements = halves[(flat[..., None] + _ELEMENT) // 2]
        elements = np.where(right[..., None], elements, U16.type(0))
        matrices = elements.reshape(batch.size, count, ROWS_EACH, ROWS_EACH)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        words = np.ascontiguousarray(matrices).view(U32).reshape(batch.size, count, LANES)
        return words[:, 0] if count == 1 else tuple(words[:, m] for m in range(count))

    writes = tuple((register, U32) for register in registers)
    reads = (bracketed(i, address),)
    native = _native(how, count, transposed)
    return Step(run, reads, writes, effect=True, collective="warp", native=native)


def _stmatrix(i: Instruction) -> Step:
    count = _matrices(i)
    address, values = expect(i, 2)
    registers = _registers(i, values, count)
    transposed, how = "trans" in i.flags, _how(i)

    def run(batch: WarpBatch, mask: Mask, address: Array, *held: Array) -> None:
        flat, right = _rows(batch, mask, address, count, how, write=True)
        words = np.stack([np.broadcast_to(h, (batch.size, LANES)) for h in held], axis=1)
        matrices = words.view(U16).reshape(batch.size, count, ROWS_EACH, ROWS_EACH)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        elements = matrices.reshape(batch.size, count * ROWS_EACH, ROWS_EACH)
        where = (flat[..., None] + _ELEMENT)[right]
        batch.machine.memory.shared.scatter(where, (elements[right],), None)

    reads = (bracketed(i, address), *((register, U32) for register in registers))
    native = _native(how, count, transposed)
    return Step(run, reads, effect=True, collective="warp", native=native)


_TAKES = "x1 x2 x4 trans shared shared::cta"

_TRIED = {
    "ldmatrix.aligned.b16.m8n8.sync": "x1 x2 x4 trans shared",
    "stmatrix.aligned.b16.m8n8.sync": "x1 x2 x4 trans shared",
}
ROWS: tuple[Row, ...] = partly(
    (
        row("ldmatrix", _ldmatrix, needs="sync aligned m8n8 b16", takes=_TAKES),
        row("stmatrix", _stmatrix, needs="sync aligned m8n8 b16", takes=_TAKES),
    ),
    MEMORY_ON_H200,
    _TRIED,
)
