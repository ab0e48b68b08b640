"""The history of runs: each is recorded when it ends, and listed, shown and compared over commits.

An entry is made of nothing but the run's directory, so that whoever makes it again gets the same.
What changed there behind the history's back (a run that was fetched, or whose client was killed) is
read again whenever the history is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelrig import report
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.files import serialization
from kernelrig.files.manifest import MANIFEST, is_unchanged
from kernelrig.files.validation import nearest
from kernelrig.model import Run, RunEntry, Trend
from kernelrig.notebook.database import FILE, History, open_history, set_aside
from kernelrig.notebook.trend import commit_text, render_trends, trends
from kernelrig.run.figures import observe
from kernelrig.run.gpu_decision import offer_job
from kernelrig.run.notebook_entries import announce
from kernelrig.run.reuse import offer_passed
from kernelrig.run.store import RUNS, RunDirectory, load_finished
from kernelrig.terminal.log import say
from kernelrig.terminal.text import render_rows

TIME = "time_ms"
_DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs are meant; what is empty means any."""

    kernel: str = ""
    arch: str = ""
    task: str = ""
    verdict: str = ""
    last: int = 0


def remember(directory: RunDirectory) -> tuple[str, ...]:
    """Write a run into the history, and what passed in it under its keys, for later runs to reuse.

    Return what follows from it, as `record` does.
    """
    offer_passed(directory)
    offer_job(directory)
    return record(directory.root, directory.folder)


def record(root: Path, folder: Path) -> tuple[str, ...]:
    """Write the run in `folder` into the history of the project whose run it is.

    Return what follows from it: the parked experiments that it opens again.
    """
    if folder.parent.resolve() != (root / RUNS).resolve():
        return ()  # it was fetched to another place, and is recorded where it was made
    entry = read_entry(folder)
    with open_history(root) as history:
        history.record([(entry, _state_of(folder))])
    return announce(root, entry)


def refresh(root: Path, history: History) -> None:
    """Read what is not in the history, or was written since."""
    seen = history.seen()
    new = [p for p in _folders(root) if seen.get(p.name) != _state_of(p)]
    if new:
        history.record((read_entry(p), _state_of(p)) for p in new)


def rebuild(root: Path) -> str:
    """Read every run again; return what was done. A damaged history is kept beside the new one."""
    kept = None
    try:
        count, others = _rebuild(root)
    except ProtocolError as e:
        say(e.message)
        kept = set_aside(root)
        count, others = _rebuild(root)
    said = f"{FILE}: {count} runs"
    said += f", and {others} whose directories were removed" if others else ""
    return f"{said}; the one before is kept as {kept.name}" if kept else said


def _rebuild(root: Path) -> tuple[int, int]:
    with open_history(root) as history:
        folders = list(_folders(root))
        history.record((read_entry(p), _state_of(p)) for p in folders)
        history.observed()  # all of it can be read, also what is left of runs that were removed
        return len(folders), len({e.id for e in history.entries()} - {p.name for p in folders})


def list_runs(root: Path, wanted: Wanted) -> tuple[tuple[RunEntry, ...], str]:
    """Return the runs that are meant, the last first, and a table of them."""
    with open_history(root) as history:
        refresh(root, history)
        every = history.entries()
    found = [e for e in every if _is_meant(e, wanted)]
    shown = tuple(found[: wanted.last or None])
    if not every:
        return (), "no runs yet; `invoke remote-test` makes one"
    if not shown:
        return (), f"none of {len(every)} runs is meant"
    here = {p.name for p in _folders(root)}
    head = ("run", "task", "build", "devices", "verdict", "commit")
    table = render_rows([head, *(_row(e, removed=e.id not in here) for e in shown)])
    left = len(found) - len(shown)
    more = f"\nand {left} earlier: --last {len(found)} shows all" if left else ""
    return shown, f"{table}{more}"


def show_run(root: Path, name: str) -> tuple[Run, str]:
    """Return the run that `name` means, and what the history has of it.

    ProtocolError if it is not as it was when it ended.
    """
    directory = load_finished(root, name)
    run, made = directory.run, directory.run.provenance
    builds = [(f"build {name}", key) for name, key in made.builds.items()]
    rows = [("command", made.command_line), ("toolchain", made.toolchain), *builds]
    return run, _describe(read_entry(directory.folder), rows)


def show_removed(root: Path, name: str) -> tuple[RunEntry, str] | None:
    """Return what the history has of a run whose directory is gone; None if it has no such run."""
    if not (root / FILE).exists():
        return None
    here = {p.name for p in _folders(root)}
    with open_history(root) as history:
        found = [e for e in history.entries() if name in e.id and e.id not in here]
        if len(found) != 1 or any(name in folder for folder in here):
            return None
        (entry,) = found
        entry = replace(entry, observed=tuple(o for _, o in history.observed(run=entry.id)))
    said = f"{entry.word}: {entry.id} ({entry.devices})\nits directory was removed: this is left"
    return entry, f"{said}\n\n{_describe(entry, ())}"


