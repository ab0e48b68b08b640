"""`invoke bench RUN RUN`: compare two recorded runs of remote-test.

Each is one process of its own session. How much two such runs differ by chance is estimated from
the runs of the baseline of their host class; without one the result is inconclusive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelrig import bench as analyse
from kernelrig import report
from kernelrig.errors import ConfigError
from kernelrig.model import Baseline, BaselineComparison, Environment, HostClass, Run, TimedRun
from kernelrig.run import baselines
from kernelrig.run.check_status import check_status
from kernelrig.run.store import load_finished
from kernelrig.run.timings import recorded_timing

_RUN_ID = re.compile(r"\d{8}T\d{6}Z-.+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run's one time, with its host class and the status of its build."""

    run: Run
    host_class: HostClass
    timed: Baseline
    checks: str

    @property
    def own(self) -> TimedRun:
        return self.timed.runs[0]

    @property
    def environment(self) -> Environment:
        return Environment(
            gpu=self.own.card,
            driver=self.own.driver,
            power_limit_w=self.host_class.power_limit_w,
            regime=self.timed.regime,
            case=self.timed.case,
        )

    @property
    def host(self) -> str:
        return self.run.host.hostname if self.run.host else ""


def name_runs(words: Sequence[str]) -> bool:
    """Return whether `words` are runs and not builds; raise ConfigError where they are mixed."""
    named = [bool(_RUN_ID.fullmatch(w)) or (Path(w) / "run.json").is_file() for w in words]
    if any(named) and (not all(named) or len(named) != 2):
        raise ConfigError("bench compares builds, or two recorded runs", "name two runs")
    return all(named)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two recorded runs, what their conditions differ in, and the second compared with the first.

    Of runs that differ the comparison has no interval.
    """

    a: Recorded
    b: Recorded
    unlike: tuple[str, ...]
    seen: BaselineComparison

    def require_alike(self, hint: str = "") -> None:
        if self.unlike:
            differ = f"they differ in {'; '.join(self.unlike)}"
            raise ConfigError(
                f"{self.a.run.id} and {self.b.run.id} are not compared: {differ}", hint
            )


def pair(root: Path, names: Sequence[str]) -> Pair:
    """Read two runs of one timing stage each and compare the second with the first."""
    a, b = (_load(root, name) for name in names)
    unlike = list(analyse.differences((a.environment, b.environment)))
    if a.host != b.host:
        unlike.append(f"host {a.host} and {b.host}")
    known = () if unlike else _known(root, a)
    seen = analyse.compare_runs(known, (a.own.card, b.own.card), (a.own.median_ms, b.own.median_ms))
    return Pair(a, b, tuple(unlike), seen)


def compare(root: Path, names: Sequence[str], *, force: bool) -> str:
    """Compare the second run with the first; runs of unequal conditions are not compared."""
    both = pair(root, names)
    a, b, unlike, seen = both.a, both.b, both.unlike, both.seen
    if not force:
        both.require_alike("--force compares them all the same")
    said = f"{b.run.id}: {seen.result.value} compared with {a.run.id}, {seen.percent:+.2f}%"
    if seen.low_percent is not None and seen.high_percent is not None:
        said += f" ({seen.low_percent:+.2f} to {seen.high_percent:+.2f}), from {seen.basis}"
    elif not unlike:
        basis = seen.basis or "no run"
        said += (
            f": the baseline of {a.host_class} has {basis}; `invoke bench` of builds detects more"
        )
    if unlike:
        said += f": compared by --force, though they differ in {'; '.join(unlike)}"
    head = ("run", "build", "median", "p5 to p95", "SM clock", "regime", "checks")
    rows = [head, *(_row(r) for r in (a, b))]
    return f"{report.render_rows(rows)}\n{said}"


def _load(root: Path, name: str) -> Recorded:
    directory = load_finished(root, name)
    folder, run = directory.folder, directory.run
    timed = baselines.require_timed(run)
    if len(timed) > 1:
        raise ConfigError(f"{run.id} has {len(timed)} timing stages: bench compares runs of one")
    found = recorded_timing(folder, run, timed[0])
    if isinstance(found, str):
        raise ConfigError(f"{run.id} is not compared: {found}")
    host_class, own = found
    checks = check_status(root, own.kernel, own.arch, own.variant, own.build)
    return Recorded(run, host_class, own, checks)


def _known(root: Path, like: Recorded) -> tuple[TimedRun, ...]:
    """Return the runs of the baseline of the same host class, key and regime; there may be none."""
    for held in baselines.load_baselines(root):
        then = held.baselines.get(like.timed.key)
        if held.host_class == like.host_class and then and then.regime == like.timed.regime:
            return then.runs
    return ()


def _row(r: Recorded) -> tuple[str, ...]:
    own = r.own
    return (
        r.run.id,
        f"{r.timed.kernel}-{r.timed.arch}-{r.timed.variant} {r.timed.build[:12]}",
        f"{own.median_ms:.4f} ms",
        f"{own.p5_ms:.4f} to {own.p95_ms:.4f}",
        baselines.span([own.sm_mhz], "MHz"),
        r.timed.regime,
        r.checks,
    )
