"""Reviewed baselines: the accepted times of a host class, and a run's times compared with them.

artifacts/baselines/<host class>.json is committed and reviewed like code: a build that became
slower shows in the diff. A slower time fails only where a gate was given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig import bench as analyse
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.files import serialization
from kernelrig.model import (
    BASELINE_CHECK,
    Baseline,
    BaselineComparison,
    Baselines,
    BenchVerdict,
    Check,
    HostClass,
    Outcome,
    Purpose,
    Run,
    StageKind,
    StageRecord,
    TimedRun,
    Verdict,
    broken,
    combine,
    failed,
    join_checks,
    passed,
    skipped,
)
from kernelrig.run.check_status import OUTDATED, check_status
from kernelrig.run.store import RunDirectory
from kernelrig.run.timings import recorded_timing
from kernelrig.stages import TOTAL

FOLDER = Path("artifacts/baselines")


def load_baselines(root: Path) -> tuple[Baselines, ...]:
    """Read every file of baselines; a project that has accepted none has no such folder."""
    found = []
    for path in sorted((root / FOLDER).glob("*.json")):
        held = serialization.from_json(Baselines, path)
        if path != path_of(root, held.host_class):
            raise ProtocolError(f"{path} holds {held.host_class}, which is not its name")
        odd = next((k for k, b in held.baselines.items() if k != b.key or not b.runs), "")
        if odd:
            raise ProtocolError(f"{path}: '{odd}' holds no run of what it is called")
        if said := next(filter(None, map(_find_odd_run, held.baselines.values())), ""):
            raise ProtocolError(f"{path}: {said}")
        found.append(held)
    return tuple(found)


def _find_odd_run(of: Baseline) -> str:
    """Return why a baseline's runs are none that were accepted, empty if nothing is odd.

    A run that is there twice would make its time look steadier than it is.
    """
    ids = [r.run for r in of.runs]
    if twice := [name for name in ids if ids.count(name) > 1]:
        return f"'{of.key}' holds run {twice[0]} {ids.count(twice[0])} times"
    for r in of.runs:
        times = (r.least_ms, r.p5_ms, r.median_ms, r.p95_ms, r.most_ms)
        if not 0 < times[0] <= times[-1] < math.inf or list(times) != sorted(times):
            return f"the times of {r.run} in '{of.key}' are none: {', '.join(map(str, times))} ms"
    return ""


def path_of(root: Path, host_class: HostClass) -> Path:
    c = host_class
    words = re.findall(r"[a-z0-9]+", f"{c.gpu} {c.power_limit_w}w {c.driver_branch}".lower())
    return root / FOLDER / f"{'-'.join(words)}.json"


def compare(
    directory: RunDirectory, record: StageRecord, judged: Sequence[StageRecord]
) -> StageRecord:
    """Add to a time that counts its comparison with the baseline and the status of its build."""
    root, run = directory.root, directory.run
    if record.kind is StageKind.BENCH:
        return _checked(root, run, record)
    if _is_timed(record) and record.verdict.outcome is Outcome.PASS:
        return _judge(root, directory.folder, run, record, judged)
    return record


def _is_timed(record: StageRecord) -> bool:
    """Return whether a stage measured a time: by the harness, or of a plain program's kernels."""
    measured = record.kind is StageKind.METRICS and any(c.name == TOTAL for c in record.checks)
    return record.kind is StageKind.TIMING or measured


def with_error(record: StageRecord, verdict: Verdict) -> StageRecord:
    """Return the record of a time that could not be compared."""
    return _with(record, Check(BASELINE_CHECK, verdict))


def _checked(root: Path, run: Run, record: StageRecord) -> StageRecord:
    """Add to each candidate of a bench whether its build passed the checks as they are now.

    Sets of a sweep are never checked: what they went through is the sweep's to say.
    """
    if run.purpose is Purpose.SWEEP:
        return record
    named = {c.name: c for c in run.bench.candidates} if run.bench else {}
    checks = []
    for check in record.checks:
        if c := named.pop(check.name, None):
            status = check_status(root, c.kernel.name, c.arch, c.variant, c.key)
            check = replace(check, facts={**check.facts, "checks": status})
        checks.append(check)
    return replace(record, checks=tuple(checks))


def require_timed(run: Run) -> tuple[StageRecord, ...]:
    """Return the timing stages, if no other stage of the run failed.

    A time that is slower than its baseline counts: it may be the one that is to be accepted.
    """
    if run.bench is not None:
        raise ConfigError(
            f"{run.id} is a bench; this takes runs of remote-test, of one process each"
        )
    if run.state != "finished":
        raise ConfigError(f"{run.id} is {run.state}", f"first `invoke collect {run.id}`")
    timed = tuple(s for s in run.stages if _is_timed(s))
    if not timed:
        printed = any(s.kind is StageKind.METRICS for s in run.stages)
        more = ": what a plain program prints of itself has no baseline" if printed else ""
        raise ConfigError(f"{run.id} has no timing stage{more}")
    for record in run.stages:
        own = [c for c in record.checks if c.name != BASELINE_CHECK or record not in timed]
        outcome = combine(c.verdict for c in own) if own else record.verdict.outcome
        if outcome is Outcome.FAIL or (record in timed and outcome is not Outcome.PASS):
            why = next((c.verdict for c in own if c.verdict.outcome is outcome), record.verdict)
            raise ConfigError(f"{run.id}: {record.name} did not pass: {why.summary}")
    return timed


