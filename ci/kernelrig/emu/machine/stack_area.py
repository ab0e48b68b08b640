"""What a thread takes of its stack as it runs: alloca, stacksave, stackrestore."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.numerics.arrays import LANES
from kernelrig.ptx import Symbol, Variable

BYTES = 16 << 10
"""Of a thread. A GPU gives cudaLimitStackSize bytes, 1024 unless the program asks for more."""
OPCODES = frozenset({"alloca", "stacksave", "stackrestore"})
AREA = Variable("stack of alloca", "local", "b8", 0, 16, dimensions=(BYTES,), element_bytes=1)
"""The variable in local memory that a kernel with such instructions has besides its own."""
START = Symbol(AREA.name, AREA)


class ThreadStack:
    """How many bytes of it each thread has taken."""

    def __init__(self, _: Machine) -> None:
        self._used: dict[int, NDArray[np.int64]] = {}  # by warp, of its lanes

    def used(self, batch: WarpBatch) -> NDArray[np.int64]:
        """Return a copy for the warps of a batch, (n, 32)."""
        none = np.zeros(LANES, np.int64)
        return np.stack([self._used.get(warp, none) for warp in batch.warps.tolist()])

    def take(
        self, batch: WarpBatch, lanes: NDArray[np.bool_], bytes_used: NDArray[np.int64]
    ) -> None:
        """Say what some threads use from here on."""
        left = np.where(lanes, bytes_used, self.used(batch))
        for row, warp in enumerate(batch.warps.tolist()):
            self._used[warp] = left[row]
