"""A bench session whose slots were measured in different environments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.files import serialization
from kernelrig.model import (
    Bench,
    BenchResult,
    Builds,
    Candidate,
    Outcome,
    Plan,
    Provenance,
    Run,
    Stage,
    StageKind,
    StageRecord,
    StageResult,
)
from kernelrig.run import baselines
from kernelrig.run.store import RunDirectory
from kernelrig.stages import read_stage, stage_jobs

from tests.stages import bench

STAGE = Stage("bench", StageKind.BENCH, case="full", time_s=120.0, warmup_s=1.0, samples=4)
OTHER = bench.build(key="fedcba9876543210")
BUILDS = Builds(bench.build(), variants={"b": OTHER})
ASKED = Bench(
    candidates=(
        Candidate("ours", "", bench.KERNEL, "production", "sm_90a", bench.build().key),
        Candidate("theirs", "b", bench.KERNEL, "production", "sm_90a", OTHER.key),
    ),
    rounds=8,
    settle_s=1.5,
)
CLOCK = bench.CLOCK | {"power_limit_w": 600.0}
CARD_OF_600_W = {"clocks.during": [CLOCK], "clocks.before": CLOCK, "clocks.after": CLOCK}


def judge(
    root: Path,
    spoil: dict[str, Any] | None = None,
    *,
    slots: range = range(9, 18),
    force: bool = False,
    gate_percent: float | None = None,
) -> StageRecord:
    """Judge a session whose second build takes 2% longer; `spoil` some of its turns."""
    asked = replace(ASKED, force=force, gate_percent=gate_percent)
    plan = Plan("bench", (STAGE,))
    run = Run(
        "20261121T120000Z-patch_embed-h200-0000",
        bench.KERNEL,
        "production",
        "sm_90a",
        bench.H200,
        plan,
        Provenance("", "", "", "", "", {}, ""),
        "2026-11-21T12:00:00Z",
        "launched",
        host=bench.HOST,
        bench=asked,
    )
    (job,) = stage_jobs(plan, bench.KERNEL, BUILDS, bench.HOST, bench.H200, bench=asked)
    found = root / "stages/01-bench"
    for number, command in enumerate(job.commands):
        slower = 1.02 if command.name.endswith("b") else 1.0
        jitter = 1 + (number % 5) / 1e4
        samples = bench.timed_ms(*(slower * jitter * ms for ms in (0.999, 1.0, 1.0, 1.001)))
        result = bench.result("time", "random", samples=samples)
        result["regime"] = "steady after 1.5 s" if number == 0 else result["regime"]
        for path, value in (spoil or {}).items() if number in slots else ():
            result = bench.invalidated(result, path, value)
        bench.write(found, {f"{command.name}.json": result})
    ended = StageResult("bench", tuple(bench.exited(c.name, 0, 0.5) for c in job.commands))
    context = replace(bench.context(), bench=asked, builds=BUILDS, run_folder=root)
    record = read_stage(STAGE, job, ended, found, context)
    return baselines.compare(RunDirectory(root, root, run), record, [record])


def pair(record: StageRecord) -> tuple[Outcome, str]:
    (check,) = (c for c in record.checks if c.name == "theirs compared with ours")
    return check.verdict.outcome, check.verdict.summary


def test_slots_of_one_environment_are_compared(tmp_path: Path) -> None:
    record = judge(tmp_path)
    outcome, said = pair(record)
    assert (outcome, said.split(",")[0]) == (Outcome.PASS, "slower")
    assert record.notes == ()
    (comparison,) = serialization.from_json(BenchResult, tmp_path / "bench.json").comparisons
    assert round(comparison.percent, 1) == 2.0


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (CARD_OF_600_W, "power limit 600.0 and 700.0"),
    ],
    ids=["power limit"],
)
def test_slots_of_different_environments_are_compared_with_force_only(
    tmp_path: Path, spoil: dict[str, Any], said: str
) -> None:
    record = judge(tmp_path / "a", spoil)
    why = f"not compared: the slots differ in their {said}; --force compares them all the same"
    assert pair(record) == (Outcome.ERROR, why)
    assert record.verdict.outcome is Outcome.ERROR
    # What was measured is on file all the same; only what it comes to is not.
    kept = serialization.from_json(BenchResult, tmp_path / "a/bench.json")
    assert (len(kept.slots), kept.comparisons) == (18, ())

    forced = judge(tmp_path / "b", spoil, force=True)
    outcome, told = pair(forced)
    assert (outcome, told.split(",")[0]) == (Outcome.PASS, "slower")
    assert forced.notes == (f"compared by --force, though {said} differ",)
    (check,) = (c for c in forced.checks if c.name == "theirs compared with ours")
    assert check.facts["forced"] == said


def test_only_the_slot_that_warms_the_card_may_differ(tmp_path: Path) -> None:
    record = judge(tmp_path, CARD_OF_600_W, slots=range(1))
    assert pair(record)[0] is Outcome.PASS
    last = judge(tmp_path / "last", CARD_OF_600_W, slots=range(17, 18))
    assert pair(last)[0] is Outcome.ERROR


def test_a_regime_that_was_not_asked_for_is_an_error_and_force_compares_nothing_with_it(
    tmp_path: Path,
) -> None:
    record = judge(tmp_path, {"regime": "steady after 0.3 s"}, force=True)
    assert pair(record)[0] is Outcome.SKIP
    assert record.verdict.outcome is Outcome.ERROR
    assert "asked for was 'steady after 1.0 s'" in record.verdict.summary


@pytest.mark.parametrize(
    ("gate", "outcome"), [(None, Outcome.PASS), (5.0, Outcome.PASS), (1.0, Outcome.FAIL)]
)
def test_slower_fails_by_a_gate_alone(tmp_path: Path, gate: float | None, outcome: Outcome) -> None:
    assert pair(judge(tmp_path, gate_percent=gate))[0] is outcome


def test_a_build_that_passed_no_checks_is_called_stale_and_compared(tmp_path: Path) -> None:
    record = judge(tmp_path)
    own = {c.name: c.facts["checks"] for c in record.checks if "checks" in c.facts}
    assert list(own) == ["ours", "theirs"]
    assert all(said.startswith("outdated: ") for said in own.values())
