"""Every figure against its budget; what nobody could say is an error, what nobody asked a skip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.model import (
    Budget,
    Check,
    FunctionResources,
    Outcome,
    Toolchain,
    Usage,
    Verdict,
    broken,
    skipped,
)
from kernelrig.static.described_launch import Launch
from kernelrig.static.resource_rules import RULES, check_resources, local_accesses, measure

from tests.static.builds import FUNCTION, made_build, made_subject
from tests.static.megakernel import ENTRY, SOURCE, compile_kernel

LAUNCH = Launch(threads=256, cluster_ctas=1, dynamic_shared_bytes=65536)
USAGE = Usage(
    registers=120,
    spill_bytes=0,
    stack_bytes=0,
    local_instructions=0,
    barriers=1,
    shared_bytes=66048,
    ctas_per_sm=2,
)
EXACT = Budget(120, 0, 0, 0, 66048, 1, 2)


def outcomes(
    usage: Usage | None, budget: Budget | None, launch: Launch | Verdict = LAUNCH
) -> dict[str, Check]:
    checks = check_resources(made_subject(budget), usage, launch, ())
    return {check.name.split()[0]: check for check in checks}


def test_static_and_dynamic_memory_and_occupancy_come_together(tmp_path: Path) -> None:
    build = made_build(tmp_path, "")
    assert measure(made_subject(), build, 0, LAUNCH) == USAGE


def test_of_several_kernels_the_worst_counts_and_the_frames_of_what_they_call(
    tmp_path: Path,
) -> None:
    called = FunctionResources("helper", 0, 16, 4, 8, 0, 0)
    other = replace(FUNCTION, name="harness_fill", registers=255)
    build = made_build(tmp_path, "", FUNCTION, called, other)
    usage = measure(made_subject(), build, 3, skipped("level 0"))
    assert usage == Usage(120, 12, 16, 3, 1, None, None)


def test_without_such_a_kernel_nothing_can_be_judged(tmp_path: Path) -> None:
    build = made_build(tmp_path, "", replace(FUNCTION, name="other"))
    assert measure(made_subject(), build, 0, LAUNCH) is None
    said = outcomes(None, EXACT)
    assert {c.verdict.outcome for c in said.values()} == {Outcome.ERROR}
    assert said["R001"].verdict.summary == "ptxas reported no kernel called '^gemm$'"


def test_what_just_fits_passes() -> None:
    said = outcomes(USAGE, EXACT)
    assert sorted(said) == [rule.code for rule in RULES.values()]
    assert {c.verdict.outcome for c in said.values()} == {Outcome.PASS}
    assert said["R001"].verdict.summary == "120 registers, the budget is at most 120"
    assert said["R007"].facts == {
        "ctas_per_sm": "2",
        "launch": "256 threads in clusters of 1",
        "fit by": "CTAs 32, threads 8, registers 2, shared memory 3",
        "budget": "2",
    }


@pytest.mark.parametrize(
    ("code", "worse", "said"),
    [
        ("R001", {"registers": 121}, "121 registers, the budget is at most 120"),
        ("R002", {"spill_bytes": 4}, "4 spill bytes, the budget is at most 0"),
        ("R003", {"stack_bytes": 8}, "8 stack bytes, the budget is at most 0"),
        ("R004", {"local_instructions": 1}, "1 local instructions, the budget is at most 0"),
        ("R005", {"shared_bytes": 66049}, "66049 shared bytes, the budget is at most 66048"),
        ("R006", {"barriers": 2}, "2 barriers, the budget is at most 1"),
        ("R007", {"ctas_per_sm": 1}, "1 ctas per sm, the budget is at least 2"),
    ],
)
def test_one_too_many_fails_and_says_how_to_fix_it(
    code: str, worse: dict[str, int], said: str
) -> None:
    checks = outcomes(replace(USAGE, **worse), EXACT)
    bad = [c for c in checks.values() if c.verdict.outcome is not Outcome.PASS]
    (check,) = bad
    assert (check.name.split()[0], check.verdict.outcome) == (code, Outcome.FAIL)
    assert check.verdict.summary == said
    assert check.verdict.evidence[-1].startswith("suggested fix: ")
    assert check.findings[0].kernel == "^gemm$"


def test_what_no_cta_may_have_fails_without_a_budget() -> None:
    said = outcomes(replace(USAGE, shared_bytes=232449, ctas_per_sm=0), None)
    assert said["R005"].verdict.outcome is Outcome.FAIL
    assert said["R005"].verdict.summary == "232449 shared bytes, of 232448 that a CTA may have"
    assert (said["R007"].verdict.outcome, said["R007"].verdict.summary) == (
        Outcome.FAIL,
        "no CTA fits on an SM",
    )


def test_without_a_budget_a_figure_is_told_and_not_judged() -> None:
    said = outcomes(USAGE, None)
    assert {c.verdict.outcome for c in said.values()} == {Outcome.SKIP}
    assert said["R001"].verdict.summary == (
        "120 registers, and no budget for demo-sm_100a-production"
    )


@pytest.mark.parametrize(
    ("launch", "outcome"),
    [(broken("it crashed"), Outcome.ERROR), (skipped("level 0"), Outcome.SKIP)],
)
def test_shared_memory_that_nobody_could_ask_for_is_no_pass(
    launch: Verdict, outcome: Outcome
) -> None:
    unknown = replace(USAGE, shared_bytes=None, ctas_per_sm=None)
    said = outcomes(unknown, EXACT, launch)
    assert [said[code].verdict.outcome for code in ("R005", "R007")] == [outcome, outcome]
    assert said["R005"].verdict.summary == launch.summary


def test_an_arch_whose_limits_are_not_known_is_an_error(tmp_path: Path) -> None:
    subject = made_subject(EXACT, arch="sm_120a")
    usage = measure(subject, made_build(tmp_path, "", arch="sm_120a"), 0, LAUNCH)
    said = {c.name.split()[0]: c for c in check_resources(subject, usage, LAUNCH, ())}
    assert said["R007"].verdict.outcome is Outcome.ERROR
    assert said["R007"].verdict.summary == "the limits of an SM of sm_120a are not known here"


def test_a_kernel_that_spills_fails_with_the_lines_that_do(
    cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    """Three CTAs an SM leave a thread 112 registers, and it wants 210."""
    edit = (SOURCE, "(Config::THREADS, 1)", "(Config::THREADS, 3)")
    compiled = compile_kernel(tmp_path / "spills", cuda_toolchain, [edit])
    function = compiled.module.function(ENTRY)
    local = local_accesses(compiled.subject, [function])
    build = replace(made_build(tmp_path / "b", "", *compiled.resources))
    usage = measure(compiled.subject, build, len(local), Launch(192, 2, 196708))
    checks = check_resources(compiled.subject, usage, Launch(192, 2, 196708), local)
    said = {c.name.split()[0]: c for c in checks}
    failed = [code for code, c in said.items() if c.verdict.outcome is Outcome.FAIL]
    assert failed == ["R002", "R003", "R004"]
    assert {(f.file, f.kernel) for f in said["R004"].findings} == {(SOURCE, ENTRY)}
    assert all(f.line > 0 for f in said["R004"].findings)
