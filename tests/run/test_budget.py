"""Minutes and price come from earlier runs that asked the same; what cannot fit is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.errors import ConfigError
from kernelrig.files.rundir import write_atomic
from kernelrig.files.serialization import to_json
from kernelrig.model import Plan, Remote, Run
from kernelrig.run.budget import history, render_budget, require_fit
from kernelrig.run.store import RunDirectory

from tests.report import runs

PASSED = runs.ALL["pass"]
ON_HOST = {s.name for s in PASSED.plan.on_host}


def file_run(root: Path, number: int, seconds: float, **changes: object) -> None:
    stages = tuple(replace(s, seconds=seconds) for s in PASSED.stages)
    run: Run = replace(PASSED, stages=stages, **changes)  # type: ignore[arg-type]
    name = f"2026112{number}T000000Z-{PASSED.kernel.name}-x-000{number}"
    write_atomic(root / "artifacts/runs" / name / "run.json", to_json(replace(run, id=name)))


def coming(root: Path) -> RunDirectory:
    return RunDirectory(root, root / "artifacts/runs/coming", PASSED)


def remote(**budget: float) -> Remote:
    return Remote("h200", "sm_90a", **budget)  # type: ignore[arg-type]


def test_only_runs_that_asked_the_same_count(tmp_path: Path) -> None:
    file_run(tmp_path, 1, 60.0)
    file_run(tmp_path, 2, 120.0)
    file_run(tmp_path, 3, 1.0, variant="another")
    file_run(tmp_path, 4, 1.0, seed=7)  # another seed is no other work
    shorter = tuple(replace(s, samples=s.samples + 1) for s in PASSED.plan.stages)
    file_run(tmp_path, 5, 2.0, plan=Plan(PASSED.plan.name, shorter))
    took = history(coming(tmp_path)).took
    assert set(took) <= ON_HOST
    assert took
    assert {(t.least_s, t.median_s, t.most_s, t.runs) for t in took.values()} == {(1, 60, 120, 3)}


def test_the_plan_ends_with_its_minutes_its_price_and_its_limit(tmp_path: Path) -> None:
    unknown = "minutes: unknown, no earlier run there asked the same\n"
    assert render_budget(coming(tmp_path), None, {}) == unknown
    priced = remote(price_per_hour=6.0, max_cost=0.5)
    assert render_budget(coming(tmp_path), priced, {}) == (
        f"{unknown}price: unknown, at 6.00 an hour\nlimit: 5 min\n"
    )
    file_run(tmp_path, 1, 60.0)
    file_run(tmp_path, 2, 120.0)
    took = history(coming(tmp_path)).took
    skipped = dict.fromkeys(ON_HOST - set(took), "why")
    n = len(took)
    assert render_budget(coming(tmp_path), priced, skipped) == (
        f"minutes: {1.5 * n:.1f} ({n:.1f} to {2 * n:.1f} in up to 2 earlier runs)\n"
        f"price: {0.15 * n:.2f} ({0.1 * n:.2f} to {0.2 * n:.2f}), at 6.00 an hour\nlimit: 5 min\n"
    )


def test_a_few_seconds_are_not_shown_as_none(tmp_path: Path) -> None:
    file_run(tmp_path, 1, 0.5)
    shown = render_budget(coming(tmp_path), None, {})
    assert shown == "minutes: <0.1 (<0.1 to <0.1 in 1 earlier run)\n"


def test_what_is_unknown_of_a_known_plan_is_named(tmp_path: Path) -> None:
    first, *rest = PASSED.stages
    kept = (first, *(s for s in rest if s.name != "timing"))
    file_run(tmp_path, 1, 60.0)
    path = next(tmp_path.glob("artifacts/runs/*/run.json"))
    write_atomic(path, to_json(replace(PASSED, stages=kept)))
    assert "; unknown: timing\n" in render_budget(coming(tmp_path), None, {})


def test_a_run_that_never_took_so_little_is_refused(tmp_path: Path) -> None:
    require_fit(coming(tmp_path), remote(max_minutes=0.01))  # nothing is known
    file_run(tmp_path, 1, 60.0)
    n = len(history(coming(tmp_path)).took)
    require_fit(coming(tmp_path), remote(max_minutes=n))
    with pytest.raises(ConfigError) as caught:
        require_fit(coming(tmp_path), remote(max_minutes=n - 0.5))
    assert str(caught.value) == (
        f"plan {PASSED.plan.name} took {n:.1f} min on 'h200' at the least, and a run may hold it"
        f" for {n - 0.5:g} min; raise max_minutes or max_cost of the remote, or name the stages"
        " that matter (--only)"
    )


def test_minutes_on_all_gpus_are_those_of_stages_beside_each_other(tmp_path: Path) -> None:
    """On a host with two GPUs, as its last run says, one sanitizer runs beside the other."""
    assert PASSED.host is not None
    assert PASSED.remote is not None
    both = tuple({**PASSED.host.gpu, "uuid": uuid} for uuid in ("GPU-1", "GPU-2"))
    host = replace(PASSED.host, gpus=both, gpu_index=0, leased=("GPU-1", "GPU-2"))
    *first, memcheck, timing = PASSED.plan.stages
    plan = Plan("two", (*first, memcheck, replace(memcheck, name="racecheck"), timing))
    (record,) = (r for r in PASSED.stages if r.name == "memcheck")
    records = tuple(replace(record, name=s.name, seconds=60.0) for s in plan.on_host)
    earlier = replace(PASSED, id="20261120T000000Z-x", host=host, plan=plan, stages=records)
    folder = tmp_path / f"artifacts/runs/{earlier.id[:16]}-{PASSED.kernel.name}-x-0001"
    write_atomic(folder / "run.json", to_json(earlier))

    def said(gpus: str) -> str:
        assert earlier.remote is not None
        run = replace(earlier, remote=replace(earlier.remote, gpus=gpus))
        return render_budget(RunDirectory(tmp_path, coming(tmp_path).folder, run), None, {})

    assert said("0") == "minutes: 4.0 (4.0 to 4.0 in 1 earlier run)\n"
    assert said("all") == "minutes: 3.0 (3.0 to 3.0 in 1 earlier run, on 2 GPUs at once)\n"
