"""From a plan to what the agent runs: a job for each stage, its commands from the stage table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelrig.model import (
    Bench,
    Builds,
    Command,
    DeviceKind,
    Emulation,
    Host,
    Inspection,
    Kernel,
    Plan,
    Profiling,
    RecordedRemote,
    Stage,
    StageJob,
    StageKind,
    executor,
)
from kernelrig.stages.chains import Chains
from kernelrig.stages.context import Setup
from kernelrig.stages.other_gpus import why_not_measured
from kernelrig.stages.table import find_pair, why_not

LEAST_S, SLOWER = 3.0, 5.0
"""A command is inspected after so many seconds, or so many times what its good runs took."""
INSPECTION_S = 10.0
"""What the looks and the core dump of a hang take: close to its limit a command gets none."""

ONE_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Let CUDA count several GPUs as nvidia-smi does: by default it puts the fastest first."""


def stage_jobs(
    plan: Plan,
    kernel: Kernel,
    builds: Builds,
    host: Host | None,
    remote: RecordedRemote,
    emulation: Emulation = Emulation(),  # noqa: B008 - frozen
    bench: Bench | None = None,
    seed: int | None = None,
    profiling: Profiling | None = None,
) -> tuple[StageJob, ...]:
    """Return a job for every stage that the agent runs.

    One that does not apply, or cannot be measured now, has no commands.
    """
    device, _ = executor(kernel, remote.device, host)

    def setup(stage: Stage) -> Setup:
        return Setup(
            kernel=kernel,
            build=builds.build_for(stage),
            selftest=builds.selftest,
            host=host,
            remote=remote,
            plan=plan,
            variant=builds.variant_for(stage),
            emulation=emulation,
            bench=bench,
            builds=builds,
            drawn=seed,
            profiling=profiling,
        )

    def commands(stage: Stage) -> tuple[Command, ...]:
        pair = find_pair(kernel, stage.kind, device)
        if pair is None or why_not(kernel, builds.own.arch, stage, device):
            return ()
        if why_not_measured(stage.kind, device, host):
            return ()
        made = pair.commands(stage, setup(stage))
        return made if device is DeviceKind.EMULATOR else in_one_order(made, host)

    return tuple(
        StageJob(
            name=stage.name,
            kind=stage.kind,
            commands=commands(stage),
            needs=stage.needs,
            needs_end=runs_without_tool(stage, plan.stages[:index], builds.own.variant),
            output_bytes=stage.output_mb << 20,
            disk_bytes=stage.disk_mb << 20,
        )
        for index, stage in enumerate(plan.stages)
        if stage in plan.on_host
    )


def inspect_early(
    jobs: Sequence[StageJob],
    plan: Plan,
    kernel: Kernel,
    builds: Builds,
    expected: Mapping[tuple[str, str], float],
) -> tuple[StageJob, ...]:
    """Return the jobs, with an inspection for each command whose good runs are known to be short.

    `expected` are the seconds of good runs by stage and command. A build without a disassembly is
    not inspected: nothing says where its warps may wait.
    """
    stages = {stage.name: stage for stage in plan.stages}
    waits: dict[str, dict[str, tuple[tuple[int, int], ...]]] = {}

    def inspected(stage: Stage, command: Command) -> Command:
        seconds = expected.get((stage.name, command.name), 0.0)
        after_s = max(LEAST_S, SLOWER * seconds)
        if seconds <= 0 or not command.core_dump or after_s + INSPECTION_S > command.time_s:
            return command
        build = builds.build_for(stage)
        if build.key not in waits:
            found = Chains(build, kernel.kernel_regex).waits()
            waits[build.key] = {s: tuple((b.first, b.last) for b in w) for s, w in found.items()}
        if not any(waits[build.key].values()):
            return command
        return replace(command, inspection=Inspection(after_s, waits[build.key]))

    return tuple(
        replace(job, commands=tuple(inspected(stages[job.name], c) for c in job.commands))
        if job.kind in (StageKind.CHECKSUM, StageKind.TIMING)
        else job
        for job in jobs
    )


def in_one_order(commands: tuple[Command, ...], host: Host | None) -> tuple[Command, ...]:
    """Return the commands as a host of several GPUs needs them."""
    if host is None or len(host.gpus) < 2:
        return commands
    return tuple(replace(c, env={**c.env, **ONE_ORDER}) for c in commands)


def runs_without_tool(stage: Stage, earlier: Sequence[Stage], variant: str) -> tuple[str, ...]:
    """Name the stages that run the same program without a tool: if it hangs there, it hangs here.

    Another variant is another program: a debug build ends the wait that hung, and names it.
    `variant` is the run's own, of stages that name none.
    """
    return tuple(
        before.name
        for before in earlier
        if before.kind is StageKind.CHECKSUM
        and (before.variant or variant) == (stage.variant or variant)
    )
