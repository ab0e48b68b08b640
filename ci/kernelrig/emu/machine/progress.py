"""How far a schedule is, in memory that another process can read: also when this one has died."""

from __future__ import annotations

import ctypes
import mmap

AT, LAST, WAVE, WAVES = range(4)
"""Cells: the instruction, or the first of those, that were being executed; the last of those; the
wave of CTAs, from 0; of how many. An instruction of -1: none yet."""


class Progress:
    """Cells of 64 bits; made before the process that writes them is forked."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self.cells = memoryview(self._page).cast("q")
        self.restart()

    def restart(self) -> None:
        """A schedule begins."""
        self.cells[AT] = self.cells[LAST] = -1
        self.cells[WAVE], self.cells[WAVES] = 0, 1

    @property
    def address(self) -> int:
        """Where the cells are, for the native core."""
        return ctypes.addressof(ctypes.c_int64.from_buffer(self._page))
