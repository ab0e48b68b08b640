"""Tensor maps out of their 128 bytes, and bytes that a kernel edits."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from kernelrig.emu.tensor.im2col_map import Im2colMap
from kernelrig.emu.tensor.im2col_rules import RANKS as IM2COL_RANKS
from kernelrig.emu.tensor.map_fields import (
    CHECKSUM,
    CORNERS,
    IM2COL,
    IM2COL_FIELDS,
    IMAGE_BYTES,
    TILED,
    TILED_FIELDS,
    WIDEST,
    is_sealed,
    sealed,
)
from kernelrig.emu.tensor.swizzle import SWIZZLES
from kernelrig.emu.tensor.tensor_map import TensorMap
from kernelrig.emu.tensor.tensor_map_rules import INTERLEAVES, L2_PROMOTIONS, OOB_FILLS, TYPES

AnyMap = TensorMap | Im2colMap
MARKS = (TILED, IM2COL)
_DRAFT = b"mapdraft"
"""The mark of a map that a kernel edits, and that is none yet."""
_LISTS = {"global_dim": (9, 5), "global_stride": (14, 4), "box_dim": (18, 5),
          "element_stride": (23, 5)}  # fmt: skip
_FIELDS = {"elemtype": 1, "rank": 2, "swizzle_mode": 3, "interleave_layout": 4, "fill_mode": 6,
           "swizzle_atomicity": 7, "global_address": 8}  # fmt: skip
"""Where fields of tensormap.replace stand in an image: the first and how many, or the one."""
_ELEMENT_CODES = {**{n: n for n in range(8)}, 9: 8, 10: 9, 13: 10, 14: 11, 15: 12}
"""Numbers of types in PTX ISA, Table 33, and their places in TYPES."""


class _Head(NamedTuple):
    """The fields that maps of every mode begin with, as maps are made of them."""

    dtype: str
    address: int
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    words: tuple[str, str, str, str]


@lru_cache(maxsize=1024)
def decode(image: bytes) -> AnyMap | None:
    """Read a tensor map; None where the bytes are none."""
    if image[: len(TILED)] not in MARKS or not is_sealed(image):
        return None
    is_tiled = image.startswith(TILED)
    words = (TILED_FIELDS if is_tiled else IM2COL_FIELDS).unpack_from(image)
    head = _head(words)
    if head is None:
        return None
    own, rank = words[18:], len(head.dims)
    first = (head.dtype, head.address, head.dims, head.strides_bytes)
    if is_tiled:
        return TensorMap(*first, tuple(own[:rank]), tuple(own[5 : 5 + rank]), *head.words)
    if rank not in IM2COL_RANKS:
        return None
    channels, pixels, *corners = own[: 2 + 2 * CORNERS]
    lower, upper = corners[: rank - 2], corners[CORNERS : CORNERS + rank - 2]
    steps = tuple(own[2 + 2 * CORNERS :][:rank])
    return Im2colMap(*first, tuple(lower), tuple(upper), channels, pixels, steps, *head.words)


def _head(words: tuple[Any, ...]) -> _Head | None:
    _, dtype, rank, mode, interleave, promotion, fill, atoms, address, *lists = words
    if mode > WIDEST or (atoms and mode < WIDEST):
        return None
    tables = ((dtype, TYPES), (mode + atoms, SWIZZLES), (interleave, INTERLEAVES),
              (promotion, L2_PROMOTIONS), (fill, OOB_FILLS))  # fmt: skip
    if any(number >= len(table) for number, table in tables) or not 1 <= rank <= 5:
        return None
    return _Head(
        list(TYPES)[dtype],
        address,
        tuple(d + 1 for d in lists[:rank]),
        tuple(lists[5 : 5 + rank - 1]),
        (
            INTERLEAVES[interleave],
            list(SWIZZLES)[mode + atoms],
            L2_PROMOTIONS[promotion],
            OOB_FILLS[fill],
        ),
    )


def edited(image: bytes, field: str, at: int, value: int) -> bytes:
    """Return an image with another `field` of tensormap.replace (PTX ISA 9.7.9.28, Table 33).

    What was no map is one of zeros. It is a map for copies as soon as it breaks no rule.

    Raises:
        ValueError: the field has no such place or value, or it is no map of tiles.
    """
    if image.startswith(IM2COL):
        raise ValueError(".tile edits maps of tiles, and this one is of im2col")
    known = image[: len(TILED)] in (TILED, _DRAFT)
    words = list(TILED_FIELDS.unpack_from(image if known else bytes(IMAGE_BYTES)))
    if field in _LISTS:
        first, count = _LISTS[field]
        if not 0 <= at < count:
            raise ValueError(f"ordinal {at}: 0 to {count - 1} are allowed")
        limit = {"global_stride": 64, "global_dim": 32, "box_dim": 16, "element_stride": 8}[field]
        number = value - 1 if field == "global_dim" else value
        if number < 0 or number >> limit:
            raise ValueError(f"{value} is out of range")
        words[first + at] = number
    else:
        known_values = _ELEMENT_CODES if field == "elemtype" else {n: n for n in range(256)}
        if field == "rank":
            known_values = {n: n + 1 for n in range(5)}
        if field != "global_address" and value not in known_values:
            raise ValueError(f"{value} is not supported")
        words[_FIELDS[field]] = value if field == "global_address" else known_values[value]
    words[0] = TILED
    made = sealed(TILED_FIELDS.pack(*words))
    if _edit_errors(made):
        words[0] = _DRAFT
        made = sealed(TILED_FIELDS.pack(*words))
    return made


def draft_errors(image: bytes) -> tuple[str, ...]:
    """Return what makes an edited map none; empty where it was not edited."""
    if image[: len(_DRAFT)] != _DRAFT:
        return ()
    return _edit_errors(sealed(TILED + image[len(TILED) : -CHECKSUM.size]))


def _edit_errors(image: bytes) -> tuple[str, ...]:
    """Return what makes the bytes no map of tiles. The driver has no say in them, and hardware does
    not read the stride of the fastest dimension without interleave.
    """
    map_ = decode(image)
    if not isinstance(map_, TensorMap):
        return ("a field has no meaning",)
    if map_.interleave == "none":
        map_ = replace(map_, element_strides=map_.steps)
    return map_.errors()
