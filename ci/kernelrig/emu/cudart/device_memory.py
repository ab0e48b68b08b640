"""Device memory that a program and the emulator share: two files, and what is allocated in them.

A byte of device memory is at one place of the first file, and the mark that says whether it was
written at the same place of the second. Each schedule of a launch has a private view of both, which
begins with what is there and costs only the pages it writes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.launch.bind import PARAMS
from kernelrig.emu.machine.addressing import NULL_POINTER
from kernelrig.emu.machine.device_heap import DEFAULT_BYTES, DEVICE_HEAP
from kernelrig.emu.machine.state_spaces import (
    ALIGNMENT,
    GAP_BYTES,
    GLOBAL_BASE,
    Allocation,
    GlobalMemory,
    distance,
)
from kernelrig.emu.observe.global_accesses import Ranges
from kernelrig.errors import CiError

PAGE = mmap.PAGESIZE
RUN_PAGES = 256
_PAGEMAP_BYTES = 8  # of an entry: Documentation/admin-guide/mm/pagemap.rst
NULL_BYTES = 1 << 32
HOST_MEMORY = "host memory"
GRID_WORKSPACE = "the grid's workspace"
GRID_WORKSPACE_BYTES = 8
MAX_SPAN = 1 << 38
"""Bytes of address space for device memory: those behind are the host's."""
_PUNCH_HOLE = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE


class Kind(IntEnum):
    """What an allocation is; the numbers of library/runtime.hpp."""

    DEVICE = 0
    MANAGED = 1
    HOST = 2
    VARIABLE = 3
    CONSTANT = 4
    PARAMETERS = 5
    HEAP = 6
    MAPPED = 7


@dataclass(frozen=True, slots=True)
class Change:
    """Bytes of device memory, with their marks, as a schedule left them; `start` is flat."""

    start: int
    bytes: NDArray[np.uint8]
    written: NDArray[np.uint8]


