"""Tasks about what is known: the recorded runs and their figures over time."""

from __future__ import annotations

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import whole_number
from kernelrig.cli.project import project_root
from kernelrig.cli.reply import Reply, of_run
from kernelrig.cli.tasks.flags import RUN
from kernelrig.errors import ConfigError

_KERNEL = "of this kernel; default: any"
_ARCH = "of this arch; default: any"


@command(
    name="runs",
    help={
        "kernel": _KERNEL,
        "arch": _ARCH,
        "task": "made by this task: check, emulate, remote-test, profile, bench; default: any",
        "verdict": "pass, fail, error, incomplete, or damaged; default: any",
        "last": "how many, the last ones; default: 20",
    },
)
def list_runs(
    kernel: str = "", arch: str = "", task: str = "", verdict: str = "", last: str = "20"
) -> Reply:
    """List the recorded runs, the last first."""
    from kernelrig.run import past_runs

    wanted = past_runs.Wanted(kernel, arch, task, verdict, whole_number("last", last))
    found, text = past_runs.list_runs(project_root(), wanted)
    return Reply(text, runs=found)


@command(help={"run": RUN})
def show(run: str) -> Reply:
    """Show a recorded run: verdict, stages, builds, figures; exits as the run did."""
    from kernelrig.run import past_runs

    return of_run(*past_runs.show_run(project_root(), run))


@command(
    help={
        "kernel": _KERNEL,
        "arch": _ARCH,
        "metric": "time_ms, registers, energy_j ..., or one of a profile; default: time_ms",
        "rebuild": "read every run again into a new artifacts/history.sqlite",
    }
)
def history(
    kernel: str = "", arch: str = "", metric: str = "time_ms", rebuild: bool = False
) -> Reply:
    """Show medians with their spread over commits, for each class of hosts."""
    from kernelrig.run import past_runs

    root = project_root()
    if rebuild:
        if kernel or arch or metric != past_runs.TIME:
            raise ConfigError("--rebuild reads every run: it takes no other flag")
        return Reply(past_runs.rebuild(root))
    found, text = past_runs.trend(root, metric, kernel, arch)
    return Reply(text, trends=found)
