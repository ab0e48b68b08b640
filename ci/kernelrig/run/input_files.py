"""The input files of plain programs: what a verdict rests on beside builds, kernel and plan."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kernelrig import stages
from kernelrig.files.rundir import sha256_file
from kernelrig.model import Kernel, Plan


def input_digests(root: Path, plan: Plan, kernels: Iterable[Kernel]) -> dict[str, str]:
    """Return the SHA-256 of each file that a stage starts a program with, by its project path.

    OSError for one that cannot be read.
    """
    named = (name for kernel in kernels for name in stages.input_files(plan, kernel))
    return {name: sha256_file(root / name) for name in dict.fromkeys(named)}
