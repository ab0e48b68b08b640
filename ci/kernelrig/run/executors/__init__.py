"""What carries out the stages of a run: this process, an agent on this machine, one on a host."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from kernelrig.model import Stage, StageRecord
from kernelrig.run.store import RunDirectory

Ended = Generator[Stage, None, None]
"""The stages of an executor in the order in which they end."""


class Executor(Protocol):
    """Carries out the stages that are its own; what it raises ends the run.

    The engine asks for one stage after the other, and has each judged before it asks for the next:
    `judge` reads the run directory, and nothing that is known to `run` alone.
    """

    def run(self, directory: RunDirectory, stages: Sequence[Stage]) -> Ended:
        """Carry out the stages; yield each as soon as its files are in the run directory."""
        ...

    def judge(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        """Reach the verdict on a stage that `run` has yielded."""
        ...
