"""Maps of im2col: what cuTensorMapEncodeIm2col makes of a batch of images, and its columns.

A column is the box of such a map: pixels behind one another, in the order W, H, D, N. They walk
through a bounding box of each image; each is read `offsets` away, where a filter's weight looks at
it (PTX ISA 5.5.4). An H100 did each copy of tests/emu/test_im2col_copies.py so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.tensor.box_layout import BoxLayout
from kernelrig.emu.tensor.im2col_rules import OFFSET_BITS, shape_errors, value_errors
from kernelrig.emu.tensor.map_fields import (
    CORNERS,
    DIMENSIONS,
    IM2COL,
    IM2COL_FIELDS,
    filled,
    head,
    sealed,
)

_NAMES = "WHDN"
_FAR = 1 << 62
"""Behind all memory."""


@dataclass(frozen=True)
class Im2colMap(BoxLayout):
    """The arguments of cuTensorMapEncodeIm2col: dims are C, W, H, D, N without those that a tensor
    of fewer dimensions lacks, corners W, H, D; strides are in bytes and without C's.
    """

    dtype: str
    address: int
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    lower_corner: tuple[int, ...]
    upper_corner: tuple[int, ...]
    channels_per_pixel: int
    pixels_per_column: int
    element_strides: tuple[int, ...]
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    oob_fill: str = "zeros"

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Elements of a column: channels, pixels."""
        return (self.channels_per_pixel // self.type.count, self.pixels_per_column)

    @cached_property
    def last(self) -> tuple[int, ...]:
        """The last pixel of the bounding box, by its dimensions; the first is `lower_corner`."""
        return tuple(
            dim - 1 + upper for dim, upper in zip(self.dims[1:-1], self.upper_corner, strict=True)
        )

    def _place_misfit(self, corner: tuple[int, ...], write: bool) -> tuple[str, str]:
        for name, at, first, last in zip(
            _NAMES, corner[1:], self.lower_corner, self.last, strict=False
        ):
            if not first <= at <= last:
                where = f"{name} {at} is outside of the bounding box, from {first} to {last}"
                return "out-of-bounds", where
        if write and (min(self.lower_corner) < 0 or max(self.upper_corner) > 0):
            text = "its bounding box reaches beyond the tensor, as none of a store may"
            return "out-of-bounds", text
        return "", ""

    def offset_misfit(self, offsets: tuple[int, ...]) -> tuple[str, str]:
        """Return as `misfit` does what is wrong with the offsets of a copy.

        What an H100 does with others depends on how the compiler packed them: of 5 dimensions one
        changed its neighbour.
        """
        limit = (1 << OFFSET_BITS[self.rank]) - 1
        for name, offset in zip(_NAMES, offsets, strict=False):
            if offset > limit:
                text = f"offset {offset} of {name}: 0 to {limit} is allowed with {self.rank} dims"
                return "descriptor", text
        return "", ""

    def walk(self, corner: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the pixels of a column that starts there, each W to N, as they follow."""
        at, steps = list(corner[1:]), self.element_strides[1:]
        found = np.empty((self.pixels_per_column, len(at)), np.int64)
        for number in range(self.pixels_per_column):
            found[number] = at
            for d, (first, last) in enumerate(zip(self.lower_corner, self.last, strict=True)):
                at[d] += steps[d]
                if at[d] <= last:
                    break
                at[d] = first
            else:
                at[-1] += steps[-1]
        return found

    def clip(self, corner: tuple[int, ...], offsets: tuple[int, ...]) -> Column:
        """Return what of the column that starts there lies in the tensor."""
        pixels = self.walk(corner)
        pixels[:, :-1] += offsets
        inside = ((pixels >= 0) & (pixels < self.dims[1:])).all(axis=1)
        per = self.type.count
        at, channels, count = corner[0] // per, self.dims[0] // per, self.counts[0]
        low, end = max(0, -at), min(count, channels - at)
        numbers = np.flatnonzero(inside) if end > low else np.empty(0, np.int64)
        starts = self._starts(pixels[numbers]) + (at + low) * self.element_bytes
        whole = len(numbers) == self.pixels_per_column and end - low == count
        return Column(low, max(end - low, 0), numbers, starts, whole)

    def _starts(self, pixels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the byte of the tensor where each pixel begins, none beyond _FAR."""
        reach = sum(d * s for d, s in zip(self.dims[1:], self.strides_bytes, strict=True))
        wide = np.int64 if reach < _FAR else np.object_
        found = pixels.astype(wide) @ np.array(self.strides_bytes, wide)
        return np.asarray(np.minimum(found, _FAR), np.int64)

    def in_memory(
        self, data: NDArray[np.uint8], flat: int, clip: Column
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return `data`, and an index of the column's part of it by pixels and bytes.

        `flat` is the position of the tensor in `data`, of which the part must be one.
        """
        within = np.arange(self.part_bytes(clip), dtype=np.int64)
        return data, np.add.outer(self.rows(flat, clip), within)

    def extent(self, clip: Column) -> int:
        """Return the bytes from the first to the last of the clip."""
        return int(clip.starts.max()) - clip.start + self.part_bytes(clip)

    def part_bytes(self, clip: Column) -> int:
        """Return the bytes of each of the clip's pixels."""
        return clip.channels * self.element_bytes

    def rows(self, flat: int, clip: Column) -> NDArray[np.int64]:
        """Return the position of each of the clip's pixels."""
        return clip.starts + flat

    def in_box(
        self, box: NDArray[np.uint8], clip: Column
    ) -> tuple[NDArray[np.uint8], tuple[NDArray[np.int64], slice]]:
        """Return where `clip` is in the bytes of a whole column, shaped as `in_memory` is."""
        size = self.element_bytes
        cut = slice(clip.low * size, (clip.low + clip.channels) * size)
        return box.reshape(self.pixels_per_column, self.row_bytes), (clip.pixels, cut)

    def errors(self) -> tuple[str, ...]:
        """Return what cuTensorMapEncodeIm2col would not take, a sentence each."""
        first = tuple(shape_errors(self))
        return first or tuple(value_errors(self))

    def image(self) -> bytes:
        """The bytes that a kernel gets; of a map that breaks no rule."""
        steps = self.element_strides
        if self.interleave == "none":
            steps = (1, *steps[1:])  # what is not read of them may be any number
        words = (self.interleave, self.swizzle, self.l2_promotion, self.oob_fill)
        first = head(IM2COL, self.dtype, words, self.address, self.dims, self.strides_bytes)
        own = (self.channels_per_pixel, self.pixels_per_column,
               *filled(self.lower_corner, CORNERS), *filled(self.upper_corner, CORNERS),
               *filled(steps, DIMENSIONS))  # fmt: skip
        return sealed(IM2COL_FIELDS.pack(*first, *own))


class Column(NamedTuple):
    """What of a column lies in the tensor: of each of `pixels`, `channels` from `low` on.

    `starts` are the bytes of the tensor where they begin, `whole` says that it is all of it.
    """

    low: int
    channels: int
    pixels: NDArray[np.int64]
    starts: NDArray[np.int64]
    whole: bool

    @property
    def is_empty(self) -> bool:
        return not len(self.pixels)

    @property
    def start(self) -> int:
        return int(self.starts.min())
