"""The state spaces: flat byte arenas, and what addresses mean.

A generic address is an integer of 64 bits. Global memory, constants and parameters are allocations
of one arena at GLOBAL_BASE, with unallocated gaps between them. Shared memory is one arena of
SLOT_BYTES a resident CTA, local memory one with the same number of bytes for each thread.

A shared address is what hardware makes it: rank << 24 | 0x400 + offset; the first KB of a CTA is
the system's. A flat position in the shared arena is slot * SLOT_BYTES + (address & 0xFFFFFF), slots
being the resident CTAs, those of a cluster side by side in the order of their ranks.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.region_names import RegionNames
from kernelrig.emu.numerics.arrays import UNSIGNED, Array, Mask

GLOBAL_BASE = 0x7F00_0000_0000
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
RESERVED_BYTES = 0x400
SLOT_BYTES = 0x40000
RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
GAP_BYTES = 1 << 16
ALIGNMENT = 1024  # of allocations: cudaMalloc gives 256, and more hides nothing: gaps are checked


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes of the global arena: a buffer, the parameters, a variable of the module."""

    name: str
    start: int  # flat
    size: int
    read_only: bool = False

    @property
    def address(self) -> int:
        return GLOBAL_BASE + self.start


class Arena:
    """Bytes, and which of them have been written."""

    def __init__(self, size: int = 0) -> None:
        self.reserve(size)

    def reserve(self, size: int) -> None:
        size = -(-size // 32) * 32
        self.bytes: NDArray[np.uint8] = np.zeros(size, np.uint8)
        self.written: NDArray[np.uint8] = np.zeros(size, np.uint8)

    def __len__(self) -> int:
        return len(self.bytes)

    def gather(self, index: Array, width: int, count: int, mask: Mask) -> tuple[Array, ...]:
        """Return `count` elements of `width` bytes from each flat byte in `index`.

        `index` must be a multiple of width x count and lie inside where `mask` holds.
        """
        if mask is not None:
            index = np.where(mask, index, 0)
        where = index >> _SHIFT[width * count]
        if count == 1:
            return (self.bytes.view(UNSIGNED[width])[where],)
        items = self.bytes.view(UNSIGNED[width]).reshape(-1, count)[where]
        return tuple(items[..., i] for i in range(count))

    def scatter(self, index: Array, values: tuple[Array, ...], mask: Mask) -> None:
        """Write `values`, one element each, side by side to each flat byte in `index`.

        Where lanes write to one address, the highest warp and lane wins. The bytes are marked.
        """
        width, count = values[0].dtype.itemsize, len(values)
        total = width * count
        shape = index.shape
        if any(v.shape != shape for v in values):
            shape = np.broadcast_shapes(shape, *(v.shape for v in values))
        if mask is not None:
            if mask.shape != shape:
                shape = np.broadcast_shapes(shape, mask.shape)
            chosen = _spread(mask, shape)
            index = _spread(index, shape)[chosen]
            values = tuple(_spread(v, shape)[chosen] for v in values)
        elif index.shape != shape:
            index = np.broadcast_to(index, shape)
        where = index >> _SHIFT[total]
        if count == 1:
            self.bytes.view(UNSIGNED[width])[where] = values[0]
        else:
            lanes = self.bytes.view(UNSIGNED[width]).reshape(-1, count)
            items = np.empty((*where.shape, count), values[0].dtype)
            for number, value in enumerate(values):
                items[..., number] = value
            lanes[where] = items
        self.mark(index, total)

    def mark(self, index: Array, size: int) -> None:
        """Say that `size` bytes from each of `index` are written; aligned powers of two."""
        self.written.view(UNSIGNED[min(size, 8)])[self._words(index, size)] = _ONES[min(size, 8)]

    @staticmethod
    def _words(index: Array, size: int) -> Array:
        if size <= 8:
            return np.asarray(index // size)
        return (index // 8)[..., None] + np.arange(size // 8)


def _spread(array: Array, shape: tuple[int, ...]) -> Array:
    return array if array.shape == shape else np.broadcast_to(array, shape)


_SHIFT = {1 << n: n for n in range(8)}
_ONES = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}


class GlobalMemory(Arena):
    """The arena of global memory, with its allocations."""

    def __init__(self) -> None:
        super().__init__(0)
        self.allocations: list[Allocation] = []
        self._starts: list[int] = []

    def copy(self) -> GlobalMemory:
        """Return the same memory with bytes of its own."""
        other = GlobalMemory()
        other.allocations, other._starts = self.allocations, self._starts
        other.bytes, other.written = self.bytes.copy(), self.written.copy()
        return other

    def taken(self) -> GlobalMemory:
        """Return the memory for a run after which nobody asks what it held before."""
        return self

    def allocate(self, name: str, size: int, *, read_only: bool = False) -> Allocation:
        """Make room; all allocations are made before the first byte is filled (`settle`)."""
        last = self.allocations[-1] if self.allocations else None
        end = last.start + last.size if last else 0
        start = -(-(end + GAP_BYTES) // ALIGNMENT) * ALIGNMENT
        made = Allocation(name, start, size, read_only)
        self.allocations.append(made)
        self._starts.append(start)
        return made

    def settle(self) -> None:
        """Give the allocations their bytes."""
        last = self.allocations[-1] if self.allocations else Allocation("", 0, 0)
        self.reserve(last.start + last.size + GAP_BYTES)

    def fill(self, allocation: Allocation, data: bytes | NDArray[Any], start: int = 0) -> None:
        """Write into an allocation from outside the launch."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1)
        raw = raw.view(np.uint8)
        at = allocation.start + start
        self.bytes[at : at + len(raw)] = raw
        self.written[at : at + len(raw)] = 1

    def find(self, index: int) -> Allocation | None:
        """Return the allocation that holds the flat byte."""
        number = bisect_right(self._starts, index) - 1
        if number < 0:
            return None
        found = self.allocations[number]
        return found if index < found.start + found.size else None

    def nearest(self, index: int) -> Allocation | None:
        """Return the allocation that the flat byte is in, or fewest bytes away from."""
        return min(
            self.allocations,
            key=lambda a: max(a.start - index, index - a.start - a.size + 1, 0),
            default=None,
        )

    def near(self, index: int, size: int) -> tuple[str, str]:
        """Say how far `size` bytes that no allocation holds are from one, and name that one."""
        near = self.nearest(index)
        if near is None:
            return "the launch has no buffers", ""
        return distance(near, index, size), near.name

    def holds(self, index: Array, size: int) -> NDArray[np.bool_]:
        """Say for each flat byte whether `size` bytes from it lie in one allocation."""
        low = self.find(int(index.min()))
        if low and int(index.max()) + size <= low.start + low.size:
            return np.ones(index.shape, np.bool_)
        starts = np.array([0, *self._starts])
        ends = np.array([0, *(a.start + a.size for a in self.allocations)])
        which = np.searchsorted(starts[1:], index, side="right")
        return np.asarray((which > 0) & (index + size <= ends[which]))


def distance(near: Allocation, flat: int, size: int) -> str:
    """Say how far an access is from the allocation nearest to it."""
    end = near.start + near.size
    if flat == end:
        text = f"right behind the end of {near.name}"
    elif flat > end:
        text = f"{flat - end} bytes past the end of {near.name}"
    elif flat < near.start:
        text = f"{near.start - flat} bytes before {near.name}"
    else:
        text = f"it starts in {near.name} and ends {flat + size - end} bytes past its end"
    return f"{text} ({near.size} bytes at {near.address:#x})"


@dataclass
class Memory:
    """The spaces of a machine. `shared_bytes` is what a CTA has, from 0x400: static and dynamic.

    `names` are for messages alone.
    """

    global_: GlobalMemory
    shared: Arena
    local: Arena
    shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    local_bytes: int = 0
    names: RegionNames = field(default_factory=RegionNames)

    @property
    def local_stride(self) -> int:
        """Bytes from one thread's local memory to the next one's in the arena."""
        return -(-self.local_bytes // 32) * 32

    def arena(self, space: str) -> Arena:
        return {"global": self.global_, "shared": self.shared, "local": self.local}[space]
