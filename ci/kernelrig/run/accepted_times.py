"""`invoke baseline-accept` writes a run's times into a reviewed file; `invoke baselines` lists all.

Later runs are compared with what is accepted here. So a time whose build cannot be made again or
has not passed its checks is rejected, unless a flag overrides that; the output then says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from kernelrig import report
from kernelrig.errors import ConfigError
from kernelrig.files import rundir, serialization
from kernelrig.model import Baseline, Baselines, HostClass, Run, TimedRun
from kernelrig.run import baselines
from kernelrig.run.check_status import OUTDATED, check_status, met_standards
from kernelrig.run.store import load_finished
from kernelrig.run.timings import recorded_timing


@dataclass(frozen=True, slots=True)
class Overrides:
    """What `invoke baseline-accept` accepts although it would reject it: one flag for each."""

    dirty: bool = False
    unchecked: bool = False
    replace: bool = False


def accept(root: Path, name: str, overrides: Overrides) -> str:
    """Write the times of a run into the file of its host class, and return what changed there."""
    directory = load_finished(root, name)
    folder, run = directory.folder, directory.run
    timed = baselines.require_timed(run)
    if (run.provenance.dirty_sha256 or not run.provenance.commit) and not overrides.dirty:
        what = "changes on top of its commit" if run.provenance.commit else "no commit"
        if named := run.provenance.not_in_commit:
            what += f" ({', '.join(named[:3])}{', ...' if named[3:] else ''})"
        raise ConfigError(f"{run.id} has {what}: its build cannot be made again", "or pass --dirty")
    said = []
    for record in timed:
        found = recorded_timing(folder, run, record)
        if isinstance(found, str):
            raise ConfigError(f"{run.id} makes no baseline: {found}")
        said.append(_accept(root, run, *found, overrides))
    return "\n".join(said)


def listing(root: Path) -> str:
    """Return a row for each baseline, and whether its build has passed today's checks."""
    head = ("host class", "baseline", "median", "p5 to p95", "runs", "build", "regime", "checks")
    rows = [head]
    for held in baselines.load_baselines(root):
        rows += [
            (
                str(held.host_class),
                b.key,
                f"{_middle(b.runs):.4f} ms",
                f"{min(r.p5_ms for r in b.runs):.4f} to {max(r.p95_ms for r in b.runs):.4f}",
                f"{len(b.runs)} on {len({r.card for r in b.runs})}",
                b.build[:12],
                b.regime,
                baselines.checks_of(root, b),
            )
            for b in held.baselines.values()
        ]
    if len(rows) == 1:
        return f"no baselines in {baselines.FOLDER}; `invoke baseline-accept RUN` writes one"
    return report.render_rows(rows)


def _accept(
    root: Path, run: Run, host_class: HostClass, new: Baseline, overrides: Overrides
) -> str:
    b = new
    checks = check_status(root, b.kernel, b.arch, b.variant, b.build)
    if checks.startswith(OUTDATED) and not overrides.unchecked:
        raise ConfigError(
            f"{run.id} is {checks}",
            "run these checks, or pass --unchecked",
        )
    new = replace(new, standards=met_standards(root, b.kernel, b.arch, b.variant, b.build))
    path = baselines.path_of(root, host_class)
    held = next((h for h in baselines.load_baselines(root) if h.host_class == host_class), None)
    if held is None and path.exists():
        raise ConfigError(f"{path.relative_to(root)} holds another host class than {host_class}")
    known = dict(held.baselines) if held else {}
    then = known.get(new.key)
    if then and then.build == new.build and then.regime != new.regime and not overrides.replace:
        raise ConfigError(
            f"the baseline of {new.key} is of '{then.regime}', {run.id} of '{new.regime}'",
            "times of two regimes are not mixed; --replace starts it anew",
        )
    now, said = _joined(then, new, anew=overrides.replace)
    known[now.key] = now
    text = serialization.to_json(Baselines(host_class, dict(sorted(known.items()))))
    rundir.write_atomic(path, text)
    return f"{path.relative_to(root)}: {now.key} on {host_class}: {said}; {checks}"


def _joined(then: Baseline | None, new: Baseline, *, anew: bool) -> tuple[Baseline, str]:
    """Add a run to those of the same build; another build takes the place of what was there."""
    (own,) = new.runs
    if then is None:
        return new, f"{own.median_ms:.4f} ms, its first run"
    if then.build != new.build or anew:
        before = _middle(then.runs)
        change = (own.median_ms / before - 1) * 100
        said = f"{before:.4f} -> {own.median_ms:.4f} ms ({change:+.2f}%), build {then.build[:12]}"
        return new, f"{said} -> {new.build[:12]}, its first run"
    others = [r for r in then.runs if r.run != own.run]
    runs = tuple(sorted((*others, own), key=lambda r: (r.started_utc, r.run)))
    standards = tuple(dict.fromkeys((*then.standards, *new.standards)))
    said = f"{own.median_ms:.4f} ms, run {len(runs)} of this build"
    return replace(new, standards=standards, runs=runs), said


def _middle(runs: Iterable[TimedRun]) -> float:
    """Return the geometric mean of the runs' medians in ms: times are compared by their ratio."""
    logs = [math.log(r.median_ms) for r in runs]
    return math.exp(sum(logs) / len(logs))
