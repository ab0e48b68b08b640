"""The tasks that analyse a file, standard input, or what a run brought back."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig import report, stages
from kernelrig.analyse.phases import analyse_phases, parse_changes, read_clock_text
from kernelrig.analyse.profile_report import read_report
from kernelrig.analyse.source import (
    EXECUTED,
    TOP,
    analyse_source,
    launch_counters,
    read_counter_page,
    static_layout,
)
from kernelrig.build import toolchain
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.files import rundir
from kernelrig.files.regular_file import read_regular
from kernelrig.findings import locate
from kernelrig.model import (
    Build,
    Outcome,
    PhaseCapture,
    Run,
    SourceAnalysis,
    SourceCounters,
    StageKind,
    StageRecord,
    Timeline,
    TimingAnalysis,
)
from kernelrig.model.symbol import is_called
from kernelrig.run.store import RUNS, RunDirectory, load_finished
from kernelrig.sass import Flow, Module, control_flow, parse_sass
from kernelrig.terminal.command_name import COMMAND

MAX_BYTES = 256 << 20
"""Of a file or of standard input: SourceCounters of a large kernel take some 2 MB."""
STDIN = "-"
REPORT = ".ncu-rep"
_PROFILE_FIRST = f"run `{COMMAND} profile --plans source`"
_OF_THE_HARNESS = "_ZN9kernelrig"
"""The namespace of the kernels that every harness program has besides its own."""


def analyse_timing(
    root: Path, name: str, what_if: str = "", production_ms: float = 0.0, stage: str = ""
) -> TimingAnalysis:
    """Return what clock64 phases mean: of a text or a result file, of `-`, or of a run's stage."""
    changes = parse_changes(what_if)
    return analyse_phases(_capture(root, name, stage), changes, production_ms)


def analyse_counters(
    root: Path,
    name: str,
    predictions: Mapping[str, str],
    *,
    tiles: int = 0,
    kernel: str = "",
    top: int | None = None,
) -> SourceAnalysis:
    """Return what counters by instruction mean: of a source page as CSV, a report, `-`, or a run.

    Of a build's folder, or of its disassembly, it is what follows from the code alone.
    """
    if listing := _disassembly(name):
        with _named(name):
            return static_layout(_entry(parse_sass(listing), kernel))
    counters = _counters(root, name, kernel)
    with _named(name):
        return analyse_source(counters, predictions, tiles, TOP if top is None else top)


def _counters(root: Path, name: str, kernel: str) -> SourceCounters:
    path = Path(name)
    if path.suffix == REPORT and path.is_file():
        return _of_reports(root, [path], kernel)
    if (text := read_input(name)) is not None:
        with _named(name):
            return read_counter_page(text, kernel)
    directory = load_finished(root, name)
    return counters_in(directory, directory.run, kernel)


def counters_in(directory: RunDirectory, run: Run, kernel: str = "") -> SourceCounters:
    """Return the counters of the launch that a run's profile has by instruction."""
    profiled = [r for r in run.stages if r.kind is StageKind.PROFILE]
    passed = [r for r in profiled if r.verdict.outcome is Outcome.PASS]
    if not passed:
        why = f"{profiled[0].name} did not pass" if profiled else "it profiled nothing"
        raise ConfigError(f"{run.id} has no counters: {why}", _PROFILE_FIRST)
    folder = _stage_folder(directory.folder, run, passed[0])
    reports = [folder / r.report for r in run.profiling.runs] if run.profiling else []
    reports = reports or sorted(folder.glob(f"*{REPORT}"))
    counters = _of_reports(directory.root, reports, kernel)
    directory.load_builds()
    return _with_own_lines(counters, directory.made[""], run)


