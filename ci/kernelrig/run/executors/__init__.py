"""What carries out the stages of a run: this process, an agent on this machine, one on a host."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kernelrig.model import Remote, Stage, StageRecord
from kernelrig.run.store import RunDirectory

if TYPE_CHECKING:
    from kernelrig.remote import HostLink

Judge = Callable[[RunDirectory, Stage], StageRecord]
Reporting = Callable[[RunDirectory], None]

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


class Linked(Protocol):
    """Connects to a remote, or goes on with a link that is there."""

    def __call__(
        self,
        remote: Remote,
        *,
        root: Path,
        host_key: str = "",
        to_ship: Mapping[str, Path] | None = None,
    ) -> AbstractContextManager[HostLink]: ...


@dataclass(frozen=True, slots=True)
class Means:
    """What a client keeps from one of its runs to the next, where it does: else each has its own.

    The link to their host, who judges their stages, and who writes their reports, once all of a run
    is judged and on file.
    """

    linked: Linked | None = None
    judged: Judge | None = None
    reporting: Reporting | None = None


OWN = Means()
