"""report.html of a run, made of its directory alone; its history is that of the project around it.

No verdict depends on the page: what of a run cannot be read for it is a sentence there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from kernelrig import report, stages
from kernelrig.build import toolchain
from kernelrig.errors import CiError
from kernelrig.files import rundir
from kernelrig.files.manifest import MANIFEST, require_last_record, write_manifest
from kernelrig.files.regular_file import read_regular
from kernelrig.model import (
    DeviceKind,
    Explanation,
    Outcome,
    Run,
    SourceAnalysis,
    SourceCounters,
    StageKind,
    StageRecord,
    TimingAnalysis,
    Trend,
)
from kernelrig.notebook import trend
from kernelrig.notebook.database import FILE, open_history
from kernelrig.run.figures import observe, stage_folder
from kernelrig.run.past_runs import TIME
from kernelrig.run.store import RUNS, SOURCES, RunDirectory, load_finished
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.text import one_line

_SOURCE_BYTES = 4 << 20
_NO_LIBRARY = (
    "No charts, only their numbers: what draws them is not on this machine."
    f" `{COMMAND} report {{run}}` fetches it (33 MB, once) and draws them."
)

T = TypeVar("T")


def write_page(directory: RunDirectory, run: Run) -> None:
    """Write report.html into the directory of a run; charts are drawn if what draws them is here.

    An earlier page is gone even if this fails.
    """
    file = directory.folder / report.PAGE
    file.unlink(missing_ok=True)
    library = toolchain.wheel_tree(directory.root, toolchain.CHARTS)
    page = _render(directory, run, library if library.is_dir() else None)
    rundir.write_atomic(file, page)


def write_again(root: Path, name: str) -> Path:
    """Write the page of a recorded run anew, with its charts; return where it is.

    ProtocolError if a finished run is not as it was when it ended, or the record of another one as
    its last report left it; CiError where the library that draws charts cannot be fetched.
    """
    directory = load_finished(root, name)
    folder, run = directory.folder, directory.run
    ended = (folder / MANIFEST).is_file()
    require_last_record(folder)  # the manifest that is written here would vouch for it
    library = toolchain.fetch_wheels(root, toolchain.CHARTS)
    rundir.write_atomic(folder / report.PAGE, _render(directory, run, library))
    if ended:
        write_manifest(folder)
    return folder / report.PAGE


def _render(directory: RunDirectory, run: Run, library: Path | None) -> str:
    content = read_content(directory, run)
    if library is None:
        return report.render_page(content, {}, _NO_LIBRARY.format(run=run.id))
    try:
        drawn = report.draw_charts(report.charts_of(content), library)
    except CiError as e:
        return report.render_page(content, {}, f"No charts, only their numbers: {e.message}.")
    return report.render_page(content, drawn)


def read_content(directory: RunDirectory, run: Run) -> report.Content:
    """Return what the page shows of a run. What cannot be read is named in `absent`."""
    absent = dict[str, str]()
    folder = directory.folder

    def part(name: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (CiError, OSError) as e:
            said = e.message if isinstance(e, CiError) else str(e.strerror)
            absent[name] = one_line(f"Not shown: {said}.")
            return None

    timed = part("timing", lambda: tuple(_samples(folder, run, absent))) or ()
    trends = part("history", lambda: _trends(directory, run, absent)) if timed else ()
    explanation = part("profile", lambda: _explained(directory, run))
    counted = part("code", lambda: _counted(directory, run)) if explanation else None
    counters, source = counted or (None, None)
    return report.Content(
        run,
        timed=timed,
        trends=trends or (),
        phases=part("phases", lambda: _phases(folder, run)) or () if timed else (),
        explanation=explanation,
        counters=counters,
        source=source,
        sources=_sources(folder, counters) if counters else {},
        absent=absent,
    )


# What reads profiles and phases is imported where a run has some: most runs have none.


def _explained(directory: RunDirectory, run: Run) -> Explanation | None:
    if run.profiling is None:
        return None
    from kernelrig.run.explanations import explanation_in_run

    return explanation_in_run(directory, run)


def _phases(folder: Path, run: Run) -> tuple[tuple[str, TimingAnalysis], ...]:
    from kernelrig.run.analyses import phases_in

    return tuple(phases_in(folder, run))


def _counted(directory: RunDirectory, run: Run) -> tuple[SourceCounters, SourceAnalysis]:
    from kernelrig.analyse.source import TOP, analyse_source
    from kernelrig.run.analyses import counters_in

    counters = counters_in(directory, run)
    return counters, analyse_source(counters, {}, 0, TOP)


def _samples(folder: Path, run: Run, absent: dict[str, str]) -> Iterator[report.TimedSamples]:
    """Yield the samples of each timing stage that passed on a GPU; elsewhere none is a time."""
    timing = [s for s in run.stages if s.kind is StageKind.TIMING]
    for record in timing:
        if why := _why_no_time(record):
            absent["timing"] = one_line(f"No time of {record.name}: {why}.")
            continue
        seen = stages.load_timing(stage_folder(folder, run, record))
        samples = tuple(s for s in seen.samples_ms if s is not None)
        if samples:
            case = ", ".join(f"{name}={value}" for name, value in seen.case.items())
            yield report.TimedSamples(record.name, case, seen.regime or "", samples)
    if not timing:
        absent["timing"] = (
            f"No timing stage in this run: `{COMMAND} remote-test --remote NAME` times a kernel."
        )


def _why_no_time(record: StageRecord) -> str:
    if record.device is DeviceKind.EMULATOR:
        return "emulated, and the emulator models results and ordering, not time"
    if record.verdict.outcome is not Outcome.PASS:
        return record.verdict.summary
    return "" if record.device is DeviceKind.GPU else f"it ran on {record.device}"


def _trends(directory: RunDirectory, run: Run, absent: dict[str, str]) -> tuple[Trend, ...]:
    """Return the medians of the run's time over commits, up to this run."""
    own = [o for o in observe(directory.folder, run) if o.metric == TIME]
    root, folder = directory.root, directory.folder
    ours = folder.parent.resolve() == (root / RUNS).resolve() and (root / FILE).is_file()
    if not own or not ours:
        why = "the run is not of this project's history" if own else "no time of it counts"
        absent["history"] = f"No history of the time: {why}."
        return ()
    with open_history(root) as history:
        started = {e.id: e.started_utc for e in history.entries()}
        past = [
            (name, started[name], o)
            for name, o in history.observed(kernel=run.kernel.name, arch=run.arch)
            if o.metric == TIME and name != run.id and started[name] <= run.started_utc
        ]
    found = trend.trends((*past, *((run.id, run.started_utc, o) for o in own)))
    return tuple(t for t in found if any(run.id in p.runs for p in t.points))


def _sources(folder: Path, counters: SourceCounters) -> dict[str, tuple[str, ...]]:
    """Return the lines of the sources that counters name, of those that the run has kept."""
    found = {}
    base = (folder / SOURCES).resolve()
    for name in {i.line.file for i in counters.instructions if i.line is not None}:
        path = (base / name).resolve()
        if path.is_relative_to(base) and path.is_file():
            text = read_regular(path, _SOURCE_BYTES).decode("utf-8", errors="replace")
            found[name] = tuple(text.split("\n"))
    return found
