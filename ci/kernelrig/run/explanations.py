"""What a profile means: of a report of ncu, or of a run with what else is known of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from kernelrig import report, stages
from kernelrig.analyse.explain import explain_launch, join_launches
from kernelrig.analyse.profile_report import read_report
from kernelrig.analyse.profile_rules import judge_rules
from kernelrig.build import toolchain
from kernelrig.errors import CiError, ConfigError
from kernelrig.files import rundir, serialization
from kernelrig.model import (
    Explanation,
    Outcome,
    PowerUse,
    ProfiledLaunch,
    Run,
    SharedLayout,
    SharedPiece,
    StageKind,
    StageRecord,
    merge_values,
)
from kernelrig.run.figures import stage_folder
from kernelrig.run.store import RunDirectory, load_finished
from kernelrig.static.described_launch import describe
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.text import one_line

REPORT = ".ncu-rep"
EXPLAINED = "explain.md"
SHARED_LAYOUT = "shared-layout.json"
_FP8_FLOP_A_CYCLE = {"sm_90a": 8192, "sm_100a": 16384}
"""Of an SM's tensor cores, dense; a product and a sum are two."""


def explain(root: Path, name: str, *, kernel: str = "", timing: str = "") -> Explanation:
    """Return what a profile means: of a report, or of a run whose profile passed.

    `timing` is a run with a timing stage, whose power is shown. ConfigError where there is none.
    """
    power = _power(root, timing) if timing else None
    path = Path(name)
    if path.suffix == REPORT and path.is_file():
        found = explain_launch(_joined(_read(root, [path]), kernel), power=power)
        return replace(found, evidence=(path.name,))
    directory = load_finished(root, name)
    return _explain_run(directory, directory.run, kernel, power)


def explain_in_run(directory: RunDirectory, run: Run) -> None:
    """Write explain.md into the directory of a run; none is left where its profile did not pass."""
    file = directory.folder / EXPLAINED
    file.unlink(missing_ok=True)  # of an earlier judgement
    if run.profiling is not None and _passed(run):
        named = _named_pieces(directory, run)
        _keep_layout(directory, named.pieces)
        found = _explain_run(directory, run, named=named)
        rundir.write_atomic(file, report.render_explain_file(found))


def explanation_in_run(directory: RunDirectory, run: Run) -> Explanation | None:
    """Return what a run's profile means; None where it has none that passed."""
    return _explain_run(directory, run) if run.profiling is not None and _passed(run) else None


def explained_run(root: Path, run: Run) -> tuple[str, Explanation | None]:
    """Return what the profile of a run that has just ended means, as text and as a record.

    Nothing where it profiled nothing. What cannot be explained takes nothing from its verdict.
    """
    if run.profiling is None or run.state != "finished" or not _passed(run):
        return "", None
    try:
        found = explain(root, run.id)
    except CiError as e:
        return one_line(f"not explained: {e.message}") + "\n", None
    return report.render_explanation(found) + "\n", found


class _Named(NamedTuple):
    """The names that a program gives its shared memory; notes where they are unknown."""

    pieces: tuple[SharedPiece, ...] = ()
    notes: tuple[str, ...] = ()


def _explain_run(
    directory: RunDirectory,
    run: Run,
    kernel: str = "",
    power: PowerUse | None = None,
    named: _Named | None = None,
) -> Explanation:
    record = _profiled(run)
    folder = stage_folder(directory.folder, run, record)
    reports = [folder / r.report for r in run.profiling.runs] if run.profiling else []
    launches = _read(directory.root, reports)
    values = merge_values(launches)
    rules = [
        result
        for plan in (run.profiling.plans if run.profiling else ())
        for result in judge_rules(plan, run.profiling.chip if run.profiling else "", values)
    ]
    pieces, notes = named or _named_pieces(directory, run)
    found = explain_launch(
        _joined(launches, kernel),
        rules,
        roofline=_roofline(run, folder, values),
        pieces=pieces,
        power=power or _power_of(directory.folder, run),
        notes=notes,
    )
    return replace(found, evidence=tuple(f"stages/{folder.name}/{r.name}" for r in reports))


def write_explanation(file: str, found: Explanation) -> None:
    """Write the explanation as Markdown; ConfigError if that cannot be."""
    try:
        rundir.write_atomic(Path(file), report.render_explain_file(found))
    except OSError as e:
        raise ConfigError(f"--markdown: {file} cannot be written: {e.strerror}") from e


