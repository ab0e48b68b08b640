"""How long a run will take, said once, when enough of it has been seen to tell."""

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
    """Who is told of a long run, one that goes on for `long_s`; it is looked at each `look_s`."""

    say: Callable[[str], None] = lambda _: None
    long_s: float = 20.0
    look_s: float = 0.5


class Estimate:
    """Watches workers run `schedules` schedules, from now on.

    What tells is the first wave of CTAs that ends, or the first schedule: of one wave in one
    schedule nothing is known before its end.
    """

    def __init__(self, workers: Workers[Any, Any], schedules: int, watch: Watch) -> None:
        self._workers, self._schedules, self._watch = workers, schedules, watch
        self._began = time.monotonic()
        self._known = False

    def look(self, done: int) -> None:
        """`done` schedules have ended."""
        if self._known:
            return
        now = time.monotonic()
        if done:
            self._tell(now, now - self._began, "the first schedule")
            return
        for worker in self._workers.busy:
            wave, waves = worker.progress.cells[WAVE], worker.progress.cells[WAVES]
            if wave:
                each = (now - worker.began) / wave * waves
                self._tell(now, each, f"wave {wave} of {waves} of schedule {worker.number}")
                return

    def _tell(self, now: float, each_s: float, seen: str) -> None:
        """Say how long `schedules` will take of which each takes `each_s`."""
        self._known = True
        passed = now - self._began
        rounds = math.ceil(self._schedules / self._workers.count)
        left = each_s * rounds - passed
        if left >= self._watch.long_s:
            self._watch.say(
                f"estimated: {shown_time(left)} more for {self._schedules} schedules,"
                f" as {seen} ended after {shown_time(passed)}"
            )


def shown_time(seconds: float) -> str:
    """Return a time as an estimate is worth showing it: two digits or so."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
