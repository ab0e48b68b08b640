"""A plain program's stage: the program with the arguments of kernels.yaml."""

from __future__ import annotations

from kernelrig.model import Command, Stage
from kernelrig.stages.context import Setup

COMMAND = "program"


def program_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the one command: the program with the arguments of kernels.yaml."""
    argv = (setup.program, *setup.kernel.args)
    return (Command(COMMAND, argv, stage.time_s, core_dump=setup.kernel.cuda),)
