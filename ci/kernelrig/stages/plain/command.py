"""A plain program's stages: the program with the arguments of kernels.yaml."""

from __future__ import annotations

from kernelrig.model import Command, Stage
from kernelrig.stages.context import Setup
from kernelrig.stages.plain.invocation import program_env, program_words

COMMAND = "program"


def program_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the one command: the program with the arguments of kernels.yaml."""
    return (program_command(COMMAND, stage, setup),)


def program_command(name: str, stage: Stage, setup: Setup) -> Command:
    """Return one start of the program, in the stage's case."""
    kernel = setup.kernel
    argv = (setup.program, *program_words(kernel, stage.case))
    env = program_env(kernel, stage.case)
    return Command(name, argv, stage.time_s, env=env, core_dump=kernel.cuda)