def _describe(entry: RunEntry, more: Sequence[tuple[str, str]]) -> str:
    rows = [
        ("task", entry.task),
        ("started", f"{entry.started_utc} to {entry.finished_utc or 'now'}"),
        ("commit", commit_text(entry.commit, entry.dirty)),
        *more,
    ]
    figures = [("figure", "value", "spread", "of")]
    for o in entry.observed:
        spread = f"{o.low:.6g} to {o.high:.6g}" if o.low < o.high else "-"
        of = ", ".join(filter(None, (o.subject, o.stage, o.variant, o.case, o.host_class)))
        figures.append((o.metric, f"{o.value:.6g} {o.unit}".strip(), spread, of))
    told = [render_rows([row for row in rows if row[1]])]
    told += [render_rows(figures)] if figures[1:] else []
    return "\n\n".join(told)


def trend(root: Path, metric: str, kernel: str, arch: str) -> tuple[tuple[Trend, ...], str]:
    """Return the values of a metric over commits, and them as text with a plot."""
    equal = {k: v for k, v in (("kernel", kernel), ("arch", arch)) if v}
    with open_history(root) as history:
        refresh(root, history)
        started = {e.id: e.started_utc for e in history.entries()}
        every = history.observed(**equal)
    found = trends((run, started[run], o) for run, o in every if o.metric == metric)
    if found:
        return found, render_trends(found)
    known = sorted({o.metric for _, o in every})
    if metric != TIME:
        raise ConfigError(
            f"no run has observed '{metric}'{nearest(metric, known)}",
            f"metrics of these runs: {', '.join(known[:12]) or 'none'}{', ...' * bool(known[12:])}",
        )
    of = " ".join(filter(None, (kernel, arch)))
    said = f"no run{f' of {of}' if of else ''} has observed {metric}"
    return (), f"{said}; others: {', '.join(known[:12])}" if known else said


def read_entry(folder: Path) -> RunEntry:
    """Return what the history holds of a run, made of its directory alone."""
    try:
        run = serialization.from_json(Run, folder / "run.json")
    except ProtocolError as e:
        said = e.message.replace(str(folder), folder.name)
        return RunEntry(folder.name, state=_DAMAGED, problem=said)
    if problem := _find_problem(folder, run):
        return RunEntry(folder.name, state=_DAMAGED, problem=problem)
    made = run.provenance
    return RunEntry(
        id=run.id,
        started_utc=run.started_utc,
        finished_utc=run.finished_utc,
        task=run.purpose,
        kernel=run.kernel.name,
        arch=run.arch,
        variant=run.variant,
        remote=run.remote.name if run.remote else "",
        plan=run.plan.name,
        devices=report.describe_devices(run),
        state=run.state,
        outcome=report.run_outcome(run) if run.stages else "",
        word=report.run_word(run) if run.stages else run.state,
        commit=made.commit,
        dirty=bool(made.dirty_sha256),
        observed=observe(folder, run),
    )


def _find_problem(folder: Path, run: Run) -> str:
    if run.id != folder.name:
        return f"its run.json is of {run.id}"
    if (folder / MANIFEST).is_file() and not is_unchanged(folder, "run.json"):
        return "run.json was changed after the last report"
    return ""


def _folders(root: Path) -> Iterator[Path]:
    """Yield the run directories in the order of their start; no link is followed."""
    for path in sorted((root / RUNS).glob("*/run.json")):
        if not path.parent.is_symlink() and not path.parent.name.startswith("."):
            yield path.parent


def _state_of(folder: Path) -> str:
    """Return what changes whenever run.json is written, or the manifest over it."""
    parts = []
    for name in ("run.json", MANIFEST):
        try:
            found = (folder / name).stat()
        except OSError:
            continue
        parts.append(f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}")
    return " ".join(parts)


def _is_meant(entry: RunEntry, wanted: Wanted) -> bool:
    pairs: Sequence[tuple[str, str]] = (
        (wanted.kernel, entry.kernel),
        (wanted.arch, entry.arch),
        (wanted.task, entry.task),
        (wanted.verdict, entry.word.partition(",")[0].partition(" ")[0] or entry.state),
    )
    return all(asked in ("", held) for asked, held in pairs)


def _row(entry: RunEntry, *, removed: bool) -> tuple[str, ...]:
    word = f"{entry.state}: {entry.problem}" if entry.problem else entry.word
    name = "-".join(filter(None, (entry.kernel, entry.arch, entry.variant)))
    return (
        f"{entry.id}{' (removed)' if removed else ''}",
        entry.task,
        name,
        entry.devices,
        word,
        commit_text(entry.commit, entry.dirty) if not entry.problem else "",
    )
