"""Lines of global memory that weak reads may have left in the L1 cache of an SM.

A weak load may be served by that cache, which no store of another SM changes: the line stays as it
was until an acquire fence, or the end of the launch. So a line that a CTA read, and that another
CTA wrote then, may be read as it was before.
"""

from __future__ import annotations

import numpy as np

from kernelrig.emu.numerics.arrays import Array

LINE = 7
"""A line has 1 << LINE bytes."""
_SEVERAL = -1


class CachedLines:
    """The lines of a buffer: which CTA read each, and whether another one wrote it behind that."""

    def __init__(self, start: int, size: int) -> None:
        self.first = start >> LINE
        count = (start + size >> LINE) - self.first + 1
        self.reader: Array = np.zeros(count, np.int32)  # 0: none
        self.stale: Array = np.zeros(count, np.bool_)

    def read(self, flat: Array, cta: int) -> None:
        lines = (flat >> LINE) - self.first
        known = self.reader[lines]
        self.reader[lines] = np.where((known == 0) | (known == cta), cta, _SEVERAL)

    def written(self, flat: Array, cta: int) -> None:
        lines = (flat >> LINE) - self.first
        known = self.reader[lines]
        self.stale[lines] |= (known != 0) & (known != cta)

    def is_stale(self, flat: int) -> bool:
        return bool(self.stale[(flat >> LINE) - self.first])
