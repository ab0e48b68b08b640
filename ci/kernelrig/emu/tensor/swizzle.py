"""Swizzles: how the bytes of a tile in shared memory change places. PTX ISA 5.5.7, 9.7.16.3.

Within 128 bytes, by the bits of their absolute address: tensor copies, wgmma and tcgen05 alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import Array

CHUNK = 16  # bytes that every swizzle but one keeps as they are
LINE = 128  # bytes whose chunks a swizzle permutes alike

_Address = TypeVar("_Address", int, NDArray[np.int64])


@dataclass(frozen=True, slots=True)
class Swizzle:
    """`span` bytes of the fast dimension lie side by side; `atom` bytes stay together.

    With `flips`, the two halves of each 16 bytes change places in every second 128 bytes. cuda.h
    says every alternate row, and not which: the odd ones here, as the permutation begins there.
    """

    name: str
    span: int
    atom: int = CHUNK
    flips: bool = False

    @property
    def width(self) -> int:
        """Bytes of a row of a box under it; 0 where rows have their own."""
        return self.span if self.span > CHUNK else 0

    @property
    def period(self) -> int:
        """Bytes behind which its pattern repeats; 0 for none."""
        return LINE * self.width // self.atom

    @property
    def number(self) -> int:
        """What observers call it."""
        return self.span | self.atom << 8 | self.flips << 16

    def apply(self, address: _Address) -> _Address:
        """Return where the bytes of a linear address are; of whole chunks under one that flips."""
        return address ^ (address >> 8 - self.atom.bit_length() & (self.span - self.atom))


NONE = Swizzle("none", CHUNK)
SWIZZLE_32B, SWIZZLE_64B = Swizzle("32B", 32), Swizzle("64B", 64)
SWIZZLE_128B = Swizzle("128B", 128)
SWIZZLE_128B_ATOM_32B = Swizzle("128B_ATOM_32B", 128, 32)
SWIZZLE_128B_ATOM_32B_FLIP_8B = Swizzle("128B_ATOM_32B_FLIP_8B", 128, 32, flips=True)
SWIZZLE_128B_ATOM_64B = Swizzle("128B_ATOM_64B", 128, 64)

SWIZZLES: dict[str, Swizzle] = {
    one.name: one
    for one in (
        NONE, SWIZZLE_32B, SWIZZLE_64B, SWIZZLE_128B, SWIZZLE_128B_ATOM_32B,
        SWIZZLE_128B_ATOM_32B_FLIP_8B, SWIZZLE_128B_ATOM_64B,
    )
}  # fmt: skip
"""Those of tensor maps; the place of a name is its number in cuda.h."""


@lru_cache(maxsize=1024)
def order_of(swizzle: Swizzle, start: int, size: int, row: int = 0) -> Array | None:
    """Return where each chunk of `size` bytes from `start` goes, in chunks from byte 0 of the
    swizzle's pattern; None where they stay in their order.

    `start` is a shared address modulo 1024, a multiple of 16: the pattern is of absolute addresses.
    Rows of `row` bytes, if given, lie as far apart as the swizzle is wide.
    """
    if swizzle is NONE:
        return None
    offset = np.arange(0, size, CHUNK, dtype=np.int64)
    if row:
        offset += offset // row * (swizzle.width - row)
    return np.asarray(swizzle.apply(start + offset) // CHUNK, np.intp)


def flipped(box: NDArray[np.uint8], order: Array) -> NDArray[np.uint8]:
    """Return the chunks of a box, those that go to odd lines with their halves exchanged."""
    halves = box.view(np.uint64).reshape(-1, 2)
    odd = order * CHUNK // LINE % 2 == 1
    return np.where(odd[:, None], halves[:, ::-1], halves).reshape(-1).view(np.uint8)