class SharedArena(GlobalMemory):
    """What is allocated of device memory, as a machine has it: the files, or a private view."""

    def __init__(
        self,
        files: tuple[int, int],
        allocations: list[Allocation],
        freed: Sequence[Allocation] = (),
        *,
        private: bool = False,
    ) -> None:
        self._files, self._freed = files, freed
        self.allocations = allocations
        self._starts = [a.start for a in allocations]
        last = allocations[-1] if allocations else Allocation("", 0, 0)
        size = -(-(last.start + last.size + GAP_BYTES) // PAGE) * PAGE
        self.bytes, self.written = (_view(file, size, private=private) for file in files)

    def copy(self) -> SharedArena:
        return SharedArena(self._files, self.allocations, self._freed, private=True)

    def near(self, index: int, size: int) -> tuple[str, str]:
        """Say what is at a place that no allocation holds, and name the one nearest to it."""
        if 0 <= index + GLOBAL_BASE < NULL_BYTES:
            return "a null pointer, or an offset without its base", NULL_POINTER
        if not 0 <= index < MAX_SPAN:
            text = "that is host memory, or no pointer: kernels reach what CUDA allocated"
            return text, HOST_MEMORY
        for one in reversed(self._freed):
            if one.start <= index < one.start + one.size:
                return f"{one.name} was there ({one.size} bytes), and has been freed", one.name
        near = min(
            (a for a in self.allocations if a.name != PARAMS),
            key=lambda a: max(a.start - index, index - a.start - a.size + 1, 0),
            default=None,
        )
        if near is None:
            return "nothing is allocated", ""
        return distance(near, index, size), near.name

    def taken(self) -> SharedArena:
        return self.copy()  # the files are the program's

    def changes(self) -> list[Change]:
        """Return what this private view may have of its own: whole pages, a run of them each."""
        own = _own_pages(self.bytes) | _own_pages(self.written)
        found = []
        for one in self.allocations:
            if one.read_only:
                continue
            first, last = one.start // PAGE, (one.start + one.size - 1) // PAGE
            for low, high in _runs(own[first : last + 1]):
                start = max((first + low) * PAGE, one.start)
                part = slice(start, min((first + high) * PAGE, one.start + one.size))
                found.append(Change(start, self.bytes[part].copy(), self.written[part].copy()))
        return found

    def accessed(self) -> NDArray[np.bool_]:
        """Say of each page whether this view has read or written it, or may have: the system maps
        up to 64 KiB of an allocation at a time, and never of another one.
        """
        return _there(_page_entries(self.bytes))


def _page_entries(view: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return what the system says of each page of a view.

    To read them would not do: of a file in memory each page that is read is made.
    """
    count = len(view) // PAGE
    with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
        pages.seek(view.ctypes.data // PAGE * _PAGEMAP_BYTES)
        return np.frombuffer(pages.read(count * _PAGEMAP_BYTES), np.uint64)


def _there(entries: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Say of pages whether they are present, or swapped out: somebody has accessed them."""
    return np.asarray((entries >> np.uint64(62)) != 0)


def _own_pages(view: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Say of each page of a private view whether it is no more the file's: it was written."""
    entries = _page_entries(view)
    of_file = (entries >> np.uint64(61) & np.uint64(1)) != 0
    return np.asarray(_there(entries) & ~of_file)


def _runs(pages: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return [first, end) of each run of True, at most RUN_PAGES long."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], pages, [False])).astype(np.int8)))
    found = []
    for low, high in edges.reshape(-1, 2).tolist():
        found += [(at, min(at + RUN_PAGES, high)) for at in range(low, high, RUN_PAGES)]
    return found


def _view(file: int, size: int, *, private: bool) -> NDArray[np.uint8]:
    flags = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
    mapped = mmap.mmap(file, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    return np.frombuffer(mapped, np.uint8)


class DeviceMemory:
    """The two files, `span` bytes each, and their allocations.

    Allocations are GAP_BYTES apart, and what was freed is not used again before `span` is used up:
    an access behind an end, or after a free, hits nothing.
    """

    def __init__(self, span: int, capacity: int) -> None:
        self.span, self.capacity = span, capacity
        self.files = (os.memfd_create("kernelrig-memory"), os.memfd_create("kernelrig-marks"))
        for file in self.files:
            os.ftruncate(file, span)
        self.kinds: dict[int, Kind] = {}  # by the start of the allocation
        self.freed: list[Allocation] = []
        self._allocations: list[Allocation] = []  # by their starts, which are in `_starts`
        self._starts: list[int] = []
        self._reserved: list[Allocation] = []
        self._end = 0
        self.used = 0
        self.layout = 0  # counts changes of what is allocated, or was
        self.heap_bytes = DEFAULT_BYTES

    def close(self) -> None:
        for file in self.files:
            os.close(file)

    @property
    def child_called(self) -> bool:
        """Whether a process that was forked before any call of CUDA made one (client.cpp)."""
        return os.pread(self.files[1], 1, 0) != bytes(1)

    @property
    def arena(self) -> SharedArena:
        """What is allocated now."""
        return SharedArena(self.files, list(self._allocations), tuple(self.freed))

    def allocate(self, size: int, kind: Kind, name: str) -> Allocation | None:
        """Return `size` bytes that nothing has written, all zero; None where there is no room."""
        if size > self.capacity - self.used:
            return None
        align = ALIGNMENT if kind in (Kind.DEVICE, Kind.PARAMETERS) else PAGE
        start = self._place(self._end, align)
        if start + size + GAP_BYTES > self.span:
            found = self._between(size, align)
            if found is None:
                return None
            start = found
        made = Allocation(name, start, size, kind in (Kind.CONSTANT, Kind.PARAMETERS))
        self._add(bisect_left(self._starts, start), made, kind)
        return made

    def allocate_at(
        self, start: int, size: int, name: str, *, read_only: bool = False
    ) -> Allocation | None:
        """Return `size` bytes at a flat place; None where others are, or there is no room."""
        at = bisect_left(self._starts, start)
        before = self._allocations[at - 1] if at else None
        behind = self._allocations[at] if at < len(self._allocations) else None
        taken = (before and before.start + before.size > start) or (
            behind and behind.start < start + size
        )
        if taken or size > self.capacity - self.used or start + size + GAP_BYTES > self.span:
            return None
        made = Allocation(name, start, size, read_only)
        self._add(at, made, Kind.CONSTANT if read_only else Kind.DEVICE)
        return made

    def reserve(self, size: int, align: int) -> int | None:
        """Return the address of `size` bytes that `map` makes memory; None where there is no room.

        Views reach to the last allocation: more than can be allocated is not reserved.
        """
        start = self._place(self._end, max(align, PAGE))
        reserved = sum(one.size for one in self._reserved)
        if size + reserved > self.capacity or start + size + GAP_BYTES > self.span:
            return None
        self._reserved.append(Allocation("", start, size))
        self._end = start + size
        return GLOBAL_BASE + start

    def map(self, address: int, size: int, name: str) -> Allocation | None:
        """Make reserved bytes memory that nothing has written; None where there is no room.

        What is mapped side by side is one allocation.
        """
        start = low = address - GLOBAL_BASE
        if size > self.capacity - self.used or self._overlaps(start, size):
            return None
        high = start + size
        for one in (self._mapped_at(start - 1), self._mapped_at(high)):
            if one is not None:
                low, high, name = min(low, one.start), max(high, one.start + one.size), one.name
                self._remove(one)
        made = Allocation(name, low, high - low)
        self._add(bisect_left(self._starts, low), made, Kind.MAPPED)
        return made

    def unmap(self, address: int, size: int) -> bool:
        """Take mapped bytes away, which others beside them outlive; False where none are."""
        start, high = address - GLOBAL_BASE, address - GLOBAL_BASE + size
        one = self._mapped_at(start)
        if one is None or one.start + one.size < high:
            return False
        self._remove(one)
        for low, end in ((one.start, start), (high, one.start + one.size)):
            if low < end:
                rest = Allocation(one.name, low, end - low)
                self._add(bisect_left(self._starts, low), rest, Kind.MAPPED)
        self.freed.append(Allocation(one.name, start, size))
        for file in self.files:
            _punch(file, start, size)
        return True

    def _mapped_at(self, flat: int) -> Allocation | None:
        found = self.find(flat + GLOBAL_BASE)
        return found if found and self.kinds[found.start] == Kind.MAPPED else None

    def _overlaps(self, start: int, size: int) -> bool:
        at = bisect_left(self._starts, start + size) - 1
        return at >= 0 and self._allocations[at].start + self._allocations[at].size > start

    def _remove(self, one: Allocation) -> None:
        at = bisect_left(self._starts, one.start)
        del self._allocations[at], self._starts[at], self.kinds[one.start]
        self.used -= one.size
        self.layout += 1

    def keep_free(self, end: int) -> None:
        """Allocate behind this flat place from now on."""
        self._end = max(self._end, end)

    def _add(self, at: int, made: Allocation, kind: Kind) -> None:
        self._allocations.insert(at, made)
        self._starts.insert(at, made.start)
        self.used += made.size
        self.layout += 1
        self.kinds[made.start] = kind
        self._end = max(self._end, made.start + made.size)

    @cached_property
    def grid_workspace(self) -> int:
        """The address of what the CTAs of cooperative launches synchronise by (driver_abi.h)."""
        made = self.allocate(GRID_WORKSPACE_BYTES, Kind.DEVICE, GRID_WORKSPACE)
        if made is None:
            raise CiError("no room for the workspace of cooperative launches")
        self.arena.fill(made, bytes(made.size))
        return made.address

    def make_heap(self) -> None:
        """Make the heap of kernels that call malloc, where there is none yet."""
        if any(a.name == DEVICE_HEAP for a in self._allocations):
            return
        made = self.allocate(self.heap_bytes, Kind.HEAP, DEVICE_HEAP)
        if made is None:
            raise CiError(f"no room for a device heap of {self.heap_bytes} bytes")

    def free(self, address: int) -> bool:
        """Free the allocation that starts there; False where none does."""
        start = address - GLOBAL_BASE
        at = bisect_left(self._starts, start)
        if at == len(self._starts) or self._starts[at] != start:
            return False
        found = self._allocations.pop(at)
        self.layout += 1
        del self._starts[at]
        _clear(self.files[1], start, found.size)
        self.used -= found.size
        self.freed.append(found)
        del self.kinds[start]
        first, last = -(-start // PAGE) * PAGE, (start + found.size) // PAGE * PAGE
        for file in self.files:
            if last > first:
                _punch(file, first, last - first)
        return True

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that holds an address."""
        flat = address - GLOBAL_BASE
        at = bisect_right(self._starts, flat) - 1
        if at < 0:
            return None
        found = self._allocations[at]
        return found if flat < found.start + max(found.size, 1) else None

    def of_program(self, ranges: Ranges) -> Ranges:
        """Return the ranges in what the program knows of: no parameters, and no memory of ours."""
        if not self._starts:
            return ranges[:0]
        kinds = np.array([self.kinds[start] for start in self._starts])
        ours = np.isin(kinds, (Kind.PARAMETERS, Kind.HEAP))
        ours |= np.array([one.name == GRID_WORKSPACE for one in self._allocations])
        which = np.searchsorted(self._starts, ranges[:, 0], side="right") - 1
        return np.asarray(ranges[~ours[which]])

    def apply(self, changes: list[Change]) -> None:
        """Make what a schedule left the content of the files."""
        arena = self.arena
        for change in changes:
            part = slice(change.start, change.start + len(change.bytes))
            arena.bytes[part], arena.written[part] = change.bytes, change.written

    def _place(self, end: int, align: int) -> int:
        return -(-(end + GAP_BYTES) // align) * align

    def _between(self, size: int, align: int) -> int | None:
        """Return where `size` bytes fit between allocations."""
        end = 0
        for one in sorted((*self._allocations, *self._reserved), key=lambda one: one.start):
            start = self._place(end, align)
            if start + size + GAP_BYTES <= one.start:
                return start
            end = max(end, one.start + one.size)
        return None


def _clear(file: int, start: int, size: int) -> None:
    """Write zeros; whole pages are given back by `_punch`."""
    first, last = -(-start // PAGE) * PAGE, (start + size) // PAGE * PAGE
    parts = [(start, first), (last, start + size)] if first < last else [(start, start + size)]
    for low, high in parts:
        os.pwrite(file, bytes(high - low), low)


def _punch(file: int, start: int, size: int) -> None:
    """Give the pages of a part back to the system; they read as zeros then."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    libc.fallocate(file, _PUNCH_HOLE, start, size)
