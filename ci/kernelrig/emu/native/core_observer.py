"""What observers in the core have in common: who their events are of, and what their reports raise.

An exception in a callback must not cross the core, and ctypes prints one and goes on: it is kept,
the machine stops, and the event raises it, or the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kernelrig.emu.machine.machine_state import Hooks, Machine, WarpBatch
from kernelrig.emu.numerics.arrays import Array, Mask, lane_words
from kernelrig.emu.observe.composite import CompositeObserver

SEMS = {
    sem: number
    for number, sem in enumerate(
        ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "sc")
    )
}


class CoreObserver(Hooks):
    """An observer whose state is in the core."""

    _machine: Machine
    _failure: BaseException | None = None

    def _guarded(self, report: Callable[..., None]) -> Callable[..., int]:
        """Return a callback that reports: 1 where it raised."""

        def reported(*arguments: object) -> int:
            try:
                report(*arguments)
            except BaseException as e:  # raised by `check`
                self._failure = e
                self._machine.stopped = True
                return 1
            return 0

        return reported

    def check(self) -> None:
        """Raise what a report has raised."""
        if self._failure is not None:
            raise self._failure


def each_of(hooks: Hooks | None) -> Sequence[Hooks]:
    """Return the observers of a machine."""
    if hooks is None:
        return ()
    return hooks.observers if isinstance(hooks, CompositeObserver) else (hooks,)


def threads_of(batch: WarpBatch, mask: Mask) -> Array:
    """Return the warps of a batch with their lanes in `mask`: (n, 2)."""
    threads = np.empty((batch.size, 2), np.uint32)
    threads[:, 0] = batch.warps
    threads[:, 1] = lane_words(batch.mask_of(mask))
    return threads
