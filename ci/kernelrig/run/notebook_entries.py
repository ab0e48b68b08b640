"""Experiments with the runs that they rest on: read, opened again by a run, listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kernelrig import config
from kernelrig.config.experiment_file import ExperimentFile, load_experiments
from kernelrig.config.expression import parse_condition
from kernelrig.errors import CiError
from kernelrig.model import Experiment, ExperimentState, Kernel, Observed, RunEntry
from kernelrig.notebook.database import open_history
from kernelrig.notebook.rules import is_about, reopens, require_consistent, values_of


def read_experiments(root: Path) -> dict[str, ExperimentFile]:
    """Return the experiments by name; ConfigError for one whose verdict its figures do not give."""
    found = load_experiments(root)
    for file in found.values():
        require_consistent(file.experiment)
    return found


def announce(root: Path, entry: RunEntry) -> tuple[str, ...]:
    """Return a line for each parked experiment whose re-open condition a run fulfils."""
    if entry.state != "finished" or not entry.observed:
        return ()
    parked = _parked(root)
    kernels = config.load_kernels(root) if parked else {}
    return tuple(
        f"experiment {e.name} can be opened again: {e.reopen} ({figures})"
        for e in parked
        if (figures := _fulfilled(e, kernels.get(e.kernel), entry.observed))
    )


def reopened(root: Path) -> dict[str, str]:
    """Return for each parked experiment whose condition holds the run that says so.

    The last run counts that has a figure of its condition and is of its build.
    """
    parked = _parked(root)
    if not parked:
        return {}
    kernels, found = config.load_kernels(root), dict[str, str]()
    with open_history(root) as history:
        for e in parked:
            of_run: dict[str, list[Observed]] = {}
            for run, o in history.observed(kernel=e.kernel, arch=e.arch):
                of_run.setdefault(run, []).append(o)
            found.update(_last_fulfilled(e, kernels.get(e.kernel), of_run))
    return found


def _last_fulfilled(
    e: Experiment, kernel: Kernel | None, of_run: Mapping[str, list[Observed]]
) -> Iterator[tuple[str, str]]:
    names = set(parse_condition(e.reopen).names)
    for run in sorted(of_run, reverse=True):
        if names <= {o.metric for o in of_run[run]}:
            if figures := _fulfilled(e, kernel, of_run[run]):
                yield e.name, f"{e.reopen} ({figures} in {run})"
            return


def _fulfilled(e: Experiment, kernel: Kernel | None, found: Iterable[Observed]) -> str:
    """Return the figures that fulfil a condition: of the run's own build, or a bench's candidate.

    A run of several cases, of which the experiment names none, fulfils nothing.
    """
    of_subject: dict[str, list[Observed]] = {}
    for o in found:
        if is_about(e, kernel, o):
            of_subject.setdefault(o.subject, []).append(o)
    for subject, figures in of_subject.items():
        try:
            said = reopens(e, values_of(e, kernel, figures, subject))
        except CiError:
            continue
        if said:
            return f"{said} of {subject}" if subject else said
    return ""


def _parked(root: Path) -> list[Experiment]:
    files = read_experiments(root).values()
    return [f.experiment for f in files if f.experiment.state is ExperimentState.PARKED]


def named_runs(files: Mapping[str, ExperimentFile]) -> dict[str, str]:
    """Return the runs that experiments name, with the experiment."""
    found = {}
    for name, file in files.items():
        for run in (file.experiment.baseline, file.experiment.result):
            if run:
                found[run] = name
    return found
