"""Stages in the emulator on this machine: the agent runs their commands in the run directory."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from kernelrig import report, stages
from kernelrig.model import DeviceKind, Emulation, Host, Stage, StageRecord
from kernelrig.remote import run_job_here
from kernelrig.run.durations import stage_seconds
from kernelrig.run.emulated_programs import prepare_programs
from kernelrig.run.executors import Ended
from kernelrig.run.executors.command_log import CommandLog
from kernelrig.run.judging import judge_stage
from kernelrig.run.launches import prepare_launches
from kernelrig.run.store import RunDirectory
from kernelrig.terminal.log import say, working


@dataclass(frozen=True, slots=True)
class EmulatorExecutor:
    """Emulates launches; `emulation` says in how many schedules, from which seed."""

    emulation: Emulation
    system_cuda: bool = False

    def run(self, directory: RunDirectory, planned: Sequence[Stage]) -> Ended:
        """Let the programs describe their launches, then run the emulator's commands on them."""
        run, builds, remote = directory.run, directory.builds, directory.remote
        needed = stages.launches(run.plan, run.kernel, builds, remote)
        prepare_launches(directory.folder, needed, run.kernel, builds)
        prepare_programs(directory, system_cuda=self.system_cuda)
        jobs = stages.stage_jobs(run.plan, run.kernel, builds, None, remote, self.emulation)
        host = Host(platform.node(), platform.python_version(), "", 0)
        directory.save(replace(directory.run, host=host, jobs=jobs))
        stages_folder = directory.folder / "stages"
        with (
            report.Follower(DeviceKind.EMULATOR, stage_seconds(directory)) as said,
            CommandLog(stages_folder, lambda line: say(f"emulated: {line}")) as log,
        ):

            def on_event(event: dict[str, Any]) -> None:
                log(event)
                said(event)

            run_job_here(directory.folder, run.id, jobs, on_event)
        yield from planned

    def judge(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        # Of a large launch every output is computed and compared once more: from the files.
        with working(f"judging {stage.name}") if stage.whole else nullcontext():
            return judge_stage(directory, stage)
