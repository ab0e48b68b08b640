"""Reports of runs that are written by a process of their own, while the next run is on its host.

What a run has found is in its run.json before that: whoever is killed in between leaves a run
without a manifest, which `collect` judges again from its files.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

from kernelrig.files.serialization import from_json
from kernelrig.model import Run
from kernelrig.proc.workers import Lost, Worker
from kernelrig.run.store import RunDirectory

LOOK_S = 0.2


class LaterReports:
    """Has the reports of one run at a time written; used as a context it ends with the last ones.

    Its process is forked at once, before a connection has threads, of which a fork is not whole.
    What cannot be written (the disk is full) is raised before the next reports, or at the end.
    """

    def __init__(self, root: Path, write: Callable[[RunDirectory], None]) -> None:
        self._writer: Worker[Path, None] = Worker(
            lambda folder: write(RunDirectory(root, folder, from_json(Run, folder / "run.json")))
        )
        self._busy = False

    def __enter__(self) -> LaterReports:
        self._writer.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self._writer.end()

    def __call__(self, directory: RunDirectory) -> None:
        self.finish()
        self._busy = True
        self._writer.give(0, directory.folder)

    def finish(self) -> None:
        """Wait until the reports that are under way are written."""
        if not self._busy:
            return
        while not wait([self._writer.connection], LOOK_S):
            pass  # a signal is looked at
        self._busy = False
        ended = self._writer.take()
        if isinstance(ended, Lost):
            raise ended.error
