"""From a plan to what the agent runs: a table from a stage's kind to its argv builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ci.model import Box, Build, Command, Kernel, Plan, Remote, Stage, StageJob, StageKind
from ci.stages.checksum import checksum_commands
from ci.stages.context import Setup
from ci.stages.profile import profile_commands
from ci.stages.program import program_commands
from ci.stages.sanitizer import sanitizer_commands
from ci.stages.timing import timing_commands

_BUILDERS: dict[tuple[int, StageKind], Callable[[Stage, Setup], tuple[Command, ...]]] = {
    (1, StageKind.CHECKSUM): checksum_commands,
    (1, StageKind.SANITIZER): sanitizer_commands,
    (1, StageKind.TIMING): timing_commands,
    (1, StageKind.PROFILE): profile_commands,
    (0, StageKind.CHECKSUM): program_commands,
    (0, StageKind.SANITIZER): sanitizer_commands,
    (0, StageKind.PROFILE): profile_commands,
}

ONE_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Let CUDA count several GPUs as nvidia-smi does: of itself it takes the fastest first."""

_NEED_CUDA = (StageKind.SANITIZER, StageKind.PROFILE)


def why_not(kernel: Kernel, stage: Stage) -> str:
    """Return why a stage has nothing to run for this kernel, empty if it has."""
    if (kernel.level, stage.kind) not in _BUILDERS:
        return f"{kernel.name} is a level-{kernel.level} program: it knows no {stage.kind} mode"
    if stage.kind in _NEED_CUDA and not kernel.cuda:
        return f"{kernel.name} is a CPU program (cuda: false)"
    return ""


def stage_jobs(
    plan: Plan,
    kernel: Kernel,
    build: Build,
    selftest: Build | None,
    box: Box | None,
    remote: Remote,
) -> tuple[StageJob, ...]:
    """Return a job for every stage but preflight; one that does not apply has no commands."""
    setup = Setup(kernel, build, selftest, box, remote)
    return tuple(
        StageJob(
            name=stage.name,
            kind=stage.kind,
            commands=_commands(stage, setup),
            needs=stage.needs,
            needs_end=_bare_runs(plan.stages[:index]),
            output_bytes=stage.output_mb << 20,
            disk_bytes=stage.disk_mb << 20,
        )
        for index, stage in enumerate(plan.stages)
        if stage.kind is not StageKind.PREFLIGHT
    )


def _commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    if why_not(setup.kernel, stage):
        return ()
    commands = _BUILDERS[setup.kernel.level, stage.kind](stage, setup)
    if setup.box is None or len(setup.box.gpus) < 2:
        return commands
    return tuple(replace(c, env={**c.env, **ONE_ORDER}) for c in commands)


def _bare_runs(earlier: Sequence[Stage]) -> tuple[str, ...]:
    """Name the stages that run the program as it is: what hangs there hangs under any tool."""
    return tuple(stage.name for stage in earlier if stage.kind is StageKind.CHECKSUM)
