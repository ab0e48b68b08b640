"""Reports of runs that are written by a process of their own, while the next run is on its host.

What a run has found is in its run.json before that: whoever is killed in between leaves a run
without a manifest, which `collect` judges again from its files.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import wait

from kernelrig.proc.workers import Lost, Worker

LOOK_S = 0.2


class LaterReports:
    """Has the reports of one run at a time written; used as a context it ends with the last ones.

    What cannot be written (the disk is full) is raised before the next reports, or at the end.
    """

    def __init__(self) -> None:
        self._writer: Worker[None, None] | None = None

    def __enter__(self) -> LaterReports:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()
        elif self._writer is not None:
            self._writer.end()

    def __call__(self, write: Callable[[], None]) -> None:
        self.finish()
        self._writer = Worker(lambda _: write())
        self._writer.start()
        self._writer.give(0, None)

    def finish(self) -> None:
        """Wait until the reports that are under way are written."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            while not wait([writer.connection], LOOK_S):
                pass  # a signal is looked at
            ended = writer.take()
        finally:
            writer.end()
        if isinstance(ended, Lost):
            raise ended.error