def _judge(
    root: Path, folder: Path, run: Run, record: StageRecord, judged: Sequence[StageRecord]
) -> StageRecord:
    checks = check_status(root, run.kernel.name, run.arch, record.variant, record.build, judged)
    time, *others = record.checks
    record = replace(
        record, checks=(replace(time, facts={**time.facts, "checks": checks}), *others)
    )
    found = recorded_timing(folder, run, record)
    if isinstance(found, str):
        return _with(record, _not_compared(f"no baseline: {found}", run.gate_percent))
    host_class, own = found
    known = load_baselines(root)
    held = next((b for b in known if b.host_class == host_class), None)
    then = _without(run, held.baselines.get(own.key)) if held else None
    if then is None:
        others_of = [str(b.host_class) for b in known if own.key in b.baselines and b is not held]
        of_it = f" of {own.key}" if held or others_of else ""
        elsewhere = f"; there is one for {' and for '.join(others_of)}" if others_of else ""
        why = f"no baseline{of_it} for {host_class}{elsewhere}"
        return _with(record, _not_compared(why, run.gate_percent))
    if then.regime != own.regime:
        why = f"not compared with the baseline: it is of '{then.regime}', this of '{own.regime}'"
        return _with(record, _not_compared(why, run.gate_percent))
    seen = analyse.compare_with_baseline(then.runs, own.runs[0].card, own.runs[0].median_ms)
    facts = _facts(root, host_class, own, then, seen)
    return _with(
        record, Check(BASELINE_CHECK, _verdict(own, then, seen, run.gate_percent), facts=facts)
    )


def _without(run: Run, then: Baseline | None) -> Baseline | None:
    """Return the baseline without this run: one that was accepted is not compared with itself."""
    others = tuple(r for r in then.runs if r.run != run.id) if then else ()
    return replace(then, runs=others) if then and others else None


def _not_compared(why: str, gate_percent: float | None) -> Check:
    """Return a skip; with a gate an error, as a gate that cannot be judged is not passed."""
    if gate_percent is None:
        return Check(BASELINE_CHECK, skipped(why))
    return Check(BASELINE_CHECK, broken(f"the gate of {gate_percent:g}% cannot be judged: {why}"))


def _verdict(
    own: Baseline, then: Baseline, seen: BaselineComparison, gate_percent: float | None
) -> Verdict:
    same = "the same build" if then.build == own.build else f"build {then.build[:12]}"
    of_it = f"{same}, {seen.basis}"
    said = f"{seen.result.value} compared with the baseline, {seen.percent:+.2f}%"
    if seen.low_percent is None or seen.high_percent is None:
        least = analyse.MIN_RUNS
        said += f": {of_it}; a comparison needs {least} runs on one card, or {least} cards"
        return passed(said) if gate_percent is None else _not_compared(said, gate_percent).verdict
    said += f" ({seen.low_percent:+.2f} to {seen.high_percent:+.2f}): {of_it}"
    if gate_percent is None:
        return passed(said)
    if seen.result is BenchVerdict.SLOWER and seen.percent > gate_percent:
        return failed(f"{said}; more than the gate of {gate_percent:g}%")
    return passed(f"{said}; within the gate of {gate_percent:g}%, as far as it is known")


def _facts(
    root: Path, host_class: HostClass, own: Baseline, then: Baseline, seen: BaselineComparison
) -> dict[str, str]:
    first, last = then.runs[0], then.runs[-1]
    commits = dict.fromkeys(_commit(r) for r in then.runs)
    known = seen.low_percent is not None
    facts = {
        "result": seen.result.value,
        "ratio": f"{1 + seen.percent / 100:.4f}",
        "interval": f"{seen.low_percent:+.2f}% to {seen.high_percent:+.2f}%" if known else "",
        "medians": f"{seen.baseline_ms:.4f} and {own.runs[0].median_ms:.4f} ms",
        "basis": seen.basis,
        "host class": str(host_class),
        "regime": then.regime,
        "case": then.case,
        "baseline build": then.build,
        "baseline runs": f"{first.run} to {last.run}" if first is not last else first.run,
        "baseline commits": ", ".join(commits),
        "baseline SM clock": span([r.sm_mhz for r in then.runs], "MHz"),
        "baseline drivers": ", ".join(sorted({r.driver for r in then.runs})),
        "baseline checks": checks_of(root, then),
    }
    return {label: value for label, value in facts.items() if value}


def checks_of(root: Path, then: Baseline) -> str:
    """Return whether the baseline's build has passed the checks in their current form."""
    return check_status(root, then.kernel, then.arch, then.variant, then.build, held=then.standards)


def _commit(run: TimedRun) -> str:
    if not run.commit:
        return "no commit"
    return f"{run.commit[:12]}{' with changes' if run.dirty_sha256 else ''}"


def span(spans: Sequence[tuple[int, int] | None], unit: str) -> str:
    """Return the least and the most of what was sampled, empty if nothing was."""
    known = [s for s in spans if s]
    if not known:
        return ""
    low, high = min(s[0] for s in known), max(s[1] for s in known)
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _with(record: StageRecord, compared: Check) -> StageRecord:
    """Return the stage with one check more; the time itself stays first in its summary."""
    checks = (*record.checks, compared)
    verdict = join_checks(checks)
    if verdict.outcome is Outcome.PASS:
        status = record.checks[0].facts.get("checks", "")
        said = [record.verdict.summary, compared.verdict.summary]
        verdict = replace(
            record.verdict, summary="; ".join([*said, *([status] if _is_outdated(status) else [])])
        )
    return replace(record, checks=checks, verdict=verdict)


def _is_outdated(checks: str) -> bool:
    return checks.startswith(OUTDATED)
