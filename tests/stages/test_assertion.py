"""What a debug build's device code says of itself before it ends: which barrier, which warp.

The lines are as the CUDA C++ Programming Guide prints them (section Assertion).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.model import Outcome, Pattern, Stage, StageKind, StageRecord
from kernelrig.stages import read_stage
from kernelrig.stages.harness.assertion import Assertion, parse_assertions

from tests.stages import bench

STAGE = Stage("checksum", StageKind.CHECKSUM, case="full", patterns=(Pattern.INTEGER,))
ASSERT = {
    "name": "cudaErrorAssert",
    "code": 710,
    "text": "device-side assert triggered",
    "where": "session.cuh:151",
}
LAST = "siglip_debug: device-side assert triggered: cudaErrorAssert (710) at session.cuh:151\n"


def gave_up(barrier: str, cta: int, *threads: int) -> str:
    return "".join(
        f"mbarrier:0: wait_until: block: [{cta},0,0], thread: [{thread},0,0]"
        f" Assertion `{barrier}` failed.\n"
        for thread in threads
    )


def read(folder: Path, stderr: str, *, code: int = 70, result: bool = True) -> StageRecord:
    content = bench.result("check", "integer") | {
        "exit_code": code,
        "error": ASSERT,
        "compared": None,
        "sampled": [],
        "checksum": None,
    }
    files = {"integer-0.json": content} if result else {}
    bench.write(folder, {"integer-0.stderr.log": stderr, **files})
    ctx = bench.context()
    result_of = bench.ended(STAGE, bench.exited("integer-0", code))
    return read_stage(STAGE, bench.job(STAGE, ctx), result_of, folder, ctx)


def test_the_barrier_and_the_warp_lead_the_verdict(tmp_path: Path) -> None:
    record = read(tmp_path, gave_up("inputs_arrived", 2, *range(32, 64)) + LAST)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary == (
        "inputs_arrived never came: warp 1 of CTA (2,0,0) gave up waiting;"
        " integer-0: cudaErrorAssert (710): device-side assert triggered, at session.cuh:151"
    )
    assert record.checks[0].verdict.evidence[-1] == LAST.strip()


def test_each_barrier_that_never_came_is_named_the_first_to_give_up_first(tmp_path: Path) -> None:
    stderr = (
        gave_up("accum_ready", 0, *range(64, 192))
        + gave_up("inputs_released", 1, 0)
        + gave_up("accum_ready", 1, 64)
        + LAST
    )
    (check,) = read(tmp_path, stderr).checks
    assert check.verdict.summary.startswith(
        "accum_ready never came: warp 2 of CTA (0,0,0) and 4 more gave up waiting; integer-0: "
    )
    assert check.verdict.evidence[0] == (
        "inputs_released never came: warp 0 of CTA (1,0,0) gave up waiting"
    )


def test_an_assertion_of_any_other_kind_is_reported_with_its_line() -> None:
    text = (
        "harmless: 1: line\n"
        "/src/kernel/k.cu:19: void gemm<int, 4>(const int *): block: [0,3,0], thread: [70,1,0]"
        " Assertion `a[i] < n` failed.\n"
    )
    (found,) = parse_assertions(text)
    assert found == Assertion(
        "a[i] < n", "/src/kernel/k.cu", 19, "void gemm<int, 4>(const int *)", (("0,3,0", 2),)
    )
    assert str(found) == (
        "assertion 'a[i] < n' fails at k.cu:19 in void gemm<int, 4>(const int *):"
        " warp 2 of CTA (0,3,0)"
    )


@pytest.mark.parametrize("stderr", ["", LAST, "Assertion `x` failed.\n", "a: b: block: [0,0,0]\n"])
def test_without_an_assertion_in_print_cuda_s_own_words_stand_alone(
    tmp_path: Path, stderr: str
) -> None:
    record = read(tmp_path, stderr)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary.startswith("integer-0: cudaErrorAssert (710)")


def test_what_is_printed_is_evidence_and_never_a_verdict(tmp_path: Path) -> None:
    """A program that died without its result file may have printed anything."""
    record = read(tmp_path, gave_up("inputs_arrived", 0, 32), result=False)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.evidence[0] == (
        "inputs_arrived never came: warp 1 of CTA (0,0,0) gave up waiting"
    )
