"""Texture and surface objects: what their handles point to, and where their elements are.

A handle is the address of 128 bytes that the host side wrote (cudart/library/textures.cpp).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.state_spaces import GLOBAL_BASE
from kernelrig.emu.numerics.arrays import Array, Mask

TEXTURE, SURFACE = 0x54584554, 0x46525553
SIGNED_KIND, _, FLOAT_KIND = range(3)  # of cudaChannelFormatKind
WRAP, CLAMP, MIRROR, BORDER = range(4)  # of cudaTextureAddressMode
_DESCRIPTION = struct.Struct("<IIQ8IQ7I4f28x")


@dataclass(frozen=True, slots=True)
class TextureObject:
    """What a handle names; extents of dimensions that it does not have are 0."""

    magic: int
    linear: bool
    address: int
    width: int
    height: int
    depth: int
    layers: int
    cube: bool
    channels: int
    bits: int
    kind: int
    pitch: int
    modes: tuple[int, int, int]
    filtered: bool
    normalized: bool
    as_float: bool
    srgb: bool
    border: tuple[float, float, float, float]

    @property
    def element_bytes(self) -> int:
        return self.channels * self.bits // 8

    @property
    def extents(self) -> tuple[int, int, int]:
        return self.width, max(self.height, 1), max(self.depth, 1)

    def places(self, x: Array, y: Array, z: Array, element_bytes: int) -> Array:
        """Return the addresses of elements, of `element_bytes` each; z is a slice, or a layer."""
        rows = max(self.height, 1)
        found: Array = self.address + (z * rows + y) * self.pitch + x * element_bytes
        return found


def _object(data: bytes) -> TextureObject:
    n = _DESCRIPTION.unpack(data)
    return TextureObject(
        magic=n[0],
        linear=bool(n[1]),
        address=n[2],
        width=n[3],
        height=n[4],
        depth=n[5],
        layers=n[6],
        cube=bool(n[7]),
        channels=n[8],
        bits=n[9],
        kind=n[10],
        pitch=n[11],
        modes=(n[12], n[13], n[14]),
        filtered=bool(n[15]),
        normalized=bool(n[16]),
        as_float=bool(n[17]),
        srgb=bool(n[18]),
        border=(n[19], n[20], n[21], n[22]),
    )


def objects(
    batch: WarpBatch, mask: Mask, handle: Array, magic: int
) -> Iterator[tuple[TextureObject, NDArray[np.bool_]]]:
    """Yield each object that some lanes name, with those lanes; what is none is reported."""
    chosen = batch.mask_of(mask)
    handles = np.broadcast_to(handle, chosen.shape)
    arena = batch.machine.memory.global_
    for number in np.unique(handles[chosen]).tolist():
        lanes = chosen & (handles == number)
        flat = number - GLOBAL_BASE
        home = arena.find(flat) if flat >= 0 else None
        found = None
        if home is not None and flat + _DESCRIPTION.size <= home.start + home.size:
            found = _object(arena.bytes[flat : flat + _DESCRIPTION.size].tobytes())
        if found is None or found.magic != magic:
            what = "texture" if magic == TEXTURE else "surface"
            text = f"{number:#x} is no {what} object, or one that was destroyed"
            batch.report("descriptor", text, lanes)
            continue
        yield found, lanes


def layer(of: TextureObject, index: Array) -> Array:
    """Return a layer's number, kept within those that there are."""
    return np.clip(index.astype(np.int64), 0, max(of.layers - 1, 0))
