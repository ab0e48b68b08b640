"""suld, sust and sured: surfaces read and written by the byte of a row (PTX ISA 9.7.11)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._address_operands import source, target
from kernelrig.emu.isa._forms import expect, flat, read
from kernelrig.emu.isa._texture_object import SURFACE, TextureObject, layer, objects
from kernelrig.emu.machine.instruction_table import Native, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.thread_memory import MemorySemantics, load, store, vector_length
from kernelrig.emu.numerics.arrays import I32, U32, U64, UNSIGNED, Array, Mask
from kernelrig.ptx import Instruction, Operand, TensorAddress, Vector

_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2}
_MODES = ("trap", "clamp", "zero")
_GLOBAL = MemorySemantics("global")


class _Access:
    def __init__(self, i: Instruction, at: Operand, value: Operand) -> None:
        self.geometry = next((g for g in _DIMENSIONS if g in i.flags), "")
        self.mode = next((m for m in _MODES if m in i.flags), "trap")
        bits = next((b for b in (8, 16, 32, 64) if f"b{b}" in i.flags), 0)
        if not self.geometry or not bits:
            raise Unsupported(f"{i.mnemonic}: a geometry and a type are needed")
        if not isinstance(at, TensorAddress) or len(at.items) != 2:
            raise Unsupported(f"{i.mnemonic}: only surface objects are supported")
        handle, coordinates = at.items
        self.dtype, self.count = UNSIGNED[bits // 8], vector_length(i)
        self.items = flat(value)
        self.layered = self.geometry.startswith("a")
        self.dimensions = _DIMENSIONS[self.geometry]
        needed = self.dimensions + self.layered
        if not isinstance(coordinates, Vector) or len(self.items) != self.count:
            raise Unsupported(f"{i.mnemonic}: coordinates and {self.count} values are wanted")
        if len(coordinates.items) < needed:
            raise Unsupported(f"{i.mnemonic}: {needed} coordinates are needed")
        of = coordinates.items[:needed]
        types = [U32, *[I32] * self.dimensions] if self.layered else [I32] * self.dimensions
        self.reads = (read(handle, U64), *(read(o, t) for o, t in zip(of, types, strict=True)))

    def native(self, name: str) -> Native:
        form = f"{name}.{8 * self.dtype.itemsize}x{self.count}"
        return Native(form, (self.dimensions, self.layered, _MODES.index(self.mode)))

    @property
    def size(self) -> int:
        return self.dtype.itemsize * self.count

    def place(
        self,
        batch: WarpBatch,
        lanes: NDArray[np.bool_],
        of: TextureObject,
        at: tuple[Array, ...],
        what: str,
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return addresses, and the lanes that may go there."""
        index = [np.broadcast_to(one, lanes.shape).astype(np.int64) for one in at]
        slices = layer(of, index.pop(0)) if self.layered else np.zeros(lanes.shape, np.int64)
        limits = (of.width * of.element_bytes - self.size + 1, *of.extents[1:])
        inside = lanes.copy()
        kept = []
        for one, limit in zip(index, limits, strict=False):
            if self.mode != "clamp":
                inside &= (one >= 0) & (one < limit)
            kept.append(np.clip(one, 0, limit - 1))
        if self.mode == "trap" and (lanes & ~inside).any():
            first = [int(one[lanes & ~inside][0]) for one in index]
            text = (
                f"{what} of {self.size} bytes at {first} of a surface of {of.width} x {of.height}"
                f" x {of.depth} elements of {of.element_bytes} bytes: x counts bytes"
            )
            batch.report("out-of-bounds", text, lanes & ~inside)
        x, y, z = [*kept, *[np.zeros(lanes.shape, np.int64)] * 2][:3]
        return of.places(x, y, z if of.depth else slices, 1), inside


def _suld(i: Instruction) -> Step:
    into, at = expect(i, 2)
    access = _Access(i, at, into)

    def run(batch: WarpBatch, mask: Mask, handle: Array, *at: Array) -> Array | tuple[Array, ...]:
        shape = batch.mask_of(mask).shape
        found = [np.zeros(shape, access.dtype) for _ in range(access.count)]
        for one, lanes in objects(batch, mask, handle, SURFACE):
            place, inside = access.place(batch, lanes, one, at, "suld")
            if not inside.any():
                continue
            values = load(
                batch, inside, place, access.dtype.itemsize, access.count, _GLOBAL, "suld"
            )
            for into, value in zip(found, values, strict=True):
                into[inside] = np.broadcast_to(value, shape)[inside]
        return found[0] if len(found) == 1 else tuple(found)

    writes = tuple(target(i, item, access.dtype) for item in access.items)
    return Step(run, access.reads, writes, effect=True, native=access.native("suld"))


def _sust(i: Instruction) -> Step:
    at, value = expect(i, 2)
    access = _Access(i, at, value)
    given = len(access.reads) - 1

    def run(batch: WarpBatch, mask: Mask, handle: Array, *rest: Array) -> None:
        at, values = rest[:given], rest[given:]
        for one, lanes in objects(batch, mask, handle, SURFACE):
            place, inside = access.place(batch, lanes, one, at, "sust")
            if inside.any():
                store(batch, inside, place, values, _GLOBAL, "sust")

    sources = tuple(source(i, item, access.dtype) for item in access.items)
    return Step(run, (*access.reads, *sources), effect=True, native=access.native("sust"))


_TAKES = f"{' '.join(_DIMENSIONS)} v2 v4 b8 b16 b32 b64 {' '.join(_MODES)} ca cg cs cv wb wt"
ROWS = (
    row("suld", _suld, needs="b", takes=_TAKES),
    row("sust", _sust, needs="b", takes=_TAKES),
)