def _of_reports(root: Path, reports: Sequence[Path], kernel: str) -> SourceCounters:
    """Return the counters of the one launch that was profiled by instruction."""
    library = toolchain.fetch_wheels(root, toolchain.NCU_REPORT)
    launches = [x for r in reports for x in read_report(r, library)]
    named = [x for x in launches if not kernel or re.search(kernel, x.signature or x.kernel)]
    counted = [x for x in named if EXECUTED in x.metrics and x.metrics[EXECUTED].by_pc]
    known = ", ".join(dict.fromkeys(x.kernel for x in counted or launches))
    if not named:
        raise ConfigError(f"no launch of '{kernel}' was profiled; there are {known or 'none'}")
    if len(counted) > 1:
        raise ConfigError(
            f"{len(counted)} launches were profiled by instruction: {known}",
            "--kernel names one; of one kernel profile one launch: --launch-count 1",
        )
    return launch_counters((counted or named)[0])


def _with_own_lines(counters: SourceCounters, built: Build, run: Run) -> SourceCounters:
    """Name the lines of the kernel's own source, where its build has the code that was profiled.

    A report names the innermost line alone, which often is one of the harness's headers.
    """
    source, base = run.kernel.sources.get(run.arch, ""), counters.instructions[0].address
    for function in stages.Chains(built, run.kernel.kernel_regex).functions:
        held = {i.address: i for i in function.instructions}
        pairs = [(c, held.get(c.address - base)) for c in counters.instructions]
        if all(i and i.opcode in c.sass.split() for c, i in pairs):
            lines = [locate(i.place.frames, source) if i else None for _, i in pairs]
            named = zip(counters.instructions, lines, strict=True)
            return replace(
                counters,
                instructions=tuple(
                    replace(c, line=line) if line and line.line else c for c, line in named
                ),
            )
    return counters


def _disassembly(name: str) -> str:
    """Return the disassembly in a build's folder, or in a file; empty if `name` is neither."""
    path = Path(name)
    if (path / "run.json").is_file():
        return ""
    held = sorted(path.glob("*.sass")) if path.is_dir() else [path] * (path.suffix == ".sass")
    if path.is_dir() and len(held) != 1:
        raise ConfigError(f"'{name}' is no folder of a build", "pass one of artifacts/builds")
    return read_input(str(held[0])) or "" if held else ""


def _entry(module: Module, kernel: str) -> Flow:
    """Return the graph of the kernel in a disassembly; ConfigError where several could be meant."""
    entries = [f.name for f in module.functions if f.is_entry]
    own = [n for n in entries if not n.startswith(_OF_THE_HARNESS)] or entries
    named = [n for n in (entries if kernel else own) if not kernel or is_called(kernel, n)]
    if len(named) != 1:
        what = f"{len(named)} kernels" if named else f"no kernel '{kernel}'"
        raise ConfigError(f"the code has {what}", f"--kernel is one of {', '.join(entries)}")
    return control_flow(module, named[0])


def write_graph(analysis: SourceAnalysis, file: str) -> None:
    """Write the control-flow graph of a profiled kernel, with its samples, as DOT."""
    if not analysis.layout:
        raise ConfigError("--graph: the control flow of the kernel is not known")
    try:
        rundir.write_atomic(Path(file), report.render_graph(analysis))
    except OSError as e:
        raise ConfigError(f"--graph: {file} cannot be written: {e.strerror}") from e


def phases_of_run(root: Path, run: Run) -> Iterator[tuple[str, TimingAnalysis]]:
    """Yield the analysis of each timing stage that passed and whose build has clocks."""
    return phases_in(root / RUNS / run.id, run)


def phases_in(folder: Path, run: Run) -> Iterator[tuple[str, TimingAnalysis]]:
    """Yield the same of a run in any folder."""
    for record in _timed(run):
        if capture := _of_stage(folder, run, record):
            yield record.name, analyse_phases(capture)


def read_input(name: str) -> str | None:
    """Return the text of a file or of standard input; None if `name` is neither."""
    if name == STDIN:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"standard input has more than {MAX_BYTES >> 20} MB")
        return _decoded(data)
    path = Path(name)
    if not path.exists() or path.is_dir():
        return None
    try:
        return _decoded(read_regular(path, MAX_BYTES))
    except OSError as e:
        raise ConfigError(f"{name} cannot be read: {e.strerror}") from e


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the input that cannot be read."""
    try:
        yield
    except ProtocolError as e:
        shown = "standard input" if name == STDIN else name
        raise ProtocolError(f"{shown}: {e.message}", e.hint) from e


def _decoded(data: bytes) -> str:
    """Return text as a console of any system wrote it: UTF-16 is what PowerShell redirects."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def read_capture(name: str, text: str) -> PhaseCapture:
    """Return the phases of what a timing build printed, or of its result file."""
    with _named(name):
        if name != STDIN and text.lstrip().startswith("{"):
            return stages.phase_capture(stages.load_result(Path(name)))
        return read_clock_text(text)


