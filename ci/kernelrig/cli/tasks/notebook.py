"""Tasks about what is known: the recorded runs, their figures over time, the experiments."""

from __future__ import annotations

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import whole_number
from kernelrig.cli.project import project_root
from kernelrig.cli.reply import Reply, of_run
from kernelrig.errors import ConfigError

_KERNEL = "of this kernel; default: any"
MOST_ON_HOST = 1000
_ARCH = "of this arch; default: any"


@command(
    name="runs",
    help={
        "kernel": _KERNEL,
        "arch": _ARCH,
        "task": "made by this task: check, emulate, remote-test, profile, bench; default: any",
        "verdict": "pass, fail, error, incomplete, cancelled, or damaged; default: any",
        "last": "how many, the last ones; default: 20",
        "remote": "the runs that lie on this host, running or ended, in place of those here",
    },
)
def list_runs(
    kernel: str = "",
    arch: str = "",
    task: str = "",
    verdict: str = "",
    last: str = "20",
    remote: str = "",
) -> Reply:
    """List the recorded runs, the last first, or those that lie on a host."""
    from kernelrig.run import past_runs

    most = whole_number("last", last)
    if remote:
        if any((kernel, arch, task, verdict)):
            raise ConfigError("--remote lists all runs of a host: it takes no other than --last")
        from kernelrig.run.host_listing import list_on_host

        on_host, text = list_on_host(project_root(), remote, most or MOST_ON_HOST)
        return Reply(text, on_host=on_host)
    wanted = past_runs.Wanted(kernel, arch, task, verdict, most)
    found, text = past_runs.list_runs(project_root(), wanted)
    return Reply(text, runs=found)


@command()
def show(run: str) -> Reply:
    """Show a recorded run: verdict, stages, builds, figures; exits as the run did."""
    from kernelrig.run import past_runs

    if removed := past_runs.show_removed(project_root(), run):
        entry, text = removed
        return Reply(text, runs=(entry,))
    return of_run(*past_runs.show_run(project_root(), run))


@command()
def report(run: str) -> Reply:
    """Write report.html of a recorded run anew, with its charts: one page that fetches nothing."""
    from kernelrig.run import pages

    return Reply(f"{pages.write_again(project_root(), run)}\n")


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


_ACTIONS = {
    "new": (
        *("title", "kernel", "arch", "variant", "case", "hypothesis", "metric", "expect"),
        *("effort", "risk", "rank", "rule", "baseline"),
    ),
    "close": ("result", "baseline", "candidate"),
    "park": ("reopen", "why", "rank"),
    "list": ("kernel", "arch", "state", "rank"),
}
"""The actions of `experiment`, and the flags that each takes."""


@command(
    iterable=["name"],
    help={
        "action": "new, close, park or list",
        "name": "the experiment: the name of its file; `experiment new NAME` means --name NAME",
        "arch": "arch of it; default: the kernel's first",
        "variant": "variant of it; default: production",
        "case": "case of kernel/kernels.yaml; default: the one that the runs have",
        "title": "of new: the change in a few words; default: the name",
        "hypothesis": "of new: what is expected to happen, and why",
        "metric": "of new: what should move; default: time_ms",
        "expect": "of new: by how much, an estimate in percent, as -5..-2",
        "rule": "of new: go if this holds of the figures: `change_percent < -1`",
        "effort": "of new: low, medium, high; default: medium",
        "risk": "of new: low, medium, high; default: medium",
        "rank": "should try, could try, last resort, ruled out",
        "state": "of list: open, parked, closed; default: all",
        "baseline": "of new and close: the run that the result is compared with",
        "result": "of close: the run that has the figures: a bench, profile, remote-test or check",
        "candidate": "of close: which candidate of a bench, if it has more than two",
        "reopen": "of park: opened again by a run of which this holds",
        "why": "of park: why it is put off",
    },
)
def experiment(
    action: str,
    name: list[str],
    kernel: str = "",
    arch: str = "",
    variant: str = "",
    case: str = "",
    title: str = "",
    hypothesis: str = "",
    metric: str = "",
    expect: str = "",
    rule: str = "",
    effort: str = "",
    risk: str = "",
    rank: str = "",
    state: str = "",
    baseline: str = "",
    result: str = "",
    candidate: str = "",
    reopen: str = "",
    why: str = "",
) -> Reply:
    """Write down what is tried on a kernel, and have its verdict computed from runs.

    Exits 1 where `close` says no-go, 0 where it says go or inconclusive, 5 without a metric.
    """
    from kernelrig.config.selection import choose
    from kernelrig.model import Decision
    from kernelrig.run import experiments

    given = {flag: value for flag, value in locals().items() if isinstance(value, str) and value}
    choose(_ACTIONS, action, "action", "experiment")
    del given["action"]
    if odd := next((f for f in given if f not in _ACTIONS[action]), ""):
        raise ConfigError(f"`experiment {action}` takes no --{odd}", "see `--help experiment`")
    if len(name) != (action != "list"):
        needs = "no name" if action == "list" else "the NAME of one experiment"
        raise ConfigError(f"`experiment {action}` takes {needs}, not {len(name)}")
    root = project_root()
    if action == "list":
        found, text = experiments.listing(root, **given)
        return Reply(text, experiments=found)
    if action == "new":
        one, text = experiments.new(root, name[0], experiments.Wording(**given))
    elif action == "park":
        one, text = experiments.park(root, name[0], **given)
    else:
        one, text = experiments.close(root, name[0], **given)
    no_go = action == "close" and one.verdict is Decision.NO_GO
    return Reply(text, exit_code=1 if no_go else 0, experiments=(one,))
