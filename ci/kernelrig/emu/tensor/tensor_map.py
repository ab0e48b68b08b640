"""Tensor maps of tiles: what cuTensorMapEncodeTiled makes of a tensor in global memory, and its
boxes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.tensor.box_layout import BoxLayout
from kernelrig.emu.tensor.map_fields import (
    DIMENSIONS,
    TILED,
    TILED_FIELDS,
    filled,
    head,
    sealed,
)
from kernelrig.emu.tensor.tensor_map_rules import shape_errors, value_errors


@dataclass(frozen=True)
class TensorMap(BoxLayout):
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

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Elements from one of a box to its next, by dimension; the fastest has no stride."""
        return (1, *self.element_strides[1:])

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Elements of a box, by dimension."""
        found = [-(-n // step) for n, step in zip(self.box, self.steps, strict=True)]
        return (found[0] // self.type.count, *found[1:])

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

    def in_memory(
        self, data: NDArray[np.uint8], flat: int, clip: Clip
    ) -> tuple[NDArray[np.uint8], EllipsisType]:
        """Return where the box's part of `data` is, slowest dimension first, then its bytes: a
        view, and an index of it.

        `flat` is the position of the tensor in `data`, of which the clip must be a part.
        """
        shape = (*clip.shape[:0:-1], self.part_bytes(clip))
        strides = [p * s for p, s in zip(self.pitches, self.steps, strict=True)]
        start = flat + clip.start
        return np.ndarray(shape, np.uint8, data.data, start, (*strides[:0:-1], 1)), ...

    def extent(self, clip: Clip) -> int:
        """Return the bytes from the first to the last of the clip."""
        size = self.part_bytes(clip)
        for count, pitch, step in zip(
            clip.shape[1:], self.pitches[1:], self.steps[1:], strict=True
        ):
            size += (count - 1) * pitch * step
        return size

    def part_bytes(self, clip: Clip) -> int:
        """Return the bytes of each of the clip's rows."""
        return clip.shape[0] * self.element_bytes

    def rows(self, flat: int, clip: Clip) -> NDArray[np.int64]:
        """Return the position of each of the clip's rows, as `in_memory` has them."""
        starts = np.array([flat + clip.start], np.int64)
        for count, pitch, step in zip(
            clip.shape[:0:-1], self.pitches[:0:-1], self.steps[:0:-1], strict=True
        ):
            starts = np.add.outer(starts, np.arange(count, dtype=np.int64) * (pitch * step)).ravel()
        return starts

    def in_box(
        self, box: NDArray[np.uint8], clip: Clip
    ) -> tuple[NDArray[np.uint8], tuple[slice, ...]]:
        """Return where `clip` is in the bytes of a whole box, shaped as `in_memory` is."""
        size = self.element_bytes
        whole = box.reshape(*self.counts[:0:-1], self.counts[0] * size)
        cuts = [slice(low, low + n) for low, n in zip(clip.low, clip.shape, strict=True)]
        cuts[0] = slice(clip.low[0] * size, (clip.low[0] + clip.shape[0]) * size)
        return whole, tuple(cuts[::-1])

    def errors(self) -> tuple[str, ...]:
        """Return what cuTensorMapEncodeTiled would not take, a sentence each."""
        first = tuple(shape_errors(self))
        return first or tuple(value_errors(self))

    def image(self) -> bytes:
        """The bytes that a kernel gets; of a map that breaks no rule."""
        # What is not read of them may be any number.
        steps = self.steps if self.interleave == "none" else self.element_strides
        words = (self.interleave, self.swizzle, self.l2_promotion, self.oob_fill)
        first = head(TILED, self.dtype, words, self.address, self.dims, self.strides_bytes)
        own = (*filled(self.box, DIMENSIONS), *filled(steps, DIMENSIONS))
        return sealed(TILED_FIELDS.pack(*first, *own))


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
