"""A stage that runs another variant than the run's: its own program, its own build's verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.model import (
    Builds,
    Outcome,
    Pattern,
    Plan,
    Stage,
    StageKind,
    StageRecord,
    StageResult,
    Variant,
)
from kernelrig.stages import Context, read_stage, stage_jobs, why_not

from tests.stages import bench

GUARD = bench.build(program="siglip_guard", variant="guard", key="9999888877776666")
BUILDS = Builds(bench.build(), {"guard": GUARD}, bench.SELFTEST)
STAGE = Stage(
    "tmem-guard", StageKind.CHECKSUM, "full", (Pattern.INTEGER,), time_s=60.0, variant="guard"
)


def kernel_for(*archs: str) -> Any:  # noqa: ANN401 - a kernel whose guard is for these archs
    guard = Variant("guard", "siglip_guard", archs=archs)
    sources = dict.fromkeys(("sm_90a", "sm_100a"), "k.cu")
    return replace(
        bench.KERNEL, sources=sources, variants={**bench.KERNEL.variants, "guard": guard}
    )


KERNEL = kernel_for()
ELSEWHERE = kernel_for("sm_100a")


def plan(*stages: Stage) -> Plan:
    return Plan("blackwell", stages)


def read(folder: Path, content: dict[str, Any], code: int = 0, **changes: Any) -> StageRecord:  # noqa: ANN401 - fields of a result and of a context
    bench.write(folder, {"integer-0.json": content})
    ctx: Context = bench.context(**({"kernel": KERNEL, "build": GUARD} | changes))
    (job,) = stage_jobs(plan(STAGE), KERNEL, BUILDS, bench.HOST, bench.H200)
    return read_stage(STAGE, job, bench.ended(STAGE, bench.exited("integer-0", code)), folder, ctx)


def good(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any value of a result file
    return bench.result("check", "integer") | {"program": "siglip_guard"} | changes


def test_the_program_of_the_variant_runs_from_a_place_of_its_own() -> None:
    own = replace(STAGE, name="checksum", variant="")
    jobs = stage_jobs(plan(own, STAGE), KERNEL, BUILDS, None, bench.H200)
    assert [job.commands[0].argv[0] for job in jobs] == [
        "../../build/siglip_vision",
        "../../variants/guard/siglip_guard",
    ]
    assert jobs[1].commands[0].argv[1:] == jobs[0].commands[0].argv[1:]


def test_a_run_of_that_very_variant_has_one_build_of_it() -> None:
    (job,) = stage_jobs(plan(STAGE), KERNEL, Builds(GUARD), None, bench.H200)
    assert job.commands[0].argv[0] == "../../build/siglip_guard"


def test_a_sanitizer_runs_over_the_variant_and_its_self_test_stays_where_it_is() -> None:
    stage = Stage("memcheck", StageKind.SANITIZER, "sanitizer", tool="memcheck", variant="guard")
    (job,) = stage_jobs(plan(stage), KERNEL, BUILDS, bench.HOST, bench.H200)
    selftest, run = job.commands
    assert "../../build/sanitizer_selftest" in selftest.argv
    assert "../../variants/guard/siglip_guard" in run.argv


def test_a_pass_names_the_build_that_it_rests_on(tmp_path: Path) -> None:
    record = read(tmp_path, good())
    assert (record.verdict.outcome, record.variant) == (Outcome.PASS, "guard")
    assert record.checks[0].verdict.evidence == ("variant guard: siglip_guard, build 999988887777",)
    assert record.verdict.summary == "all 1792 elements right, 1792 recomputed"


def test_a_trap_of_the_guarded_build_is_the_kernels_fault(tmp_path: Path) -> None:
    error = {
        "name": "cudaErrorLaunchFailure",
        "code": 719,
        "text": "unspecified launch failure",
        "where": "harness.cuh:151",
    }
    invalidated = good(exit_code=70, error=error, compared=None, sampled=[], checksum=None)
    record = read(tmp_path, invalidated, 70)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary == (
        "integer-0: cudaErrorLaunchFailure (719): unspecified launch failure, at harness.cuh:151"
    )
    assert "variant guard: siglip_guard, build 999988887777" in record.checks[0].verdict.evidence


def test_no_result_of_another_build_is_taken_for_it(tmp_path: Path) -> None:
    record = read(tmp_path, good(program="siglip_vision"))
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "the result is for program siglip_vision, expected siglip_guard"
    )


def test_an_arch_without_the_variant_skips_the_stage_and_says_why(tmp_path: Path) -> None:
    why = "patch_embed has no variant guard for sm_90a; it is for sm_100a"
    assert why_not(ELSEWHERE, "sm_90a", STAGE) == why
    assert why_not(ELSEWHERE, "sm_100a", STAGE) == ""
    (job,) = stage_jobs(plan(STAGE), ELSEWHERE, Builds(bench.build()), None, bench.H200)
    assert job.commands == ()
    ctx = bench.context(kernel=ELSEWHERE)
    record = read_stage(STAGE, job, StageResult("tmem-guard"), tmp_path, ctx)
    assert (record.verdict.outcome, record.verdict.summary) == (Outcome.SKIP, why)
    assert (record.variant, record.verdict.evidence) == ("guard", ())


def test_a_hang_of_one_variant_holds_back_that_variant_alone() -> None:
    """A debug build ends the very wait that hung the run's own: it is worth its seconds."""
    stages = [
        replace(STAGE, name=name, variant=variant)
        for name, variant in (("smoke", ""), ("guard", "guard"), ("full", ""), ("again", "guard"))
    ]
    jobs = stage_jobs(plan(*stages), KERNEL, BUILDS, None, bench.H200)
    assert [j.needs_end for j in jobs] == [(), (), ("smoke",), ("guard",)]


@pytest.mark.parametrize(
    ("guard", "outcome", "summary"),
    [
        (Outcome.PASS, Outcome.PASS, "0.500 ms"),
        (Outcome.SKIP, Outcome.PASS, "0.500 ms"),
        (Outcome.FAIL, Outcome.SKIP, "not counted: checksum stage tmem-guard did not pass"),
        (Outcome.ERROR, Outcome.SKIP, "not counted: checksum stage tmem-guard did not pass"),
    ],
)
def test_a_time_counts_with_a_skipped_variant_of_another_arch(
    tmp_path: Path, guard: Outcome, outcome: Outcome, summary: str
) -> None:
    earlier = {
        "checksum": bench.record("checksum", StageKind.CHECKSUM),
        "tmem-guard": bench.record("tmem-guard", StageKind.CHECKSUM, guard, "guard"),
    }
    record = timed(tmp_path, bench.context(earlier=earlier))
    assert record.verdict.outcome is outcome
    assert record.verdict.summary.startswith(summary)


def test_a_checksum_of_another_variant_proves_nothing_of_the_timed_one(tmp_path: Path) -> None:
    guard = bench.record("tmem-guard", StageKind.CHECKSUM, variant="guard")
    record = timed(tmp_path, bench.context(earlier={"tmem-guard": guard}))
    assert (record.verdict.outcome, record.verdict.summary) == (
        Outcome.ERROR,
        "not counted: no checksum stage of variant production is in this run; add one to --only",
    )


def timed(folder: Path, ctx: Context) -> StageRecord:
    stage = Stage("timing", StageKind.TIMING, "full", samples=4)
    bench.write(folder, {"timing.json": bench.result("time", "random")})
    result = bench.ended(stage, bench.exited("timing", 0))
    return read_stage(stage, bench.job(stage, ctx), result, folder, ctx)
