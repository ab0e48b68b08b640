"""What a run will take and cost, by earlier runs of the same stages, and if it fits its limit."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.files.serialization import from_value, to_json
from kernelrig.model import DeviceKind, Host, Remote, stage_gpus
from kernelrig.run.durations import MALFORMED, earlier_runs
from kernelrig.run.stage_order import seconds_together
from kernelrig.run.store import RunDirectory

LEAST_MINUTES = 0.05
_READ = 20
"""How many of the last runs are read."""


@dataclass(frozen=True, slots=True)
class Took:
    """The seconds of a stage in earlier runs: least, median, most, and in how many."""

    least_s: float
    median_s: float
    most_s: float
    runs: int


@dataclass(frozen=True, slots=True)
class History:
    """What stages took in earlier runs, and on how many GPUs of the last one's host they run."""

    took: dict[str, Took]
    gpus: int

    def together(self, directory: RunDirectory, skipped: Container[str] = ()) -> Took:
        """Return the seconds that all stages take which are not skipped and of which is known."""
        known = {n: t for n, t in self.took.items() if n not in skipped}
        least, middle, most = (
            seconds_together(directory.run.plan.on_host, seconds, self.gpus, directory.run.variant)
            for seconds in (
                {n: t.least_s for n, t in known.items()},
                {n: t.median_s for n, t in known.items()},
                {n: t.most_s for n, t in known.items()},
            )
        )
        return Took(least, middle, most, max((t.runs for t in known.values()), default=0))


def history(directory: RunDirectory) -> History:
    """Return what the stages on the host took in runs that asked the same of them there.

    A stage counts whose entry in the plan, variant and profile plans are the same, and of a bench
    the rounds and candidates: what was asked otherwise took another time.
    """
    own = json.loads(to_json(directory.run))
    names = {s.name for s in directory.run.plan.on_host}
    wanted = {s["name"]: s for s in own["plan"]["stages"] if s["name"] in names}
    seconds: dict[str, list[float]] = {name: [] for name in wanted}
    gpus = 0
    for earlier in earlier_runs(directory, _READ):
        with contextlib.suppress(*MALFORMED):
            if _asked(earlier) != _asked(own):
                continue
            gpus = gpus or _gpus(directory, earlier)
            planned = {s["name"]: s for s in earlier["plan"]["stages"]}
            for stage in earlier["stages"]:
                name, took = str(stage["name"]), float(stage["seconds"])
                if took > 0 and name in wanted and planned.get(name) == wanted[name]:
                    seconds[name].append(took)
    found = {n: Took(min(s), median(s), max(s), len(s)) for n, s in seconds.items() if s}
    return History(found, gpus)


def _gpus(directory: RunDirectory, earlier: Any) -> int:  # noqa: ANN401 - any JSON value
    """Return on how many GPUs of the host of an earlier run the stages of this one run at once."""
    if directory.device is not DeviceKind.GPU or not earlier["host"]:
        return 1
    with contextlib.suppress(ProtocolError):  # of an older version
        host = from_value(Host, earlier["host"], "its host")
        return max(1, len(stage_gpus(host, directory.remote)))
    return 1


def _asked(run: Any) -> tuple[object, ...]:  # noqa: ANN401 - any JSON value
    bench, profiling = run.get("bench"), run.get("profiling")
    compared = (bench["rounds"], len(bench["candidates"])) if bench else None
    profiled = [plan["name"] for plan in profiling["plans"]] if profiling else None
    remote = (run["remote"] or {}).get("name")
    return (run["kernel"]["name"], run["arch"], run["variant"], remote, compared, profiled)


def require_fit(directory: RunDirectory, remote: Remote) -> None:
    """Raise ConfigError for a run whose stages never took as little as its limit."""
    limit = remote.limit_minutes
    least = history(directory).together(directory).least_s / 60
    if limit is not None and least > limit:
        raise ConfigError(
            f"plan {directory.run.plan.name} took {least:.1f} min on '{remote.name}' at the least,"
            f" and a run may hold it for {limit:g} min",
            "raise max_minutes or max_cost of the remote, or name the stages that matter (--only)",
        )


def minutes_text(minutes: float) -> str:
    """Return minutes as they are shown: of a few seconds that it was less than the least figure."""
    return "<0.1" if 0 < minutes < LEAST_MINUTES else f"{minutes:.1f}"


@dataclass(frozen=True, slots=True)
class Expected:
    """Minutes of the stages that ran before, in up to `runs` runs; `unknown` are the others.

    On several `gpus` they are taken to run beside each other.
    """

    least: float
    median: float
    most: float
    runs: int
    unknown: tuple[str, ...]
    gpus: int = 1

    def __str__(self) -> str:
        earlier = "1 earlier run" if self.runs == 1 else f"up to {self.runs} earlier runs"
        at_once = f", on {self.gpus} GPUs at once" if self.gpus > 1 else ""
        least, middle, most = map(minutes_text, (self.least, self.median, self.most))
        return f"{middle} ({least} to {most} in {earlier}{at_once})"

    def cost(self, price: float) -> str:
        """Return the price by what an hour costs."""
        low, middle, high = (price * m / 60 for m in (self.least, self.median, self.most))
        return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def expected(directory: RunDirectory, skipped: Mapping[str, str]) -> Expected:
    """Return what the stages that are not skipped took before; with 0 runs nothing is known."""
    known = history(directory)
    all_of_them = known.together(directory, [name for name, why in skipped.items() if why])
    planned = [s.name for s in directory.run.plan.on_host if not skipped.get(s.name)]
    return Expected(
        all_of_them.least_s / 60,
        all_of_them.median_s / 60,
        all_of_them.most_s / 60,
        all_of_them.runs,
        tuple(name for name in planned if name not in known.took),
        known.gpus,
    )


def render_budget(
    directory: RunDirectory, remote: Remote | None, skipped: Mapping[str, str]
) -> str:
    """Say which minutes and price are expected, and of which stages nothing is known."""
    found = expected(directory, skipped)
    more = f"; unknown: {', '.join(found.unknown)}" if found.unknown else ""
    if not found.runs:
        lines = ["minutes: unknown, no earlier run there asked the same"]
    else:
        lines = [f"minutes: {found}{more}"]
    if remote is not None and (price := remote.price_per_hour) is not None:
        cost = found.cost(price) if found.runs else "unknown"
        lines.append(f"price: {cost}, at {price:.2f} an hour{more if found.runs else ''}")
    if remote is not None and remote.limit_minutes is not None:
        lines.append(f"limit: {remote.limit_minutes:g} min")
    return "\n".join(lines) + "\n"
