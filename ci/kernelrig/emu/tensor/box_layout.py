"""How a box lies in shared memory: rows of 16-byte chunks, whatever a tensor map takes it from."""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.tensor.packed_elements import ElementType
from kernelrig.emu.tensor.swizzle import CHUNK, SWIZZLES, Swizzle
from kernelrig.emu.tensor.tensor_map_rules import PADDED_BOX, TYPES

NAN_FILL = b"\xf7\x7f"
"""Repeated over an element out of bounds, of any type, as an H200 does it."""

BEFORE_TENSOR = "it starts before the tensor: a store must start at 0 or behind"


class BoxLayout:
    """What maps of every mode have, which have the fields below."""

    dtype: str
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    swizzle: str
    oob_fill: str

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements of a box, by dimension, the fastest first."""
        raise NotImplementedError

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
    def pitches(self) -> tuple[int, ...]:
        """Bytes from one coordinate to the next, by dimension."""
        return (self.element_bytes, *self.strides_bytes)

    @cached_property
    def box_bytes(self) -> int:
        """Bytes of a box, and in a tx-count, whatever is out of bounds; padding is none of them."""
        return prod(self.counts) * self.element_bytes

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

    def empty_box(self) -> NDArray[np.uint8]:
        """Return a box of what stands for elements out of bounds."""
        if self.oob_fill == "zeros":
            return np.zeros(self.box_bytes, np.uint8)
        nan = np.frombuffer(NAN_FILL, np.uint8)
        return np.tile(nan, self.box_bytes // len(nan))

    def misfit(self, corner: tuple[int, ...], write: bool) -> tuple[str, str]:
        """Return the kind of what hardware rejects of a copy that starts there, and the sentence;
        both empty where it is taken.

        H100 and H200 end the kernel with an illegal instruction.
        """
        kind, text = self._start_misfit(corner[0], write)
        if not kind:
            kind, text = self._place_misfit(corner, write)
        if not kind and write and min(corner) < 0:
            return "out-of-bounds", BEFORE_TENSOR
        return kind, text

    def _place_misfit(self, corner: tuple[int, ...], write: bool) -> tuple[str, str]:
        """Return as `misfit` does what is wrong with where a box of this mode lies."""
        return "", ""

    def _start_misfit(self, first: int, write: bool) -> tuple[str, str]:
        """Return as `misfit` does what is wrong with `first`, of the fastest dimension."""
        unit = CHUNK * self.type.count // self.element_bytes
        if self.type.is_padded:
            if first % PADDED_BOX:
                text = f"coordinate {first} of the fastest dimension: start at a multiple of"
                return "misaligned", f"{text} {PADDED_BOX} of {self.dtype}"
            if write and self.dtype == "b4x16_p64":
                return "descriptor", "b4x16_p64 is for loads alone: store by a map of b4x16"
            if not write and self.pattern.atom > 32:
                return "descriptor", f"{self.dtype} with swizzle {self.swizzle} is for stores alone"
        elif first % unit:
            byte = first * self.element_bytes / self.type.count
            text = (
                f"coordinate {first} of the fastest dimension is byte {byte:g} of a row: start"
                f" at a multiple of {CHUNK} bytes, {unit} of {self.dtype}"
            )
            return "misaligned", text
        return "", ""
