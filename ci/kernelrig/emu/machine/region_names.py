"""Names for bytes and columns in messages: barriers and buffers as the kernel's source calls them.

A name comes from the launch file's layouts, which the kernel's own host code writes, or from the
PTX: static .shared variables, and the extern one that stands for all dynamic shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kernelrig.findings.demangling import demangled

MBARRIER_BYTES = 8


@dataclass(frozen=True, slots=True)
class SharedRegion:
    """`count` elements of `size` bytes, `stride` bytes apart, from address `start` of each CTA."""

    name: str
    start: int
    size: int
    stride: int = 0
    count: int = 1
    kind: str = "variable"

    @property
    def end(self) -> int:
        return self.start + self.stride * (self.count - 1) + self.size

    def holds(self, address: int) -> bool:
        inside = address - self.start
        if inside < 0 or self.count == 1:
            return 0 <= inside < self.size
        index, behind = divmod(inside, self.stride)
        return index < self.count and behind < self.size

    def element(self, address: int) -> tuple[str, int]:
        """Return the name of the element at `address`, and the byte inside it."""
        if self.count == 1:
            return demangled(self.name), address - self.start
        index, inside = divmod(address - self.start, self.stride)
        return f"{self.name}[{index}]", inside


@dataclass(frozen=True, slots=True)
class TensorRegion:
    """`count` elements of `columns` columns each, side by side from `column`."""

    name: str
    column: int
    columns: int
    count: int = 1

    def element(self, column: int) -> str:
        """Return the name of the element that holds `column`, "" if none does."""
        index = (column - self.column) // self.columns
        if not 0 <= index < self.count:
            return ""
        return f"{self.name}[{index}]" if self.count > 1 else self.name


@dataclass(frozen=True, slots=True)
class Shape:
    """How a buffer is counted: bytes of an element, elements a dimension, slowest first."""

    element: int
    dimensions: tuple[int, ...]

    def coordinates(self, offset: int) -> str:
        """Name the element at `offset` bytes: `[3, 17]`."""
        index = np.unravel_index(offset // self.element, self.dimensions)
        return f"[{', '.join(str(int(i)) for i in index)}]"


@dataclass(frozen=True, slots=True)
class RegionNames:
    """The names of a launch. `shared` is searched in order: layouts come before variables."""

    shared: tuple[SharedRegion, ...] = ()
    tensor: tuple[TensorRegion, ...] = ()
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    _mbarriers: dict[int, str] = field(default_factory=dict, init=False, compare=False)

    def region(self, address: int) -> SharedRegion | None:
        return next((r for r in self.shared if r.holds(address)), None)

    def of_shared(self, address: int) -> str:
        """Name the byte at an address of a CTA: `A[2] + 0x40`; "" where nothing has a name."""
        region = self.region(address)
        if region is None:
            return ""
        name, inside = region.element(address)
        return f"{name} + {inside:#x}" if inside else name

    def of_mbarrier(self, address: int) -> str:
        """Name an mbarrier: of a variable that has room for several, the one at its index."""
        if address not in self._mbarriers:  # each CTA of each run makes its own there
            self._mbarriers[address] = self._mbarrier(address)
        return self._mbarriers[address]

    def _mbarrier(self, address: int) -> str:
        region = self.region(address)
        if region is None:
            return ""
        name, inside = region.element(address)
        several = region.kind == "variable" and region.size > MBARRIER_BYTES
        if several and not inside % MBARRIER_BYTES:
            return f"{name}[{inside // MBARRIER_BYTES}]"
        return self.of_shared(address)

    def of_tensor(self, column: int) -> str:
        """Return the name of the region at a column of tensor memory, "" without one."""
        return next(filter(None, (r.element(column) for r in self.tensor)), "")

    def of_global(self, name: str, offset: int) -> str:
        """Name a byte of a buffer: `C[3, 17] (C + 0x28)`, or `C + 0x28` where it has no shape."""
        name = demangled(name)
        shape = self.shapes.get(name)
        where = f"{name} + {offset:#x}"
        return f"{name}{shape.coordinates(offset)} ({where})" if shape else where

    def last_shared(self) -> str:
        """Name the region that ends last."""
        last = max(self.shared, key=lambda r: r.end, default=None)
        return demangled(last.name) if last else ""
