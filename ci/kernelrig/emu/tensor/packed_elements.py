"""Elements under a byte in boxes of tensor maps: PTX ISA 5.5.1, sub-byte types.

In global memory they lie one behind the other. A load puts 16 of them at the start of each 16 bytes
of shared memory if the type is padded; a store of such a type takes one element of each byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.tensor.swizzle import CHUNK

PADDING = 0xA5
"""What a load leaves between padded elements, where PTX says that nothing does: no value that
anybody would rely on."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """`count` elements take `bytes`; `data` of each 16 bytes in shared memory are elements."""

    bytes: int
    count: int = 1
    data: int = CHUNK

    @property
    def is_packed(self) -> bool:
        return self.count > 1

    @property
    def is_padded(self) -> bool:
        return self.data < CHUNK


PACKED = {
    "b4x16": ElementType(1, 2),
    "b4x16_p64": ElementType(1, 2, 8),
    "b6x16_p32": ElementType(3, 4, 12),
}
"""By PTX's names; in cuda.h 16U4_ALIGN8B, 16U4_ALIGN16B and 16U6_ALIGN16B."""


def unpacked(rows: NDArray[np.uint8], of: ElementType) -> NDArray[np.uint8]:
    """Return 16 padded elements of each 16 bytes, (..., 16), as the lower bits of a byte each."""
    bits = 8 * of.bytes // of.count
    whole = np.zeros((*rows.shape[:-1], of.data + 1), np.uint16)
    whole[..., : of.data] = rows[..., : of.data]
    first, shift = _places(bits)
    found = (whole[..., first] | whole[..., first + 1] << 8) >> shift & (1 << bits) - 1
    return np.ascontiguousarray(found, np.uint8)


def of_elements(parts: NDArray[np.bool_], of: ElementType) -> NDArray[np.bool_]:
    """Say of each of 16 padded elements whether one of its bytes, (..., 16), is so."""
    bits = 8 * of.bytes // of.count
    first, shift = _places(bits)
    return parts[..., first] | parts[..., first + (shift + bits > 8)]


def _places(bits: int) -> tuple[NDArray[np.intp], NDArray[np.uint16]]:
    """Return the byte that each element begins in, and the bit of it."""
    at = np.arange(CHUNK) * bits
    return at // 8, (at % 8).astype(np.uint16)


def padded(box: NDArray[np.uint8], of: ElementType) -> NDArray[np.uint8]:
    """Return a box as a load writes it."""
    if not of.is_padded:
        return box
    made = np.full((len(box) // of.data, CHUNK), PADDING, np.uint8)
    made[:, : of.data] = box.reshape(-1, of.data)
    return made.reshape(-1)


def packed(box: NDArray[np.uint8], of: ElementType) -> NDArray[np.uint8]:
    """Return a box as a store of it writes it: of 6 bits, the lower ones of each byte."""
    if not of.is_padded:
        return box
    codes = box.reshape(-1, 4).astype(np.uint32) & 63
    words = codes[:, 0] | codes[:, 1] << 6 | codes[:, 2] << 12 | codes[:, 3] << 18
    return np.stack([words >> 8 * n & 255 for n in range(3)], 1).astype(np.uint8).reshape(-1)