def _capture(root: Path, name: str, stage: str) -> PhaseCapture:
    if (text := read_input(name)) is not None:
        return read_capture(name, text)
    if name != STDIN and Path(name).suffix and "/" in name and not Path(name).exists():
        raise ConfigError(f"no file '{name}'")
    directory = load_finished(root, name)
    return _of_run(directory.folder, directory.run, stage)


def _of_run(folder: Path, run: Run, stage: str) -> PhaseCapture:
    timed = [r for r in _timed(run) if stage in ("", r.name)]
    if not timed:
        known = ", ".join(r.name for r in _timed(run)) or "there are none"
        raise ConfigError(f"{run.id} has no timing stage {stage}".rstrip(), f"it has: {known}")
    found = [(r, c) for r in timed if (c := _of_stage(folder, run, r))]
    if not found:
        failed = next((r for r in timed if r.verdict.outcome is not Outcome.PASS), None)
        why = f"{failed.name} did not pass" if failed else "it timed no build with clocks"
        raise ConfigError(
            f"{run.id} has no phases: {why}", f"run `{COMMAND} remote-test --variant timing`"
        )
    if len(found) > 1:
        names = ", ".join(r.name for r, _ in found)
        raise ConfigError(f"{run.id} has phases of several stages", f"--stage is one of {names}")
    return found[0][1]


def measured_trace(root: Path, name: str, stage: str, file: str) -> Timeline:
    """Write the timeline of a trace build's result file or run to `file`, and return it.

    ConfigError for a name that is neither, or a file that cannot be written; ProtocolError where
    nothing was traced, or what was recorded cannot be.
    """
    if Path(name).is_file():
        with _named(name):
            timeline = stages.phase_timeline(stages.load_result(Path(name)))
    else:
        timeline = _trace_of_run(load_finished(root, name), stage)
    try:
        rundir.write_atomic(Path(file), report.render_timeline(timeline))
    except OSError as e:
        raise ConfigError(f"--output: {file} cannot be written: {e.strerror}") from e
    return timeline


def _trace_of_run(directory: RunDirectory, stage: str) -> Timeline:
    run = directory.run
    passed = [r for r in _timed(run) if r.verdict.outcome is Outcome.PASS]
    found = [
        (record.name, seen)
        for record in passed
        if stage in ("", record.name)
        and (seen := stages.load_timing(_stage_folder(directory.folder, run, record))).trace
    ]
    if not found:
        raise ConfigError(
            f"{run.id} has no trace of a timing stage that passed",
            f"run `{COMMAND} remote-test --variant trace`",
        )
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        raise ConfigError(f"{run.id} has traces of several stages", f"--stage is one of {names}")
    return stages.phase_timeline(found[0][1])


def _timed(run: Run) -> list[StageRecord]:
    return [record for record in run.stages if record.kind is StageKind.TIMING]


def _of_stage(folder: Path, run: Run, record: StageRecord) -> PhaseCapture | None:
    """Return the phases of a timing stage; None if it did not pass, or its build has no clocks."""
    if record.verdict.outcome is not Outcome.PASS:
        return None
    seen = stages.load_timing(_stage_folder(folder, run, record))
    if not seen.phases:
        return None
    early = stages.releases_early(run.kernel, run.arch, record.variant or run.variant)
    return stages.phase_capture(seen, released_before_stores=early)


def _stage_folder(folder: Path, run: Run, record: StageRecord) -> Path:
    number = next((i for i, job in enumerate(run.jobs, 1) if job.name == record.name), 0)
    return rundir.stage_folder(folder, number, record.name)