def _read(root: Path, reports: list[Path]) -> list[ProfiledLaunch]:
    library = toolchain.fetch_wheels(root, toolchain.NCU_REPORT)
    return [launch for path in reports for launch in read_report(path, library)]


def _joined(launches: list[ProfiledLaunch], kernel: str) -> ProfiledLaunch:
    named = [x for x in launches if not kernel or re.search(kernel, x.signature or x.kernel)]
    if not named:
        known = ", ".join(dict.fromkeys(x.kernel for x in launches)) or "none"
        raise ConfigError(f"no launch of '{kernel}' was profiled; there are {known}")
    return join_launches(named)


def _passed(run: Run) -> list[StageRecord]:
    held = (r for r in run.stages if r.kind is StageKind.PROFILE)
    return [r for r in held if r.verdict.outcome is Outcome.PASS]


def _profiled(run: Run) -> StageRecord:
    passed = _passed(run)
    if not passed:
        held = [r for r in run.stages if r.kind is StageKind.PROFILE]
        why = f"{held[0].name} did not pass" if held else "it profiled nothing"
        raise ConfigError(f"{run.id} cannot be explained: {why}", f"run `{COMMAND} profile`")
    return passed[0]


def _roofline(run: Run, folder: Path, values: dict[str, float]) -> dict[str, float]:
    """Return the least shares of the launch's cycles that its shape needs, by unit, in percent."""
    rate = _FP8_FLOP_A_CYCLE.get(run.arch)
    cycles, sms = values.get("sm__cycles_elapsed.max", 0.0), values.get("launch__sm_count", 0.0)
    if run.profiling is None or run.kernel.shape is None or not rate or not cycles or not sms:
        return {}
    try:
        shape = stages.load_result(folder / f"{run.profiling.runs[0].name}.json").shape
    except CiError:
        return {}
    found = {"tensor": 200.0 * shape.m * shape.n * shape.k / (rate * sms * cycles)}
    moved = values.get("dram__bytes_read.sum", 0.0) + values.get("dram__bytes_write.sum", 0.0)
    busy = values.get("dram__throughput.avg.pct_of_peak_sustained_elapsed", 0.0)
    if moved and busy:
        least = shape.m * shape.k + shape.n * shape.k + 2 * shape.m * shape.n
        found["dram"] = busy * least / moved
    return found


def _keep_layout(directory: RunDirectory, pieces: tuple[SharedPiece, ...]) -> None:
    """Write shared-layout.json: the run is explained alike where its program cannot be run."""
    if pieces:
        text = serialization.to_json(SharedLayout(pieces))
        rundir.write_atomic(directory.folder / SHARED_LAYOUT, text)


def _named_pieces(directory: RunDirectory, run: Run) -> _Named:
    """Ask the program, or what the run keeps of its answer."""
    if not run.kernel.level:
        return _Named(notes=("a plain program names no parts of its shared memory",))
    kept = directory.folder / SHARED_LAYOUT
    try:
        if kept.is_file():
            return _Named(serialization.from_json(SharedLayout, kept).pieces)
        directory.load_builds()
        name, cases = _profiled(run).name, run.kernel.cases
        asked = next((s.case for s in run.plan.stages if s.name == name), "") or "full"
        case = cases.get(asked) or next(iter(cases.values()))
        pieces = describe(directory.made[""], case, run.kernel).pieces
    except CiError as e:
        said = f"names of parts of shared memory: unknown, as {one_line(e.message)}"
        return _Named(notes=(said,))
    if not pieces:
        return _Named(notes=("the program names no parts of its shared memory",))
    return _Named(pieces)


def _power(root: Path, timing: str) -> PowerUse:
    directory = load_finished(root, timing)
    power = _power_of(directory.folder, directory.run)
    if power is None:
        raise ConfigError(f"--timing: {directory.run.id} has no timing stage with power samples")
    return power


def _power_of(folder: Path, run: Run) -> PowerUse | None:
    for record in run.stages:
        if record.kind is StageKind.TIMING and record.verdict.outcome is Outcome.PASS:
            seen = stages.load_timing(stage_folder(folder, run, record))
            clocks = [c for c in seen.clocks.during if c is not None]
            if clocks and (samples := [s for s in seen.samples_ms if s is not None]):
                time, watt = median(samples), median(c.power_w for c in clocks)
                return PowerUse(
                    run.id,
                    time,
                    watt,
                    clocks[0].power_limit_w,
                    time / 1e3 * watt,
                    median(c.sm_mhz for c in clocks),
                )
    return None
