"""The tasks that analyse a file, standard input, or what a run brought back."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from kernelrig import report, stages
from kernelrig.analyse.phases import analyse_phases, parse_changes, read_clock_text
from kernelrig.analyse.source import TOP, analyse_source, read_counter_page, static_layout
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.files import rundir
from kernelrig.files.regular_file import read_regular
from kernelrig.model import (
    Outcome,
    PhaseCapture,
    Run,
    SourceAnalysis,
    StageKind,
    StageRecord,
    TimingAnalysis,
)
from kernelrig.model.symbol import is_called
from kernelrig.run.store import RUNS, load_finished
from kernelrig.sass import Flow, Module, control_flow, parse_sass

MAX_BYTES = 256 << 20
"""Of a file or of standard input: SourceCounters of a large kernel take some 2 MB."""
STDIN = "-"
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
    """Return what counters by instruction mean: of a source page as CSV, or of `-`.

    Of a build's folder, or of its disassembly, it is what follows from the code alone.
    """
    if listing := _disassembly(name):
        with _named(name):
            return static_layout(_entry(parse_sass(listing), kernel))
    text = read_input(name)
    if text is None:
        raise ConfigError(
            f"no file '{name}'", "pass what `ncu --import FILE --page source --csv` prints"
        )
    with _named(name):
        counters = read_counter_page(text, kernel)
        return analyse_source(counters, predictions, tiles, TOP if top is None else top)


def _disassembly(name: str) -> str:
    """Return the disassembly in a build's folder, or in a file; empty if `name` is neither."""
    path = Path(name)
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
    for record in _timed(run):
        if capture := _of_stage(root / RUNS / run.id, run, record):
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


def _capture(root: Path, name: str, stage: str) -> PhaseCapture:
    if (text := read_input(name)) is not None:
        with _named(name):
            if name != STDIN and text.lstrip().startswith("{"):
                return stages.phase_capture(stages.load_result(Path(name)))
            return read_clock_text(text)
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
            f"{run.id} has no phases: {why}", "run `ci/invoke remote-test --variant timing`"
        )
    if len(found) > 1:
        names = ", ".join(r.name for r, _ in found)
        raise ConfigError(f"{run.id} has phases of several stages", f"--stage is one of {names}")
    return found[0][1]


def _timed(run: Run) -> list[StageRecord]:
    return [record for record in run.stages if record.kind is StageKind.TIMING]


def _of_stage(folder: Path, run: Run, record: StageRecord) -> PhaseCapture | None:
    """Return the phases of a timing stage; None if it did not pass, or its build has no clocks."""
    if record.verdict.outcome is not Outcome.PASS:
        return None
    number = next((i for i, job in enumerate(run.jobs, 1) if job.name == record.name), 0)
    seen = stages.load_timing(rundir.stage_folder(folder, number, record.name))
    if not seen.phases:
        return None
    early = stages.releases_early(run.kernel, run.arch, record.variant or run.variant)
    return stages.phase_capture(seen, released_before_stores=early)
