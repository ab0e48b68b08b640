"""How long a run will take, said when enough of it has been seen to tell; then how far it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelrig.emu.launch.workers import Workers
from kernelrig.emu.machine.progress import WAVE, WAVES


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of a long run, one that goes on for `long_s`; it is looked at each `look_s`.

    How far it is is told each `again_s`.
    """

    say: Callable[[str], None] = lambda _: None
    long_s: float = 20.0
    look_s: float = 0.5
    again_s: float = 30.0


class Estimate:
    """Watches workers run `schedules` schedules, from now on.

    What tells is the first wave of CTAs that ends, or the first schedule: of one wave in one
    schedule nothing is known before its end.
    """

    def __init__(self, workers: Workers[Any, Any], schedules: int, watch: Watch) -> None:
        self._workers, self._schedules, self._watch = workers, schedules, watch
        self._began = time.monotonic()
        self._next = self._began  # when it is told again; never of a run that is not long

    def look(self, done: int) -> None:
        """`done` schedules have ended."""
        now = time.monotonic()
        if now < self._next:
            return
        cells = {w.number: w.progress.cells for w in self._workers.busy}
        waves = {number: (cell[WAVE], cell[WAVES]) for number, cell in cells.items()}
        seen = done + sum(wave / many for wave, many in waves.values())
        if not seen:
            return
        passed = now - self._began
        left = passed / seen * (self._schedules - seen)
        if left < self._watch.long_s and self._next == self._began:
            self._next = math.inf
            return
        self._next = now + self._watch.again_s
        what = f"{done} of them" if done > 1 else "the first schedule"
        if not done:
            number, (wave, many) = max(waves.items(), key=lambda each: each[1][0])
            what = f"wave {wave} of {many} of schedule {number}"
        self._watch.say(
            f"estimated: {shown_time(left)} more for {self._schedules} schedules,"
            f" as {what} ended after {shown_time(passed)}"
        )


def shown_time(seconds: float) -> str:
    """Return a time as an estimate is worth showing it: two digits or so."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
