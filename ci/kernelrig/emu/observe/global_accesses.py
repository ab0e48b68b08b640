"""Which bytes of global memory a launch read and wrote: what other work of a program is compared
with (cudart/library/order.hpp).
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.machine_state import Hooks
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import Array, Mask
from kernelrig.emu.observe.marks import mark

READ, WRITE, STRONG_READ, STRONG_WRITE, OF_SYSTEM = 1, 2, 4, 8, 16
"""Bits of a byte: plain accesses, and those that are atomic or relaxed and stronger for the whole
GPU, which do not race with one another. OF_SYSTEM: a strong write that the host may wait for.
"""
_PAGE = mmap.PAGESIZE
_ENTRY_BYTES = 8  # Documentation/admin-guide/mm/pagemap.rst
_THERE = np.uint64(62)
_NO_RESERVE = 0x4000  # MAP_NORESERVE, which Python has from 3.13 on
_FAR = ("gpu", "sys")

Ranges = NDArray[np.int64]
"""Rows of start, end and bits; ascending, and none overlaps another."""
NO_RANGES: Ranges = np.zeros((0, 3), np.int64)


class GlobalAccesses(Hooks):
    """The bits of each byte of global memory."""

    def __init__(self) -> None:
        self._marks: NDArray[np.uint8] | None = None
        self._reductions: NDArray[np.uint8] | None = None

    def of_machine(self, machine: Any) -> NDArray[np.uint8]:  # noqa: ANN401 - see Hooks
        """Return the bits, of which only those that are set have memory."""
        if self._marks is None:
            size = len(machine.memory.global_)
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
            made = mmap.mmap(-1, max(size, _PAGE), flags=flags)
            made.madvise(mmap.MADV_NOHUGEPAGE)
            self._marks = np.frombuffer(made, np.uint8)
        return self._marks

    def reductions(self, machine: Any) -> NDArray[np.uint8]:  # noqa: ANN401 - see Hooks
        """Say of each instruction whether its operations reduce: their writes are strong."""
        if self._reductions is None:
            code = machine.program.function.instructions
            self._reductions = np.array(
                [i.opcode == "cp" and "reduce" in i.flags for i in code], np.uint8
            )
        return self._reductions

    def accessed(
        self,
        batch: Any,  # noqa: ANN401 - see Hooks
        mask: Mask,
        space: str,
        index: Array,
        size: int,
        write: bool,
        atomic: bool = False,
        sem: str = "weak",
        scope: str = "",
    ) -> None:
        if space != "global":
            return
        if mask is not None:
            lanes = batch.mask_of(mask)
            index = np.broadcast_to(index, lanes.shape)[lanes]
        if index.size:
            mark(self.of_machine(batch.machine), index, size, _use(write or atomic, sem, scope))

    def op_accessed(self, op: Op, space: str, starts: Array, size: int, write: bool) -> None:
        if space == "global" and starts.size:
            strong = write and bool(self.reductions(op.machine)[op.at])
            bit = STRONG_WRITE if strong else WRITE if write else READ
            mark(self.of_machine(op.machine), starts, size, bit)

    def ranges(self, machine: Any, most: int) -> tuple[Ranges, bool]:  # noqa: ANN401 - see Hooks
        """Return what was accessed of allocations, `most` ranges of it, and whether that is all."""
        if self._marks is None:
            return NO_RANGES, True
        marks, found, count = self._marks, [], 0
        pages = _pages_in_use(marks)
        for one in machine.memory.global_.allocations:
            first, last = one.start // _PAGE, (one.start + one.size - 1) // _PAGE
            for low, high in _runs(pages[first : last + 1]):
                start = max((first + low) * _PAGE, one.start)
                part = marks[start : min((first + high) * _PAGE, one.start + one.size)]
                found.append(_ranges_of(part, start))
                count += len(found[-1])
                if count > most:
                    return np.concatenate(found)[:most], False
        return (np.concatenate(found) if found else NO_RANGES), True


def _use(write: bool, sem: str, scope: str) -> int:
    if sem == "weak" or (scope not in _FAR and sem != "volatile"):
        return WRITE if write else READ
    if not write:
        return STRONG_READ
    return STRONG_WRITE | (OF_SYSTEM if scope == "sys" or sem == "volatile" else 0)


def _ranges_of(part: NDArray[np.uint8], start: int) -> Ranges:
    """Return the ranges of equal bits, but those of none."""
    edges = np.flatnonzero(np.diff(part)) + 1
    bounds = np.concatenate(([0], edges, [len(part)])).astype(np.int64)
    made = np.stack((bounds[:-1] + start, bounds[1:] + start, part[bounds[:-1]]), axis=1)
    return np.asarray(made[made[:, 2] != 0], np.int64)


def _pages_in_use(marks: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Say of each page whether it has memory, in it or swapped out."""
    count = -(-len(marks) // _PAGE)
    with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
        pages.seek(marks.ctypes.data // _PAGE * _ENTRY_BYTES)
        entries = np.frombuffer(pages.read(count * _ENTRY_BYTES), np.uint64)
    return np.asarray((entries >> _THERE) != 0)


def _runs(pages: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], pages, [False])).astype(np.int8)))
    return [(int(low), int(high)) for low, high in edges.reshape(-1, 2)]


def joined(every: list[Ranges]) -> Ranges:
    """Return the ranges of several schedules as those of one."""
    first = every[0] if every else NO_RANGES
    if all(np.array_equal(first, other) for other in every[1:]):
        return first
    rows = np.concatenate(every)
    points = np.unique(rows[:, :2])
    starts, ends = (np.searchsorted(points, rows[:, n]) for n in (0, 1))
    bits = np.zeros(len(points), np.int64)
    for bit in (READ, WRITE, STRONG_READ, STRONG_WRITE, OF_SYSTEM):
        has = (rows[:, 2] & bit) != 0
        depth = np.zeros(len(points) + 1, np.int64)
        np.add.at(depth, starts[has], 1)
        np.add.at(depth, ends[has], -1)
        bits |= np.where(np.cumsum(depth)[:-1] > 0, bit, 0)
    changes = np.flatnonzero(np.diff(bits, prepend=0))
    bounds = np.append(changes, len(points) - 1)
    made = np.stack((points[bounds[:-1]], points[bounds[1:]], bits[bounds[:-1]]), axis=1)
    return np.asarray(made[made[:, 2] != 0], np.int64)
