"""How a plain program is started in a stage: its words, its environment, where its files lie."""

from __future__ import annotations

import os
from pathlib import Path

from kernelrig.model import Kernel, Plan

KERNELS = Path("kernel")
"""The folder of kernels.yaml, which files are named from."""
FILES = Path("files")
"""Where a run keeps a program's input files, each at its place in the project."""
VARIABLE = "KERNELRIG_FILES"
"""Tells a program the folder that its files are named from."""


def project_path(name: str) -> str:
    """Return the path in the project of an input file as kernels.yaml names it."""
    return os.path.normpath(KERNELS / name)


def input_files(plan: Plan, kernel: Kernel) -> tuple[str, ...]:
    """Return the input files, by their paths in the project, that a plan's stages start it with."""
    if kernel.level:
        return ()
    named = (n for stage in plan.on_host for n in kernel.invocation(stage.case).files)
    return tuple(dict.fromkeys(map(project_path, named)))


def program_words(kernel: Kernel, case: str) -> tuple[str, ...]:
    """Return the program's arguments; one that is an input file, or ends in `=FILE`, its place."""
    start = kernel.invocation(case)
    places = {name: str(Path("../..") / FILES / project_path(name)) for name in start.files}

    def placed(word: str) -> str:
        head, equals, name = word.rpartition("=")
        return f"{head}{equals}{places.get(name, name)}"

    return tuple(map(placed, start.args))


def program_env(kernel: Kernel, case: str) -> dict[str, str]:
    """Return the variables of the program's environment that kernels.yaml gives."""
    start = kernel.invocation(case)
    where = {VARIABLE: str(Path("../..") / FILES / KERNELS)} if start.files else {}
    return {**where, **start.env}
