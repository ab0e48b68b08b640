"""tex, tld4 and txq: reads through texture objects (PTX ISA 9.7.10).

Filtering is as the CUDA C++ Programming Guide has it (Texture Fetching): weights of 8 bits behind
the point. What the guide leaves open is one possibility here. Mipmaps are not there: a level is
always the only one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._forms import expect, flat, read, write
from kernelrig.emu.isa._texture_object import (
    BORDER,
    CLAMP,
    FLOAT_KIND,
    MIRROR,
    SIGNED_KIND,
    SURFACE,
    TEXTURE,
    WRAP,
    TextureObject,
    layer,
    objects,
)
from kernelrig.emu.machine.instruction_table import Native, Read, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.thread_memory import MemorySemantics, load
from kernelrig.emu.numerics.arrays import BOOL, F32, I32, U32, U64, UNSIGNED, Array, Mask
from kernelrig.ptx import Instruction, Pair, TensorAddress, Vector

_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 3, "acube": 3}
_TYPES = {"f32": F32, "s32": I32, "u32": U32}
_READ = MemorySemantics("global", non_coherent=True)
_WEIGHT = 256.0
_GATHERED = ((0, 1), (1, 1), (1, 0), (0, 0))
"""The corners of a tld4, in the order of its results."""
_CHANNELS = {"r": 0, "g": 1, "b": 2, "a": 3}


class _Fetch:
    """A tex or tld4: which geometry, and from which operands."""

    def __init__(self, i: Instruction) -> None:
        geometries = [g for g in _DIMENSIONS if g in i.flags]
        kinds = [q for q in i.qualifiers if q in _TYPES]
        if len(geometries) != 1 or len(kinds) != 2 or "v4" not in i.flags:
            raise Unsupported(f"{i.mnemonic}: a geometry, .v4 and two types are needed")
        self.geometry, self.result = geometries[0], _TYPES[kinds[0]]
        self.dimensions = _DIMENSIONS[self.geometry]
        self.layered = self.geometry.startswith("a")
        self.whole = kinds[1] == "s32"
        self.channel = next((n for q, n in _CHANNELS.items() if q in i.flags), 0)
        into, at = i.operands[:2]
        self.predicate = into.second if isinstance(into, Pair) else None
        self.into = into.first if isinstance(into, Pair) else into
        if not isinstance(at, TensorAddress) or len(at.items) != 2:
            raise Unsupported(f"{i.mnemonic}: only texture objects are supported: no sampler")
        handle, coordinates = at.items
        if not isinstance(coordinates, Vector) or not isinstance(self.into, Vector):
            raise Unsupported(f"{i.mnemonic}: coordinates and results are vectors")
        needed = self.dimensions + self.layered
        items = coordinates.items[:needed]
        if len(items) != needed:
            raise Unsupported(f"{i.mnemonic}: {needed} coordinates are needed")
        kind = I32 if self.whole else F32
        types = [U32, *[kind] * self.dimensions] if self.layered else [kind] * self.dimensions
        reads = (read(o, t) for o, t in zip(items, types, strict=True))
        self.reads: tuple[Read, ...] = (read(handle, U64), *reads)
        results = flat(self.into)
        self.writes = tuple(write(o, self.result) for o in results)
        if self.predicate is not None:
            self.writes += (write(self.predicate, BOOL),)

    def step(self, *, gathers: bool = False) -> Step:
        def run(batch: WarpBatch, mask: Mask, handle: Array, *at: Array) -> tuple[Array, ...]:
            shape = batch.mask_of(mask).shape
            found = [np.zeros(shape, self.result) for _ in range(4)]
            for texture, lanes in objects(batch, mask, handle, TEXTURE):
                for into, value in zip(
                    found, self._fetched(batch, lanes, texture, at, gathers), strict=True
                ):
                    into[lanes] = value[lanes]
            resident = () if self.predicate is None else (np.ones(shape, BOOL),)
            return (*found, *resident)

        native = None
        if not gathers and "cube" not in self.geometry:
            native = Native("tex", (self.dimensions, self.layered, self.whole))
        return Step(run, self.reads, self.writes, effect=True, native=native)

    def _fetched(
        self,
        batch: WarpBatch,
        lanes: NDArray[np.bool_],
        of: TextureObject,
        at: tuple[Array, ...],
        gathers: bool,
    ) -> list[Array]:
        at = tuple(np.broadcast_to(one, lanes.shape) for one in at)
        slices = np.zeros(lanes.shape, np.int64)
        if self.layered:
            slices, at = at[0].astype(np.int64), at[1:]
        if "cube" in self.geometry:
            face, at = _face(at)
            slices = slices * 6 + face
        slices = layer(of, slices)
        filtered = (of.filtered or gathers) and not self.whole
        axes = [self._axis(of, axis, where, filtered=filtered) for axis, where in enumerate(at)]
        if not filtered:
            corner = tuple(low for low, _ in axes)
            return _converted(of, _texel(batch, lanes, of, corner, slices), self.result)
        corners = {}
        for which in _GATHERED if gathers else itertools.product((0, 1), repeat=len(axes)):
            corner = tuple(low + bit for (low, _), bit in zip(axes, which, strict=True))
            corners[which] = _texel(batch, lanes, of, corner, slices)
        if gathers:
            return [_converted(of, corners[c], self.result)[self.channel] for c in _GATHERED]
        sums = [np.zeros(lanes.shape) for _ in range(4)]
        for which, texel in corners.items():
            weight = np.ones(lanes.shape)
            for bit, (_, part) in zip(which, axes, strict=True):
                weight = weight * (part if bit else 1 - part)
            for total, value in zip(sums, _numbers(of, texel), strict=True):
                total += weight * value
        return [_as(total.astype(F32), self.result) for total in sums]

    def _axis(
        self, of: TextureObject, axis: int, where: Array, *, filtered: bool
    ) -> tuple[Array, Array]:
        """Return the lower element along an axis, and the weight of the one above it."""
        if self.whole:
            return where.astype(np.int64), np.zeros(where.shape)
        normalized = of.normalized or "cube" in self.geometry
        x = where * F32.type(of.extents[axis]) if normalized else where
        x = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e9, neginf=-1e9)
        x = np.clip(x, -1e9, 1e9)
        if not filtered:
            return np.floor(x).astype(np.int64), np.zeros(where.shape)
        x = np.floor((x - 0.5) * _WEIGHT + 0.5) / _WEIGHT
        low = np.floor(x)
        return low.astype(np.int64), x - low


def _face(at: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
    """Return the face of a cube that a direction hits, and where, from 0 to 1."""
    x, y, z = (np.asarray(one, np.float64) for one in at)
    sizes = [np.abs(one) for one in (x, y, z)]
    on_x = (sizes[0] >= sizes[1]) & (sizes[0] >= sizes[2])
    on_y = ~on_x & (sizes[1] >= sizes[2])
    cases = [on_x & (x >= 0), on_x, on_y & (y >= 0), on_y, z >= 0]
    face = np.select(cases, range(5), 5)
    s = np.choose(face, [-z, z, x, x, x, -x])
    t = np.choose(face, [-y, -y, z, -z, -y, -y])
    major = np.maximum(np.select([on_x, on_y], sizes[:2], sizes[2]), np.finfo(np.float32).tiny)
    inside = tuple(((one / major + 1) / 2).astype(F32) for one in (s, t))
    return face, inside


def _texel(
    batch: WarpBatch,
    lanes: NDArray[np.bool_],
    of: TextureObject,
    corner: tuple[Array, ...],
    slices: Array,
) -> tuple[list[Array], NDArray[np.bool_]]:
    """Return the bits of each channel, and which lanes are outside and read the border's colour."""
    outside = np.zeros(lanes.shape, np.bool_)
    places = []
    for axis, index in enumerate(corner):
        size, mode = of.extents[axis], of.modes[axis]
        if of.linear:
            mode = BORDER
        elif mode in (WRAP, MIRROR) and not of.normalized:
            mode = CLAMP
        if mode == WRAP:
            index = index % size
        elif mode == MIRROR:
            index = index % (2 * size)
            index = np.where(index < size, index, 2 * size - 1 - index)
        elif mode == BORDER:
            outside |= (index < 0) | (index >= size)
        places.append(np.clip(index, 0, size - 1))
    zero = np.zeros(lanes.shape, np.int64)
    x, y, z = [*places, zero, zero][:3]
    inside = lanes & ~outside
    if not inside.any():
        return [np.zeros(lanes.shape, UNSIGNED[of.bits // 8])] * of.channels, outside
    place = of.places(x, y, z if of.depth else slices, of.element_bytes)
    values = load(batch, inside, place, of.bits // 8, of.channels, _READ, "texture read")
    return [np.broadcast_to(v, lanes.shape) for v in values], outside


def _numbers(of: TextureObject, texel: tuple[list[Array], NDArray[np.bool_]]) -> list[Array]:
    """Return the four channels as numbers."""
    values, outside = texel
    found = []
    for number in range(4):
        if number >= of.channels:
            found.append(np.full(outside.shape, 1.0 if number == 3 else 0.0))
            continue
        bits = values[number]
        if of.kind == FLOAT_KIND:
            value = bits.view(np.float16 if of.bits == 16 else np.float32).astype(np.float64)
        else:
            value = _integers(of, bits).astype(np.float64)
            if of.as_float:
                signed = of.kind == SIGNED_KIND
                value = np.maximum(value / (2 ** (of.bits - signed) - 1), -1.0)
                if of.srgb and number < 3:
                    power = ((value + 0.055) / 1.055) ** 2.4
                    value = np.where(value <= 0.04045, value / 12.92, power)
        found.append(np.where(outside, 0.0 if of.linear else of.border[number], value))
    return found


def _integers(of: TextureObject, bits: Array) -> Array:
    return bits.view(f"i{of.bits // 8}") if of.kind == SIGNED_KIND else bits


def _converted(
    of: TextureObject, texel: tuple[list[Array], NDArray[np.bool_]], result: np.dtype[Any]
) -> list[Array]:
    """Return the four channels of one element as the instruction's type has them."""
    values, outside = texel
    if of.kind == FLOAT_KIND or of.as_float:
        return [_as(value.astype(F32), result) for value in _numbers(of, texel)]
    found = [_integers(of, bits).astype(I32 if of.kind == SIGNED_KIND else U32) for bits in values]
    found = [np.where(outside, 0, one).astype(one.dtype) for one in found]
    rest = [np.full(outside.shape, n == 3, U32) for n in range(of.channels, 4)]
    return [_as(one, result) for one in (*found, *rest)]


def _as(value: Array, result: np.dtype[Any]) -> Array:
    """Return the bits of a value as the type of the result: registers are 32 bits wide."""
    return np.ascontiguousarray(value).view(result)


def _tex(i: Instruction) -> Step:
    if len(i.operands) < 2:
        raise Unsupported(f"{i.mnemonic}: a result and an address are needed")
    rest = 1 if "level" in i.flags else 2 if "grad" in i.flags else 0
    expect(i, 2 + rest)  # an offset or a depth to compare with is one more
    return _Fetch(i).step()


def _tld4(i: Instruction) -> Step:
    expect(i, 2)
    return _Fetch(i).step(gathers=True)


def _txq(i: Instruction) -> Step:
    """What a texture, or a surface, is like."""
    into, at = expect(i, 2)
    magic = TEXTURE if i.opcode == "txq" else SURFACE
    asked = next(q for q in _ASKED if q in i.flags)
    base = getattr(at, "base", None)
    if base is None:
        raise Unsupported(f"{i.mnemonic}: the object stands in a register")

    def run(batch: WarpBatch, mask: Mask, handle: Array) -> Array:
        found = np.zeros(batch.mask_of(mask).shape, U32)
        for one, lanes in objects(batch, mask, handle, magic):
            found[lanes] = _ASKED[asked](one)
        return found

    return Step(run, (read(base, U64),), (write(into, U32),), effect=True)


_ASKED: dict[str, Callable[[TextureObject], int]] = {
    "width": lambda one: one.width,
    "height": lambda one: one.height,
    "depth": lambda one: one.depth,
    "array_size": lambda one: one.layers,
    "num_mipmap_levels": lambda one: 1,
    "num_samples": lambda one: 1,
    "normalized_coords": lambda one: int(one.normalized),
}
_GEOMETRIES = f"{' '.join(_DIMENSIONS)} v4 {' '.join(_TYPES)}"
ROWS = (
    row("tex", _tex, takes=f"{_GEOMETRIES} level grad base"),
    row("tld4", _tld4, takes=f"{_GEOMETRIES} r g b a"),
    *(row("txq", _txq, needs=f"{asked} b32") for asked in _ASKED),
    *(row("suq", _txq, needs=f"{asked} b32") for asked in _ASKED if "norm" not in asked),
)
