"""`invoke clean --runs`: which runs may be removed, which stay and why; removed where it is asked.

A run stays that has not been collected, that a baseline or an experiment names, or that has a
failed verdict on a build of which an older run that stays has one: without it the older verdict
would be the last one.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelrig.errors import CiError, ProtocolError
from kernelrig.files import serialization
from kernelrig.files.manifest import MANIFEST
from kernelrig.model import Outcome, Run, RunEntry
from kernelrig.notebook.database import open_history
from kernelrig.run import baselines, past_runs
from kernelrig.run.notebook_entries import named_runs, read_experiments
from kernelrig.run.store import RUNS
from kernelrig.terminal.text import render_rows

_Judged = Mapping[tuple[str, str], Outcome]
"""The verdicts of a run by build and standard."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A run directory, what it decided, and why it stays; empty if it may go."""

    folder: Path
    judged: _Judged
    why: str
    bytes: int


def clean_runs(root: Path, days: int, *, remove: bool) -> str:
    """List the runs that are older than `days`; remove those that may go, if `remove`.

    Nothing is removed where the baselines or the experiments cannot be read.
    """
    files = named_runs(read_experiments(root))
    named = {run: f"experiment {name} names it" for run, name in files.items()}
    for held in baselines.load_baselines(root):
        for baseline in held.baselines.values():
            named |= {r.run: f"the baseline of {baseline.key} names it" for r in baseline.runs}
    with open_history(root) as history:  # of a run that is removed it is the only record
        past_runs.refresh(root, history)
        entries = {e.id: e for e in history.entries()}
    found = _with_last_verdicts(
        [_look(p, days, named, entries.get(p.name)) for p in _folders(root)]
    )
    gone = [k for k in found if not k.why]
    stay = [k for k in found if k.why]
    rows = [(k.folder.name, f"{k.bytes / 1e6:.1f} MB", k.why or "may be removed") for k in found]
    table = render_rows([("run", "size", ""), *rows]) if rows else "no runs"
    total = f"{len(gone)} of {len(found)} runs, {sum(k.bytes for k in gone) / 1e6:.1f} MB"
    if not remove:
        hint = "; --remove removes them" if gone else ""
        return f"{table}\n{total}, may be removed{hint}"
    for k in gone:
        _remove(root, k.folder)
    return f"{table}\nremoved {total}; {len(stay)} stay, and the history has all of them"


def _look(folder: Path, days: int, named: Mapping[str, str], entry: RunEntry | None) -> _Kept:
    size = sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file())
    why = named.get(folder.name, "") or _why_kept(folder, days, entry)
    judged: dict[tuple[str, str], Outcome] = {}
    try:
        run = serialization.from_json(Run, folder / "run.json")
    except ProtocolError:
        return _Kept(folder, judged, why or "it cannot be read", size)
    for s in run.stages:
        if s.build and s.standard and s.verdict.outcome in (Outcome.PASS, Outcome.FAIL):
            key = (s.build, s.standard)
            failed = Outcome.FAIL in (judged.get(key), s.verdict.outcome)
            judged[key] = Outcome.FAIL if failed else Outcome.PASS
    return _Kept(folder, judged, why, size)


def _why_kept(folder: Path, days: int, entry: RunEntry | None) -> str:
    if entry is None or entry.problem:
        return entry.problem if entry else "it is not in the history"
    if entry.state != "finished":
        return f"it is {entry.state}: `invoke collect {entry.id}`"
    if not (folder / MANIFEST).is_file():
        return f"its client was killed before the last report: `invoke collect {entry.id}`"
    last = max((folder / name).stat().st_mtime for name in ("run.json", MANIFEST))
    if last > time.time() - days * 86400:
        return f"it is younger than {days} days"
    return ""


def _with_last_verdicts(found: Sequence[_Kept]) -> list[_Kept]:
    """Keep each run whose failed verdict an older run that stays would otherwise contradict."""
    result = sorted(found, key=lambda k: k.folder.name)
    older: dict[tuple[str, str], str] = {}
    for i, k in enumerate(result):
        failed = (key for key, outcome in k.judged.items() if outcome is Outcome.FAIL)
        first = next((older[key] for key in failed if key in older), "")
        if not k.why and first:
            k = _Kept(k.folder, k.judged, f"it has a later verdict on a build of {first}", k.bytes)
            result[i] = k
        if k.why:
            older |= dict.fromkeys(k.judged, k.folder.name)
    return result


def _folders(root: Path) -> Iterable[Path]:
    return (p for p in (root / RUNS).glob("*") if p.is_dir() and not p.is_symlink())


def _remove(root: Path, folder: Path) -> None:
    """Move a run out of its place first: what is half removed is never taken for a run."""
    apart = root / RUNS.parent / f".removed-{folder.name}-{secrets.token_hex(2)}"
    folder.rename(apart)
    try:
        shutil.rmtree(apart)
    except OSError as e:
        raise CiError(f"cannot remove {apart}: {(e.strerror or str(e)).lower()}") from e
