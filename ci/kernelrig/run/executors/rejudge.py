"""Stages whose files are in the run directory by now: they are judged anew, and nothing is run."""

from __future__ import annotations

from collections.abc import Sequence

from kernelrig.model import Stage, StageRecord
from kernelrig.run.executors import Ended
from kernelrig.run.judging import judge_stage
from kernelrig.run.store import RunDirectory


class RejudgeExecutor:
    """Yields what came back before."""

    def run(self, directory: RunDirectory, planned: Sequence[Stage]) -> Ended:
        directory.forget_judged()
        yield from planned

    def judge(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        return judge_stage(directory, stage)
