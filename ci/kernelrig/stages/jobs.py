"""From a plan to what the agent runs: a table from a stage's kind to its argv builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kernelrig.model import (
    Builds,
    Command,
    DeviceKind,
    Emulation,
    Host,
    Kernel,
    Plan,
    Remote,
    Stage,
    StageJob,
    StageKind,
    executor,
)
from kernelrig.stages.checksum.stage import checksum_commands
from kernelrig.stages.context import Setup
from kernelrig.stages.emulation.command import (
    emulated_checksum_commands,
    emulated_sanitizer_commands,
    why_not_emulated,
)
from kernelrig.stages.plain.reader import program_commands
from kernelrig.stages.profile.stage import profile_commands
from kernelrig.stages.sanitizer.command import sanitizer_commands
from kernelrig.stages.timing.stage import timing_commands

Builder = Callable[[Stage, Setup], tuple[Command, ...]]

_BUILDERS: dict[tuple[int, StageKind], Builder] = {
    (1, StageKind.CHECKSUM): checksum_commands,
    (1, StageKind.SANITIZER): sanitizer_commands,
    (1, StageKind.TIMING): timing_commands,
    (1, StageKind.PROFILE): profile_commands,
    (0, StageKind.CHECKSUM): program_commands,
    (0, StageKind.SANITIZER): sanitizer_commands,
    (0, StageKind.PROFILE): profile_commands,
}

_EMULATED: dict[StageKind, Builder] = {
    StageKind.CHECKSUM: emulated_checksum_commands,
    StageKind.SANITIZER: emulated_sanitizer_commands,
}

ONE_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Let CUDA count several GPUs as nvidia-smi does: of itself it takes the fastest first."""

_NEED_CUDA = (StageKind.SANITIZER, StageKind.PROFILE)


def why_not(kernel: Kernel, arch: str, stage: Stage, device: DeviceKind = DeviceKind.GPU) -> str:
    """Return why a stage has nothing to run for this kernel on `arch`, empty if it has.

    `device` is what would execute it (kernelrig.model.executor).
    """
    if device is DeviceKind.EMULATOR:
        lacking = kernel.lacks(stage.variant, arch) if stage.variant else ""
        return lacking or why_not_emulated(kernel, stage)
    if (kernel.level, stage.kind) not in _BUILDERS:
        return f"{kernel.name} is a level-{kernel.level} program: it knows no {stage.kind} mode"
    if stage.kind in _NEED_CUDA and not kernel.cuda:
        return f"{kernel.name} is a CPU program (cuda: false)"
    return kernel.lacks(stage.variant, arch) if stage.variant else ""


def stage_jobs(
    plan: Plan,
    kernel: Kernel,
    builds: Builds,
    host: Host | None,
    remote: Remote,
    emulation: Emulation = Emulation(),  # noqa: B008 - frozen
) -> tuple[StageJob, ...]:
    """Return a job for every stage on the box; one that does not apply has no commands."""
    return tuple(
        StageJob(
            name=stage.name,
            kind=stage.kind,
            commands=_commands(stage, plan, kernel, builds, host, remote, emulation),
            needs=stage.needs,
            needs_end=_bare_runs(stage, plan.stages[:index], builds),
            output_bytes=stage.output_mb << 20,
            disk_bytes=stage.disk_mb << 20,
        )
        for index, stage in enumerate(plan.stages)
        if stage in plan.on_host
    )


def _commands(
    stage: Stage,
    plan: Plan,
    kernel: Kernel,
    builds: Builds,
    host: Host | None,
    remote: Remote,
    emulation: Emulation,
) -> tuple[Command, ...]:
    device, _ = executor(kernel, remote, host)
    if why_not(kernel, builds.own.arch, stage, device):
        return ()
    setup = Setup(
        kernel=kernel,
        build=builds.build_for(stage),
        selftest=builds.selftest,
        host=host,
        remote=remote,
        plan=plan,
        variant=builds.variant_for(stage),
        emulation=emulation,
    )
    if device is DeviceKind.EMULATOR:
        return _EMULATED[stage.kind](stage, setup)
    return in_one_order(_BUILDERS[kernel.level, stage.kind](stage, setup), host)


def in_one_order(commands: tuple[Command, ...], host: Host | None) -> tuple[Command, ...]:
    """Return the commands as a box of several GPUs needs them."""
    if host is None or len(host.gpus) < 2:
        return commands
    return tuple(replace(c, env={**c.env, **ONE_ORDER}) for c in commands)


def _bare_runs(stage: Stage, earlier: Sequence[Stage], builds: Builds) -> tuple[str, ...]:
    """Name the stages that run the same program as it is: what hangs there hangs under any tool.

    Another variant is another program: a debug build ends the very wait that hung, and names it.
    """
    variant = builds.variant_for(stage)
    return tuple(
        before.name
        for before in earlier
        if before.kind is StageKind.CHECKSUM and builds.variant_for(before) == variant
    )
