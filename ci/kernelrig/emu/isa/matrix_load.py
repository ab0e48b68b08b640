"""ldmatrix and stmatrix: matrices between shared memory and a warp.

Of 8x8 matrices of 16-bit elements lane 8 m + r names row r, 16 bytes, of matrix m. Lane t holds
elements 2 (t % 4) and the next one of row t / 4 of each matrix in a register; with .trans, of
column t / 4. Bytes are always transposed. Of 16x16 (ldmatrix) lane 16 m + r names row r; lane t
holds those of rows 4 (t % 4) and the next three, of column t / 4 in one register, of column
8 + t / 4 in the next. Of 16x8 (stmatrix) a lane holds what it holds of the result of mma: rows
t / 4 and 8 + t / 4 of columns 2 (t % 4) and the next one; columns are the rows in memory. Which
lane has what follows from the layouts of CUTLASS's atoms (cute/atom/copy_traits_sm100.hpp).

ldmatrix unpacks rows of 16 elements of 4 and 6 bits, padded to 16 bytes, to bytes of which they are
the lower bits (fp4_shift_A in cute/atom/mma_traits_sm120.hpp). Of 8x16 a lane then holds what it
holds of 8x8 halves: four bytes of a row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._address_operands import bracketed
from kernelrig.emu.isa._forms import MEMORY_ON_H100, expect, partly, width
from kernelrig.emu.machine.addressing import locate
from kernelrig.emu.machine.instruction_table import Native, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.thread_memory import MemorySemantics
from kernelrig.emu.numerics.arrays import LANES, U8, U16, U32, Array, Mask
from kernelrig.emu.tensor.packed_elements import PACKED, ElementType, unpacked
from kernelrig.ptx import Instruction, Operand, Register, Vector

ROW_BYTES = 16
ROWS_EACH = 8
TALL = 16
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
    batch: WarpBatch, mask: Mask, address: Array, rows: int, how: tuple[str, str], *, write: bool
) -> tuple[Array, NDArray[np.bool_]]:
    """Return flat positions of the rows that the first lanes name, and which of them are no fault.

    `how` is the instruction's opcode and space.
    """
    what, space = how
    naming = batch.mask_of(mask) & (np.arange(LANES) < rows)
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
    return flat[:, :rows], right[:, :rows]


def _ldmatrix_of_bytes(i: Instruction) -> Step:
    count = _matrices(i)
    into, address = expect(i, 2)
    registers, how = _registers(i, into, 2 * count), _how(i)
    packed = _packed(i)
    if count == 4:
        raise Unsupported(f"{i.mnemonic}: 16x16 matrices are one or two")

    def run(batch: WarpBatch, mask: Mask, address: Array) -> tuple[Array, ...]:
        flat, right = _rows(batch, mask, address, count * TALL, how, write=False)
        held = batch.machine.memory.shared.bytes[flat[..., None] + np.arange(ROW_BYTES)]
        held = np.where(right[..., None], held, U8.type(0))
        held = held if packed is None else unpacked(held, packed)
        columns = held.reshape(batch.size, count, TALL, ROW_BYTES).swapaxes(2, 3)
        words = np.ascontiguousarray(columns).view(U32).reshape(batch.size, 2 * count, LANES)
        return tuple(words[:, n] for n in range(2 * count))

    writes = tuple((register, U32) for register in registers)
    return Step(run, (bracketed(i, address),), writes, effect=True, collective="warp")


def _packed(i: Instruction) -> ElementType | None:
    """Return the type of elements that are unpacked; None of bytes."""
    return next((PACKED[name] for name in _PACKED.split() if name in i.flags), None)


def _ldmatrix_unpacked(i: Instruction) -> Step:
    """Of 8x16 elements under a byte."""
    count = _matrices(i)
    into, address = expect(i, 2)
    registers, how, packed = _registers(i, into, count), _how(i), _packed(i)
    if packed is None:
        raise Unsupported(f"{i.mnemonic} needs one of .{_PACKED.replace(' ', ', .')}")

    def run(batch: WarpBatch, mask: Mask, address: Array) -> Array | tuple[Array, ...]:
        flat, right = _rows(batch, mask, address, count * ROWS_EACH, how, write=False)
        held = batch.machine.memory.shared.bytes[flat[..., None] + np.arange(ROW_BYTES)]
        held = np.where(right[..., None], held, U8.type(0))
        words = unpacked(held, packed).view(U32).reshape(batch.size, count, LANES)
        return words[:, 0] if count == 1 else tuple(words[:, n] for n in range(count))

    writes = tuple((register, U32) for register in registers)
    return Step(run, (bracketed(i, address),), writes, effect=True, collective="warp")


def _stmatrix_of_bytes(i: Instruction) -> Step:
    count = _matrices(i)
    address, values = expect(i, 2)
    registers, how = _registers(i, values, count), _how(i)

    def run(batch: WarpBatch, mask: Mask, address: Array, *held: Array) -> None:
        flat, right = _rows(batch, mask, address, count * ROWS_EACH, how, write=True)
        words = np.stack([np.broadcast_to(h, (batch.size, LANES)) for h in held], axis=1)
        parts = words.view(U8).reshape(batch.size, count, 8, 4, 2, 2)  # t / 4, t % 4, half, byte
        stored = parts.transpose(0, 1, 3, 5, 4, 2).reshape(batch.size, count * ROWS_EACH, ROW_BYTES)
        where = (flat[..., None] + np.arange(ROW_BYTES))[right]
        batch.machine.memory.shared.scatter(where, (stored[right],), None)

    reads = (bracketed(i, address), *((register, U32) for register in registers))
    return Step(run, reads, effect=True, collective="warp")


def _ldmatrix(i: Instruction) -> Step:
    count = _matrices(i)
    into, address = expect(i, 2)
    registers = _registers(i, into, count)
    transposed, how = "trans" in i.flags, _how(i)

    def run(batch: WarpBatch, mask: Mask, address: Array) -> Array | tuple[Array, ...]:
        flat, right = _rows(batch, mask, address, count * ROWS_EACH, how, write=False)
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
        flat, right = _rows(batch, mask, address, count * ROWS_EACH, how, write=True)
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


_SHARED = "x1 x2 x4 shared shared::cta"
_TAKES = f"{_SHARED} trans"
_PACKED = "b4x16_p64 b6x16_p32"

_TRIED = {
    "ldmatrix.aligned.b16.m8n8.sync": "x1 x2 x4 trans shared",
    "stmatrix.aligned.b16.m8n8.sync": "x1 x2 x4 trans shared",
}
ROWS: tuple[Row, ...] = partly(
    (
        row("ldmatrix", _ldmatrix, needs="sync aligned m8n8 b16", takes=_TAKES),
        row("stmatrix", _stmatrix, needs="sync aligned m8n8 b16", takes=_TAKES),
        row("ldmatrix", _ldmatrix_of_bytes, needs="sync aligned m16n16 trans b8", takes=_SHARED),
        *(
            row("ldmatrix", make, needs=f"sync aligned {shape} b8x16 {name}", takes=_SHARED)
            for name in _PACKED.split()
            for shape, make in (("m8n16", _ldmatrix_unpacked), ("m16n16 trans", _ldmatrix_of_bytes))
        ),
        row("stmatrix", _stmatrix_of_bytes, needs="sync aligned m16n8 trans b8", takes=_SHARED),
    ),
    MEMORY_ON_H100,
    _TRIED,
)
