"""`invoke compare A B`: counters, phases and source lines of two runs, reports, pages or texts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from kernelrig import report
from kernelrig.analyse.comparison import (
    compare_sides,
    is_metric_table,
    phase_side,
    profile_side,
    read_metric_table,
    source_side,
)
from kernelrig.analyse.profile_report import read_report
from kernelrig.analyse.source import read_counter_page
from kernelrig.build import toolchain
from kernelrig.errors import CiError, ConfigError
from kernelrig.model import CounterComparison, CounterSide, Outcome, ProfiledLaunch, Run, StageKind
from kernelrig.run.analyses import REPORT, phases_of_run, read_capture, read_input
from kernelrig.run.figures import stage_folder
from kernelrig.run.recorded import pair
from kernelrig.run.store import load_finished
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.text import one_line


def compare_measurements(
    root: Path, a: str, b: str, *, kernel: str = "", force: bool = False, gate: bool = False
) -> CounterComparison:
    """Compare B with A. ConfigError for a gate over measurements that cannot be compared."""
    found = compare_sides(_side(root, a, kernel), _side(root, b, kernel), force=force)
    if gate and found.inconclusive:
        raise ConfigError(
            f"--gate: {a} and {b} are not compared: they differ in {'; '.join(found.unlike)}",
            "--force compares them all the same",
        )
    return replace(found, time=_time(root, a, b))


def compared_with_before(root: Path, run: Run) -> str:
    """Return, as text, what moved since the profile that this run is compared with.

    Empty where it names none. A comparison that fails takes nothing from the run's own verdict.
    """
    before = run.profiling.before if run.profiling else ""
    if not before:
        return ""
    try:
        return report.render_comparison(compare_measurements(root, before, run.id))
    except CiError as e:
        return one_line(f"not compared with {before}: {e.message}") + "\n"


def _side(root: Path, name: str, kernel: str) -> CounterSide:
    path = Path(name)
    if path.suffix == REPORT and path.is_file():
        return profile_side(name, _launches(root, [path], kernel))
    text = read_input(name)
    if text is None:
        return _of_run(root, name, kernel)
    if is_metric_table(text):
        return read_metric_table(name, text, kernel)
    if re.search(r"\bAddress\b.*\bSource\b|\bSource\b.*\bAddress\b", text):
        return source_side(name, read_counter_page(text, kernel))
    return phase_side(name, read_capture(name, text))


def _launches(root: Path, reports: list[Path], kernel: str) -> list[ProfiledLaunch]:
    library = toolchain.fetch_wheels(root, toolchain.NCU_REPORT)
    launches = [x for r in reports for x in read_report(r, library)]
    named = [x for x in launches if not kernel or re.search(kernel, x.signature or x.kernel)]
    kernels = dict.fromkeys(x.kernel for x in named)
    if len(kernels) != 1:
        known = ", ".join(dict.fromkeys(x.kernel for x in launches))
        raise ConfigError(
            f"{reports[0].name} has {len(kernels)} kernels to compare: {known}",
            "--kernel names one",
        )
    return named


def _of_run(root: Path, name: str, kernel: str) -> CounterSide:
    """Return what a run measured: its profile, the phases of its timing build, or both."""
    directory = load_finished(root, name)
    run, folder = directory.run, directory.folder
    side = CounterSide(run.id)
    passed = (r for r in run.stages if r.verdict.outcome is Outcome.PASS)
    profiled = next((r for r in passed if r.kind is StageKind.PROFILE), None)
    if profiled:
        at = stage_folder(folder, run, profiled)
        side = profile_side(run.id, _launches(root, sorted(at.glob(f"*{REPORT}")), kernel))
    for _, analysis in phases_of_run(root, run):
        phases = phase_side(run.id, analysis.capture)
        side = replace(side, phases=phases.phases, phase_row=phases.phase_row)
    if not side.counters and not side.phases:
        raise ConfigError(
            f"{run.id} has no profile that passed, and no phases", f"run `{COMMAND} profile`"
        )
    return replace(side, conditions=side.conditions | _conditions(run))


def _conditions(run: Run) -> dict[str, str]:
    if run.host is None:
        return {}
    return {"host": run.host.hostname, "driver": run.host.driver}


def _time(root: Path, a: str, b: str) -> str:
    """Return what the timing stages of two runs say; empty where they have none to compare."""
    try:
        both = pair(root, (a, b))
    except (CiError, OSError):
        return ""
    seen = both.seen
    interval = ""
    if seen.low_percent is not None and seen.high_percent is not None:
        interval = f" ({seen.low_percent:+.2f} to {seen.high_percent:+.2f})"
    return f"{seen.result.value}, {seen.percent:+.2f}%{interval}, of their timing stages"
