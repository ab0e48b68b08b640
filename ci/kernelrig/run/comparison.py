"""A comparison of builds on a box: its turns as a job, its files as verdicts.

A difference between two builds is no fault of either: the pair passes, and says faster, slower or
inconclusive. With a gate, what is slower than the first by more fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig import bench as analyse
from kernelrig import stages
from kernelrig.files import rundir, serialization
from kernelrig.model import (
    Bench,
    BenchResult,
    Builds,
    Candidate,
    Change,
    Check,
    Comparison,
    Host,
    Outcome,
    Plan,
    Remote,
    Run,
    Slot,
    StageJob,
    StageRecord,
    StageResult,
    Timed,
    Verdict,
    broken,
    failed,
    join_checks,
    passed,
    skipped,
)
from kernelrig.run import store

RESULT = "bench.json"


def jobs(
    plan: Plan, bench: Bench, builds: Builds, host: Host | None, remote: Remote
) -> tuple[StageJob, ...]:
    """Return the one job: all turns, so that one lease holds them."""
    (stage,) = plan.on_host
    return (stages.bench_job(stage, bench, _slots(bench), builds, host, remote),)


def judge(
    root: Path,
    folder: Path,
    run: Run,
    job: StageJob,
    result: StageResult,
    found: Path,
    context: stages.Context,
    builds: Builds,
) -> StageRecord:
    """Judge each contender, then each pair of those that passed, and put the figures on file."""
    (stage,), bench = run.plan.on_host, run.bench
    assert bench is not None
    if result.not_run:
        return store.record(run, stage, broken(f"not run: {result.not_run}"))
    contexts = [
        replace(context, kernel=c.kernel, build=builds.by_variant[c.place])
        for c in bench.candidates
    ]
    own, timed = stages.read_bench(stage, bench, _slots(bench), job, result, found, contexts)
    own = tuple(
        replace(check, facts={**check.facts, "checks": _checked(root, c)})
        for check, c in zip(own, bench.candidates, strict=True)
    )
    names = [c.name for c in bench.candidates]
    unlike = analyse.differences(t.environment for t in timed if t.round)
    pairs, compared = [], []
    for a, b in itertools.combinations(range(len(names)), 2):
        title = f"{names[b]} beside {names[a]}"
        bad = next((names[i] for i in (a, b) if own[i].verdict.outcome is not Outcome.PASS), "")
        if bad:
            pairs.append(Check(title, skipped(f"not compared: {bad} did not pass")))
        elif unlike and not bench.force:
            why = f"not compared: the turns do not share their {'; '.join(unlike)}"
            pairs.append(Check(title, broken(f"{why}; --force compares them all the same")))
        else:
            seen = analyse.compare(timed, names, a, b)
            compared.append(seen)
            pairs.append(_pair(title, seen, bench.gate_percent if a == 0 else None, unlike))
    _write(folder, run, names, timed, compared)
    checks = (*own, *pairs)
    if result.gpu_healthy_after is False:
        lost = broken("the GPU no longer answered after it: what it wrote is not to be trusted")
        checks = (*checks, Check("GPU", lost))
    return StageRecord(
        name=stage.name,
        kind=stage.kind,
        device=context.device,
        machine=context.machine,
        verdict=_joined(checks, compared),
        checks=checks,
        commands=result.commands,
        notes=tuple(f"compared by --force, though {u} differ" for u in unlike if bench.force),
        started_utc=result.commands[0].started_utc if result.commands else "",
        seconds=sum(c.seconds for c in result.commands),
        variant=run.variant,
    )


def _slots(bench: Bench) -> tuple[Slot, ...]:
    return analyse.interleave(len(bench.candidates), bench.rounds, bench.processes)


def _checked(root: Path, c: Candidate) -> str:
    """Say whether exactly this build passed the checks as they stand now."""
    return store.check_status(root, c.kernel.name, c.arch, c.variant, c.key)


def _pair(title: str, seen: Comparison, gate_percent: float | None, unlike: Sequence[str]) -> Check:
    facts = {
        "word": seen.word.value,
        "ratio": f"{seen.ratio:.4f}",
        "difference": f"{seen.percent:+.2f}%",
        "interval": f"{seen.low_percent:+.2f}% to {seen.high_percent:+.2f}%",
        "noise": "not known" if seen.noise_percent is None else f"{seen.noise_percent:.2f}%",
        "resolves": f"{seen.mdd_percent:.2f}%",
        "medians": f"{seen.a_ms:.4f} and {seen.b_ms:.4f} ms",
        "slots": f"{seen.slots} of each",
        "more": _more(seen),
    }
    facts |= {"forced": "; ".join(unlike)} if unlike else {}
    return Check(title, _verdict(seen, gate_percent), facts={k: v for k, v in facts.items() if v})


def _verdict(seen: Comparison, gate_percent: float | None) -> Verdict:
    said = f"{seen.word.value}, {seen.percent:+.2f}% ({seen.low_percent:+.2f} to"
    said += f" {seen.high_percent:+.2f}), {seen.b_ms:.4f} beside {seen.a_ms:.4f} ms"
    if seen.word is Change.INCONCLUSIVE:
        said += f"; {_more(seen)}"
    if gate_percent is None:
        return passed(said)
    if seen.word is Change.SLOWER and seen.percent > gate_percent:
        return failed(f"{said}: more than the gate of {gate_percent:g}%")
    return passed(f"{said}; within the gate of {gate_percent:g}%, as far as it is known")


def _more(seen: Comparison) -> str:
    if seen.word is not Change.INCONCLUSIVE:
        return ""
    if seen.more_minutes is None:
        return "no rental is long enough to tell so little"
    return f"{seen.more_minutes:.1f} more minutes would tell so much, if it is there"


def _joined(checks: Sequence[Check], compared: Sequence[Comparison]) -> Verdict:
    joined = join_checks(checks)
    if joined.outcome is not Outcome.PASS:
        return joined
    return passed("; ".join(f"{c.b} {c.word.value} ({c.percent:+.2f}%)" for c in compared))


def _write(
    folder: Path,
    run: Run,
    names: Sequence[str],
    timed: Sequence[Timed],
    compared: Sequence[Comparison],
) -> None:
    """Write bench.json. It is made from the files of the stage, which nobody writes again."""
    result = BenchResult(run.id, tuple(names), tuple(timed), tuple(compared))
    rundir.write_atomic(folder / RESULT, serialization.to_json(result))
