"""Emulated stages of a plain program: `python -m kernelrig.emu program`, as in `kernelrig run`.

Stages of one case share one run of the program, under all observers; each takes its own part.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelrig.files.rundir import stage_folder
from kernelrig.model import (
    FULL,
    Builds,
    Command,
    DeviceKind,
    Kernel,
    Plan,
    RecordedRemote,
    Stage,
    executor,
)
from kernelrig.stages.context import Setup
from kernelrig.stages.emulation.command import (
    CHECKED,
    LEAST_S,
    OBSERVERS,
    RUN,
    emulator_command,
    why_not_emulated,
)
from kernelrig.stages.plain.invocation import program_env, program_words

SMALL = "sanitizer"
"""The case of a plain program that is emulated in place of the whole, where it has it."""
PART = "program"
"""The command that takes the part of an exit status stage: what memcheck and synccheck find."""


def program_place(variant: str) -> Path:
    """Return the folder of an emulated program in the run's folder; empty = the run's own build."""
    return Path("launches", variant or "own", "program")


def emulated_programs(
    plan: Plan, kernel: Kernel, builds: Builds, remote: RecordedRemote
) -> tuple[str, ...]:
    """Return the variants of which the plan emulates the program, "" for the run's own."""
    device, _ = executor(kernel, remote.device, None)
    if kernel.level or device is not DeviceKind.EMULATOR:
        return ()
    arch = builds.own.arch
    wanted = (
        builds.variant_for(s)
        for s in plan.on_host
        if not why_not_emulated(kernel, s) and not (s.variant and kernel.lacks(s.variant, arch))
    )
    return tuple(dict.fromkeys(wanted))


def first_of(stage: Stage, plan: Plan, kernel: Kernel) -> Stage:
    """Return the first stage that runs the same program in the same way: it runs it for all."""
    return next(
        other
        for other in plan.on_host
        if not why_not_emulated(kernel, other) and _way(other, kernel) == _way(stage, kernel)
    )


def emulated_start(stage: Stage, kernel: Kernel) -> str:
    """Return the case that is emulated: in place of the whole the sanitizers', which is small."""
    whole = stage.case in ("", FULL)
    return SMALL if whole and not stage.whole and SMALL in kernel.program_cases else stage.case


def _way(stage: Stage, kernel: Kernel) -> tuple[object, ...]:
    start = kernel.invocation(emulated_start(stage, kernel))
    return (stage.variant, start.args, tuple(start.env.items()), start.files)


def emulated_program_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the run of the program, in the first stage of its case, and the part of this stage.

    The run may exit with findings, or with the program's own failure: each stage judges its part.
    """
    first = first_of(stage, setup.plan, setup.kernel)
    findings = Path(f"{RUN}.json")
    commands: tuple[Command, ...] = ()
    if stage == first:
        how = setup.emulation
        words = (
            *("program", str(Path("../..") / program_place(setup.variant))),
            *("--arch", setup.build.arch, "--observe", ",".join(OBSERVERS.values())),
            *("--schedules", str(how.schedules), "--seed", str(how.seed)),
            *("--engine", how.engine.value, "--json", str(findings), "--"),
            *program_words(setup.kernel, emulated_start(stage, setup.kernel)),
        )
        made = emulator_command(RUN, words, max(stage.time_s, LEAST_S), (0, 1, 2))
        env = program_env(setup.kernel, emulated_start(stage, setup.kernel))
        commands = (replace(made, env={**env, **made.env}),)
    else:
        index = setup.plan.on_host.index(first) + 1
        findings = stage_folder(Path("../.."), index, first.name) / findings
    name = stage.tool or PART
    observed = OBSERVERS[stage.tool] if stage.tool else CHECKED
    words = ("split", str(findings), "--observe", observed, "--json", f"{name}.json")
    return (*commands, emulator_command(name, words, LEAST_S))
