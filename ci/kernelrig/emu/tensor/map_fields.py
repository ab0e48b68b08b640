"""The 128 bytes of a tensor map, as kernels get them here.

NVIDIA's are not documented. These are our own: all fields, and a checksum by which bytes that are
no tensor map are recognised.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from kernelrig.emu.tensor.swizzle import SWIZZLES
from kernelrig.emu.tensor.tensor_map_rules import INTERLEAVES, L2_PROMOTIONS, OOB_FILLS, TYPES

IMAGE_BYTES = 128
IMAGE_ALIGNMENT = 64
TILED, IM2COL = b"tiledmap", b"im2colmp"
"""What a map begins with, by its mode."""
_HEAD = "<8s7BxQ5I4x4Q"  # dims less 1: the largest is 2^32
TILED_FIELDS = struct.Struct(_HEAD + "5H5B")  # box, element strides
IM2COL_FIELDS = struct.Struct(_HEAD + "2H6h5B")  # channels, pixels, corners, element strides
CHECKSUM = struct.Struct("<I")
WIDEST = list(SWIZZLES).index("128B")
"""The swizzle mode of PTX that has atoms; those of them that are larger follow it in cuda.h."""
DIMENSIONS = 5
CORNERS = 3
"""Dimensions of the largest bounding box."""


def head(
    mark: bytes,
    dtype: str,
    words: tuple[str, str, str, str],
    address: int,
    dims: Sequence[int],
    strides_bytes: Sequence[int],
) -> list[bytes | int]:
    """Return the fields that maps of every mode begin with; `words` are interleave, swizzle, L2
    promotion and fill.
    """
    interleave, pattern, promotion, fill = words
    swizzle = list(SWIZZLES).index(pattern)
    return [
        mark, list(TYPES).index(dtype), len(dims), min(swizzle, WIDEST),
        INTERLEAVES.index(interleave), L2_PROMOTIONS.index(promotion), OOB_FILLS.index(fill),
        max(swizzle - WIDEST, 0), address,
        *filled([d - 1 for d in dims], DIMENSIONS), *filled(strides_bytes, DIMENSIONS - 1),
    ]  # fmt: skip


def filled(values: Sequence[int], count: int) -> list[int]:
    """Return so many values, those that are not there 0."""
    return [*values, *[0] * (count - len(values))]


def sealed(fields: bytes) -> bytes:
    """Return the whole map."""
    body = fields.ljust(IMAGE_BYTES - CHECKSUM.size, b"\0")
    return body + CHECKSUM.pack(zlib.crc32(body))


def is_sealed(image: bytes) -> bool:
    """Whether nothing wrote into the bytes since."""
    body = image[: -CHECKSUM.size]
    return len(image) == IMAGE_BYTES and image[len(body) :] == CHECKSUM.pack(zlib.crc32(body))
