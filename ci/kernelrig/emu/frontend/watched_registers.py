"""Registers that asynchronous instructions may use until a wait: other writes are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kernelrig.emu.machine.instruction_table import Step


class WatchedRegisters:
    """Those of a function, and what is called before another instruction writes one (`Step`)."""

    def __init__(self, steps: Iterable[Step | None]) -> None:
        self.overwritten: dict[int, Callable[..., None]] = {
            register: step.overwritten
            for step in steps
            if step is not None and step.overwritten is not None
            for register in step.watched
        }
        self._told: set[int] = set()

    def start(self) -> None:
        """Begin a segment."""
        self._told.clear()

    def written_by(self, step: Step, *, surely: bool) -> list[int]:
        """Return those that a step writes, and that the segment has not surely written before."""
        if step.overwritten is not None or not self.overwritten:
            return []
        written = [r.index for r, _ in step.writes if r is not None and r.index in self.overwritten]
        found = [index for index in written if index not in self._told]
        if surely:
            self._told.update(found)
        return found
