"""What a run will take and cost, by earlier runs of the same stages, and if it fits its limit."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from kernelrig.errors import ConfigError
from kernelrig.files.serialization import to_json
from kernelrig.model import Remote
from kernelrig.run.durations import MALFORMED, earlier_runs
from kernelrig.run.store import RunDirectory

_READ = 20
"""How many of the last runs are read."""


@dataclass(frozen=True, slots=True)
class Took:
    """The seconds of a stage in earlier runs: least, median, most, and in how many."""

    least_s: float
    median_s: float
    most_s: float
    runs: int


def stages_took(directory: RunDirectory) -> dict[str, Took]:
    """Return what the stages on the host took in runs that asked the same of them there.

    A stage counts whose entry in the plan, variant and profile plans are the same, and of a bench
    the rounds and candidates: what was asked otherwise took another time.
    """
    own = json.loads(to_json(directory.run))
    names = {s.name for s in directory.run.plan.on_host}
    wanted = {s["name"]: s for s in own["plan"]["stages"] if s["name"] in names}
    seconds: dict[str, list[float]] = {name: [] for name in wanted}
    for earlier in earlier_runs(directory, _READ):
        with contextlib.suppress(*MALFORMED):
            if _asked(earlier) != _asked(own):
                continue
            planned = {s["name"]: s for s in earlier["plan"]["stages"]}
            for stage in earlier["stages"]:
                name, took = str(stage["name"]), float(stage["seconds"])
                if took > 0 and name in wanted and planned.get(name) == wanted[name]:
                    seconds[name].append(took)
    return {n: Took(min(s), median(s), max(s), len(s)) for n, s in seconds.items() if s}


def _asked(run: Any) -> tuple[object, ...]:  # noqa: ANN401 - any JSON value
    bench, profiling = run.get("bench"), run.get("profiling")
    compared = (bench["rounds"], len(bench["candidates"])) if bench else None
    profiled = [plan["name"] for plan in profiling["plans"]] if profiling else None
    remote = (run["remote"] or {}).get("name")
    return (run["kernel"]["name"], run["arch"], run["variant"], remote, compared, profiled)


def require_fit(directory: RunDirectory, remote: Remote) -> None:
    """Raise ConfigError for a run whose stages never took as little as its limit."""
    took, limit = stages_took(directory), remote.limit_minutes
    least = sum(t.least_s for t in took.values()) / 60
    if limit is not None and least > limit:
        raise ConfigError(
            f"plan {directory.run.plan.name} took {least:.1f} min on '{remote.name}' at the least,"
            f" and a run may hold it for {limit:g} min",
            "raise max_minutes or max_cost of the remote, or name the stages that matter (--only)",
        )


def render_budget(
    directory: RunDirectory, remote: Remote | None, skipped: Mapping[str, str]
) -> str:
    """Say which minutes and price are expected, and of which stages nothing is known."""
    took = stages_took(directory)
    planned = [s.name for s in directory.run.plan.on_host if not skipped.get(s.name)]
    known = [took[name] for name in planned if name in took]
    unknown = [name for name in planned if name not in took]
    more = f"; unknown: {', '.join(unknown)}" if unknown else ""
    if not known:
        lines = ["minutes: unknown, no earlier run there asked the same"]
    else:
        low, middle, high = (
            sum(getattr(t, part) for t in known) / 60 for part in ("least_s", "median_s", "most_s")
        )
        runs = max(t.runs for t in known)
        earlier = "1 earlier run" if runs == 1 else f"up to {runs} earlier runs"
        lines = [f"minutes: {middle:.1f} ({low:.1f} to {high:.1f} in {earlier}){more}"]
    if remote is not None and (price := remote.price_per_hour) is not None:
        if known:
            low, middle, high = (price * minutes / 60 for minutes in (low, middle, high))
            cost = f"{middle:.2f} ({low:.2f} to {high:.2f})"
        else:
            cost = "unknown"
        lines.append(f"price: {cost}, at {price:.2f} an hour{more if known else ''}")
    if remote is not None and remote.limit_minutes is not None:
        lines.append(f"limit: {remote.limit_minutes:g} min")
    return "\n".join(lines) + "\n"
