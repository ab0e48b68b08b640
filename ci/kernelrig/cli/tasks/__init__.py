"""The tasks: of kernels, of runs, of machines."""

from invoke import Collection

from kernelrig.cli.tasks.kernels import build, check, emulate, sass_diff
from kernelrig.cli.tasks.machines import clean, doctor, remote_add, test
from kernelrig.cli.tasks.runs import (
    baseline_accept,
    baselines,
    bench,
    collect,
    profile,
    remote_test,
)

ns = Collection(
    baseline_accept,
    baselines,
    bench,
    build,
    check,
    clean,
    collect,
    doctor,
    emulate,
    profile,
    remote_add,
    remote_test,
    sass_diff,
    test,
)

__all__ = ["ns"]
