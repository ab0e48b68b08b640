"""Tensor maps: what cuTensorMapEncodeTiled makes of a tensor in global memory, and its boxes.

NVIDIA's 128 bytes are not documented. These are our own: all fields, and a checksum by which bytes
that are no tensor map are recognised.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.tensor.packed_elements import ElementType
from kernelrig.emu.tensor.swizzle import CHUNK, SWIZZLES, Swizzle
from kernelrig.emu.tensor.tensor_map_rules import (
    INTERLEAVES,
    L2_PROMOTIONS,
    OOB_FILLS,
    PADDED_BOX,
    TYPES,
    shape_errors,
    value_errors,
)

IMAGE_BYTES = 128
IMAGE_ALIGNMENT = 64
NAN_FILL = b"\xf7\x7f"
"""Repeated over an element out of bounds, of any type, as an H200 does it."""

MAGIC = b"tiledmap"
_IMAGE = struct.Struct("<8s7BxQ5I4x4Q5H5B")  # dims less 1: the largest is 2^32
_CHECKSUM = struct.Struct("<I")
_DRAFT = b"mapdraft"
"""The mark of a map that a kernel edits, and that is none yet."""
_LISTS = {"global_dim": (9, 5), "global_stride": (14, 4), "box_dim": (18, 5),
          "element_stride": (23, 5)}  # fmt: skip
_FIELDS = {"elemtype": 1, "rank": 2, "swizzle_mode": 3, "interleave_layout": 4, "fill_mode": 6,
           "swizzle_atomicity": 7, "global_address": 8}  # fmt: skip
"""Where fields of tensormap.replace stand in an image: the first and how many, or the one."""
_WIDEST = list(SWIZZLES).index("128B")
"""The swizzle mode of PTX that has atoms; those of them that are larger follow it in cuda.h."""
_ELEMENT_CODES = {**{n: n for n in range(8)}, 9: 8, 10: 9, 13: 10, 14: 11, 15: 12}
"""Numbers of types in PTX ISA, Table 33, and their places in TYPES."""


@dataclass(frozen=True)
class TensorMap:
    """The arguments of cuTensorMapEncodeTiled: dims, box and strides fastest first, strides in
    bytes and without the fastest. `address` is generic.
    """

    dtype: str
    address: int
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    oob_fill: str = "zeros"

    @property
    def rank(self) -> int:
        return len(self.dims)

    @cached_property
    def type(self) -> ElementType:
        return TYPES[self.dtype]

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of what the fastest dimension is counted in below: an element, or whole bytes."""
        return self.type.bytes

    @property
    def pattern(self) -> Swizzle:
        return SWIZZLES[self.swizzle]

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Elements from one of a box to its next, by dimension; the fastest has no stride."""
        return (1, *self.element_strides[1:])

    @cached_property
    def pitches(self) -> tuple[int, ...]:
        """Bytes from one coordinate to the next, by dimension."""
        return (self.element_bytes, *self.strides_bytes)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Elements of a box, by dimension."""
        found = [-(-n // step) for n, step in zip(self.box, self.steps, strict=True)]
        return (found[0] // self.type.count, *found[1:])

    @cached_property
    def box_bytes(self) -> int:
        """Bytes of a box, and in a tx-count, whatever is out of bounds; padding is none of them."""
        size = self.element_bytes
        for count in self.counts:
            size *= count
        return size

    @cached_property
    def row_bytes(self) -> int:
        return self.counts[0] * self.element_bytes

    @cached_property
    def row_pitch(self) -> int:
        """Bytes from one row of a box to the next in shared memory: under a swizzle, its width,
        however narrow the rows are (measured on H200).
        """
        return self.pattern.width or self.row_room

    @cached_property
    def row_room(self) -> int:
        """Bytes of a row in shared memory, padding among them."""
        return self.row_bytes * CHUNK // self.type.data

    @cached_property
    def room_bytes(self) -> int:
        """Bytes of a box in shared memory, padding among them."""
        return self.box_bytes * CHUNK // self.type.data

    @cached_property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a box needs: a swizzle moves chunks inside its width."""
        return self.box_bytes // self.row_bytes * self.row_pitch

    @cached_property
    def is_dense(self) -> bool:
        """Whether a box leaves nothing out of the shared memory that it needs."""
        return self.row_pitch == self.row_room

    def misfit(self, corner: tuple[int, ...], write: bool) -> tuple[str, str]:
        """Return the kind of what hardware rejects of a copy that starts there, and the sentence;
        both empty where it is taken.

        The H200 ends the kernel with an illegal instruction.
        """
        unit = CHUNK * self.type.count // self.element_bytes
        if self.type.is_padded:
            if corner[0] % PADDED_BOX:
                text = f"coordinate {corner[0]} of the fastest dimension: start at a multiple of"
                return "misaligned", f"{text} {PADDED_BOX} of {self.dtype}"
            if write and self.dtype == "b4x16_p64":
                return "descriptor", "b4x16_p64 is for loads alone: store by a map of b4x16"
            if not write and self.pattern.atom > 32:
                return "descriptor", f"{self.dtype} with swizzle {self.swizzle} is for stores alone"
        elif corner[0] % unit:
            byte = corner[0] * self.element_bytes / self.type.count
            text = (
                f"coordinate {corner[0]} of the fastest dimension is byte {byte:g} of a row: start"
                f" at a multiple of {CHUNK} bytes, {unit} of {self.dtype}"
            )
            return "misaligned", text
        if write and min(corner) < 0:
            return "out-of-bounds", "it starts before the tensor: a store must start at 0 or behind"
        return "", ""

    def clip(self, corner: tuple[int, ...]) -> Clip:
        """Return what of the box at those coordinates lies in the tensor."""
        low, shape, inside = [], [], True
        start, per = 0, self.type.count
        corner, dims = ((by[0] // per, *by[1:]) for by in (corner, self.dims))
        for at, count, step, dim, pitch in zip(
            corner, self.counts, self.steps, dims, self.pitches, strict=True
        ):
            first = max(0, -(at // step))
            last = min(count, -(-(dim - at) // step))
            inside = inside and first == 0 and last == count
            low.append(first)
            shape.append(max(last - first, 0))
            start += (at + first * step) * pitch
        return Clip(tuple(low), tuple(shape), start, inside)

    def window(self, data: NDArray[np.uint8], flat: int, clip: Clip) -> NDArray[np.uint8]:
        """Return a view of the box's part of `data`, slowest dimension first, then its bytes.

        `flat` is the position of the tensor in `data`, of which the clip must be a part.
        """
        shape = (*clip.shape[:0:-1], clip.shape[0] * self.element_bytes)
        strides = [p * s for p, s in zip(self.pitches, self.steps, strict=True)]
        return np.ndarray(shape, np.uint8, data.data, flat + clip.start, (*strides[:0:-1], 1))

    def extent(self, clip: Clip) -> int:
        """Return the bytes from the first to the last of the clip."""
        size = clip.shape[0] * self.element_bytes
        for count, pitch, step in zip(
            clip.shape[1:], self.pitches[1:], self.steps[1:], strict=True
        ):
            size += (count - 1) * pitch * step
        return size

    def rows(self, flat: int, clip: Clip) -> NDArray[np.int64]:
        """Return the position of each of the clip's rows, as `window` has them."""
        starts = np.array([flat + clip.start], np.int64)
        for count, pitch, step in zip(
            clip.shape[:0:-1], self.pitches[:0:-1], self.steps[:0:-1], strict=True
        ):
            starts = np.add.outer(starts, np.arange(count, dtype=np.int64) * (pitch * step)).ravel()
        return starts

    def part(self, box: NDArray[np.uint8], clip: Clip) -> NDArray[np.uint8]:
        """Return the view of `clip` in the bytes of a whole box, shaped as `window` is."""
        size = self.element_bytes
        whole = box.reshape(*self.counts[:0:-1], self.counts[0] * size)
        cuts = [slice(low, low + n) for low, n in zip(clip.low, clip.shape, strict=True)]
        cuts[0] = slice(clip.low[0] * size, (clip.low[0] + clip.shape[0]) * size)
        return whole[tuple(cuts[::-1])]

    def empty_box(self) -> NDArray[np.uint8]:
        """Return a box of what stands for elements out of bounds."""
        if self.oob_fill == "zeros":
            return np.zeros(self.box_bytes, np.uint8)
        nan = np.frombuffer(NAN_FILL, np.uint8)
        return np.tile(nan, self.box_bytes // len(nan))

    def errors(self) -> tuple[str, ...]:
        """Return what cuTensorMapEncodeTiled would not take, a sentence each."""
        first = tuple(shape_errors(self))
        return first or tuple(value_errors(self))

    def image(self) -> bytes:
        """The bytes that a kernel gets; of a map that breaks no rule."""
        rank = self.rank
        # What is not read of them may be any number.
        steps = self.steps if self.interleave == "none" else self.element_strides
        swizzle = list(SWIZZLES).index(self.swizzle)
        body = _IMAGE.pack(
            MAGIC, list(TYPES).index(self.dtype), rank,
            min(swizzle, _WIDEST), INTERLEAVES.index(self.interleave),
            L2_PROMOTIONS.index(self.l2_promotion), OOB_FILLS.index(self.oob_fill),
            max(swizzle - _WIDEST, 0), self.address,
            *_padded([d - 1 for d in self.dims], 5), *_padded(self.strides_bytes, 4),
            *_padded(self.box, 5), *_padded(steps, 5),
        )  # fmt: skip
        return _sealed(body)


class Clip(NamedTuple):
    """A part of a box, fastest dimension first: from element `low`, `shape` elements.

    `start` is the byte of the tensor where it begins, `whole` says that it is all of the box.
    """

    low: tuple[int, ...]
    shape: tuple[int, ...]
    start: int
    whole: bool

    @property
    def is_empty(self) -> bool:
        return 0 in self.shape


def edited(image: bytes, field: str, at: int, value: int) -> bytes:
    """Return an image with another `field` of tensormap.replace (PTX ISA 9.7.9.28, Table 33).

    What was no map is one of zeros. It is a map for copies as soon as it breaks no rule.

    Raises:
        ValueError: the field has no such place or value.
    """
    known = image[: len(MAGIC)] in (MAGIC, _DRAFT)
    words = list(_IMAGE.unpack_from(image if known else bytes(IMAGE_BYTES)))
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
    words[0] = MAGIC
    made = _sealed(_IMAGE.pack(*words))
    if (map_ := decode(made)) is None or map_.errors():
        words[0] = _DRAFT
        made = _sealed(_IMAGE.pack(*words))
    return made


def _sealed(fields: bytes) -> bytes:
    body = fields.ljust(IMAGE_BYTES - _CHECKSUM.size, b"\0")
    return body + _CHECKSUM.pack(zlib.crc32(body))


def draft_errors(image: bytes) -> tuple[str, ...]:
    """Return what makes an edited map none; empty where it was not edited."""
    if image[: len(_DRAFT)] != _DRAFT:
        return ()
    made = _sealed(MAGIC + image[len(MAGIC) : -_CHECKSUM.size])
    map_ = decode(made)
    return ("a field has no meaning",) if map_ is None else map_.errors()


@lru_cache(maxsize=1024)
def decode(image: bytes) -> TensorMap | None:
    """Read a tensor map; None where the bytes are none."""
    if image[: len(MAGIC)] != MAGIC or len(image) != IMAGE_BYTES:
        return None
    body = image[: -_CHECKSUM.size]
    if image[-_CHECKSUM.size :] != _CHECKSUM.pack(zlib.crc32(body)):
        return None
    words = _IMAGE.unpack_from(body)
    _, dtype, rank, mode, interleave, promotion, fill, atoms, address, *lists = words
    if mode > _WIDEST or (atoms and mode < _WIDEST):
        return None
    dims, strides, box, steps = lists[:5], lists[5:9], lists[9:14], lists[14:19]
    tables = ((dtype, TYPES), (mode + atoms, SWIZZLES), (interleave, INTERLEAVES),
              (promotion, L2_PROMOTIONS), (fill, OOB_FILLS))  # fmt: skip
    if any(number >= len(table) for number, table in tables) or not 1 <= rank <= 5:
        return None
    return TensorMap(
        list(TYPES)[dtype],
        address,
        tuple(d + 1 for d in dims[:rank]),
        tuple(strides[: rank - 1]),
        tuple(box[:rank]),
        tuple(steps[:rank]),
        INTERLEAVES[interleave],
        list(SWIZZLES)[mode + atoms],
        L2_PROMOTIONS[promotion],
        OOB_FILLS[fill],
    )


def _padded(values: list[int] | tuple[int, ...], count: int) -> list[int]:
    return [*values, *[0] * (count - len(values))]
