"""The tasks: of kernels, of programs, of runs, of measurements, of machines, of what is known."""

from invoke import Collection

from kernelrig.cli.tasks.kernels import build, check, emulate, sass_diff, trace, watch
from kernelrig.cli.tasks.machines import clean, doctor, init, ncu_catalogue, new, remote_add, test
from kernelrig.cli.tasks.measurements import analyze_source, analyze_timing, compare, explain
from kernelrig.cli.tasks.notebook import experiment, history, list_runs, report, show
from kernelrig.cli.tasks.programs import record, run
from kernelrig.cli.tasks.rentals import down, up
from kernelrig.cli.tasks.runs import (
    baseline_accept,
    baselines,
    bench,
    cancel,
    collect,
    gpu_needed,
    profile,
    remote_test,
)
from kernelrig.cli.tasks.sessions import session
from kernelrig.cli.tasks.sweeps import sweep

ns = Collection(
    analyze_source,
    explain,
    analyze_timing,
    baseline_accept,
    baselines,
    bench,
    build,
    cancel,
    check,
    clean,
    collect,
    compare,
    doctor,
    down,
    emulate,
    experiment,
    gpu_needed,
    history,
    init,
    list_runs,
    ncu_catalogue,
    new,
    profile,
    record,
    remote_add,
    remote_test,
    report,
    run,
    sass_diff,
    session,
    show,
    sweep,
    test,
    trace,
    up,
    watch,
)

__all__ = ["ns"]
