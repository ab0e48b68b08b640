"""The register files of warps, which the core reads and writes: what Python sees of them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.native.core_calls import View, core_calls
from kernelrig.emu.native.encode import ALIGN, Encoded
from kernelrig.emu.numerics.arrays import (
    BOOL,
    LANES,
    UNSIGNED,
    Array,
    Mask,
    lane_words,
    lanes_of_words,
)


class Rows(Protocol):
    """Whose registers: warps, of each the lanes that take part, as an array and as words.

    `lanes` is None for all; `one` is the number of the only warp, -1 where there are more.
    """

    warps: NDArray[np.intp]
    lanes: Mask
    masks: NDArray[np.uint32]
    one: int

    @property
    def size(self) -> int: ...


class RegisterFiles:
    """The files of all warps of a wave, one behind the other from `address` on."""

    def __init__(self, core: int, encoded: Encoded) -> None:
        self._core = core
        self._calls = core_calls()
        self._encoded = encoded
        self.make(0)

    def make(self, count: int) -> None:
        """Make fresh files for `count` warps."""
        size = self._encoded.file_bytes
        space = np.zeros(count * size + ALIGN, np.uint8)
        start = -space.ctypes.data % ALIGN
        self._files = space[start : start + count * size].reshape(count, size)
        self._views: dict[int, NDArray[Any]] = {}

    @property
    def address(self) -> int:
        return self._files.ctypes.data

    def fill(self, everyone: WarpBatch) -> None:
        """Write what registers hold at the start of the program; `everyone` is all of the wave."""
        count = len(self._files)
        for fill in self._encoded.fills:
            value = np.broadcast_to(fill.value(everyone), (count, LANES))
            bits = lane_words(value) if fill.dtype == BOOL else value.astype(fill.dtype)
            raw = np.ascontiguousarray(bits).view(np.uint8).reshape(count, -1)
            self._files[:, fill.offset : fill.offset + raw.shape[1]] = raw

    def view(self, register: int) -> NDArray[Any]:
        """Return a register of all warps: (n, 32) lanes, of a predicate (n,) words of bits."""
        found = self._views.get(register)
        if found is None:
            offset, width = self._encoded.offsets[register], self._encoded.widths[register]
            lanes = self._files[:, offset : offset + (LANES * width or 4)]
            kind = UNSIGNED.get(width, UNSIGNED[4])
            found = lanes.view(kind) if width else lanes.view(kind)[:, 0]
            self._views[register] = found
        return found

    def read(self, rows: Rows, register: int) -> Array:
        view = self.view(register)
        if self._encoded.widths[register]:
            one = rows.one
            return view[one : one + 1].copy() if one >= 0 else view[rows.warps]
        return lanes_of_words(view[rows.warps])

    def write(self, rows: Rows, register: int, value: Array) -> None:
        view = self.view(register)
        if not self._encoded.widths[register]:
            bits = lane_words(np.broadcast_to(value, (rows.size, LANES)))
            if rows.lanes is not None:
                bits = (view[rows.warps] & ~rows.masks) | (bits & rows.masks)
            view[rows.warps] = bits
        elif rows.lanes is not None:
            view[rows.warps] = np.where(rows.lanes, value, view[rows.warps])
        elif rows.one >= 0:
            view[rows.one] = value
        else:
            view[rows.warps] = value

    def in_flight(self, view: View, register: int, into: Array | None = None) -> int:
        """Return what the core has in flight to a register of a batch, and put its values `into`
        an array of the batch's warps.
        """
        place = None if into is None else into.ctypes.data
        kind = self._calls.core_pending(self._core, view.warps, view.size, register, place)
        return int(kind)
