"""Stages that are judged by a process of their own, so that a client may hold a connection.

Judging forks (stages.bench.relay), and a fork of a process with the threads of a connection is not
whole. This one is forked before the first connection, and judges from files, as everybody does.
"""

from __future__ import annotations

from multiprocessing.connection import wait

from kernelrig.model import Stage, StageRecord
from kernelrig.proc.workers import Died, Lost, Worker
from kernelrig.run.judging import judge_stage
from kernelrig.run.store import RunDirectory

LOOK_S = 0.2


class JudgingProcess:
    """Judges a stage as this process would; used as a context it ends with it.

    Where something has killed it, stages are judged in this process from then on.
    """

    def __init__(self) -> None:
        self._judge: Worker[tuple[RunDirectory, Stage], StageRecord] | None = None
        self._there = False

    def __enter__(self) -> JudgingProcess:
        self.begin()
        return self

    def begin(self) -> None:
        """Fork the process, unless that is done; it ends with the one that has begun it."""
        if self._judge is not None:
            return
        # What takes long to import, before a host is held.
        from kernelrig.reference import spot_check  # noqa: F401
        from kernelrig.stages import read_stage  # noqa: F401

        self._judge = Worker(lambda task: judge_stage(*task))
        self._judge.start()
        self._there = True

    def __exit__(self, *_: object) -> None:
        self._there = False
        if self._judge is not None:
            self._judge.end()

    def __call__(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        if not self._there or self._judge is None:
            return judge_stage(directory, stage)
        try:
            self._judge.give(0, (directory, stage))
            while not wait([self._judge.connection], LOOK_S):
                pass  # a signal is looked at
            ended = self._judge.take()
        except BaseException:
            self.__exit__()  # its answer, if one comes, is none to the next question
            raise
        if not isinstance(ended, Lost):
            return ended
        if isinstance(ended.error, Died):
            self.__exit__()
            return judge_stage(directory, stage)
        raise ended.error
