"""Barriers of a CTA, a warp and a cluster."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel

from tests.emu.harness import ENGINES, Result, run_ptx

TID = "mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5;\n"
OUT = "ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, %rd1, %rd2;\n"
WRITE = "mov.u32 %r5, word; st.shared.u32 [%r5], 7;\n"
READ = "mov.u32 %r5, word; ld.shared.u32 %r6, [%r5]; st.global.u32 [%rd1], %r6;\n"


def run(
    body: str, threads: int = 64, ctas: int = 1, number: int = 0, engine: str = "native"
) -> Result:
    return run_ptx(
        TID + OUT + body,
        {"out": np.zeros(threads, np.uint32)},
        shared=".shared .align 4 .b8 word[4];",
        block=(threads, 1, 1),
        grid=(ctas, 1, 1),
        cluster=(ctas, 1, 1),
        number=number,
        engine=engine,
    )


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize(
    "meet",
    ["bar.sync 0;", "barrier.sync.aligned 3;", "barrier.cta.sync 1, 128;", "bar.sync 2, 128;"],
)
def test_all_warps_wait_for_the_last(meet: str, number: int) -> None:
    body = "setp.ne.u32 %p1, %r0, 96; @%p1 bra A; " + WRITE + "A: " + meet + READ
    result = run(body, 128, number=number)
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {7}


@pytest.mark.parametrize("number", range(6))
def test_those_who_arrive_do_not_wait(number: int) -> None:
    body = (
        "setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;\n"
        + WRITE
        + "bar.arrive 1, 64; bra END;\n"
        + "WAIT: bar.sync 1, 64;\n"
        + READ
        + "END:"
    )
    result = run(body, number=number)
    assert result.kinds == []
    assert result.buffers["out"].tolist() == [7] * 32 + [0] * 32


def test_lanes_of_a_warp_may_come_one_after_the_other_where_it_is_not_aligned() -> None:
    body = (
        "setp.lt.u32 %p1, %r0, 16; @%p1 bra LOW;\n"
        + "barrier.sync 0; bra END;\nLOW: barrier.sync 0;\nEND:"
        + "st.global.u32 [%rd1], 1;"
    )
    result = run(body, 32)
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {1}


def test_threads_that_have_exited_are_not_waited_for() -> None:
    body = "setp.eq.u32 %p1, %r1, 1; @%p1 bra END; bar.sync 0; st.global.u32 [%rd1], 1; END:"
    result = run(body, 96)
    assert result.kinds == []
    assert result.buffers["out"].tolist() == [1] * 32 + [0] * 32 + [1] * 32


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [64, 96])
def test_where_a_number_is_given_threads_that_have_exited_are_missing(
    count: int, engine: str
) -> None:
    """An H100 (driver 580.159.04) goes on with 64 of the other two warps, and hangs with 96."""
    body = (
        f"setp.eq.u32 %p1, %r1, 1; @%p1 bra END; bar.sync 0, {count}; st.global.u32 [%rd1], 1; END:"
    )
    result = run(body, 96, engine=engine)
    if count == 64:
        assert result.kinds == []
        return
    assert result.kinds == ["deadlock"]
    assert "64 of 96 threads (those that have exited count for nothing" in (
        result.findings[0].message
    )


def test_lanes_that_have_exited_are_not_waited_for() -> None:
    body = "setp.lt.u32 %p1, %r0, 40; @%p1 bra END; bar.sync 0; st.global.u32 [%rd1], 1; END:"
    result = run(body, 96)
    assert result.kinds == []
    assert result.buffers["out"].tolist() == [0] * 40 + [1] * 56


def test_a_barrier_is_used_again_and_again() -> None:
    body = (
        "mov.u32 %r9, 0;\nL: bar.sync 0; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 50;"
        " @%p1 bra L; st.global.u32 [%rd1], %r9;"
    )
    result = run(body, number=3)
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {50}


def test_a_barrier_that_some_never_reach_is_a_deadlock_that_names_them() -> None:
    body = "setp.eq.u32 %p1, %r1, 1; @%p1 bra OTHER; bar.sync 0; bra END;\nOTHER: bar.sync 1;\nEND:"
    result = run(body)
    assert result.kinds == ["deadlock"]
    message = result.findings[0].message
    assert "barrier 0 of CTA 0, which waits for CTA 0 warp 1" in message
    assert "barrier 1 of CTA 0, which waits for CTA 0 warp 0" in message


def test_too_few_threads_are_counted_in_the_deadlock() -> None:
    result = run("setp.lt.u32 %p1, %r1, 2; @%p1 bra END; bar.sync 5, 96;\nEND:", 128)
    assert result.kinds == ["deadlock"]
    assert "barrier 5 of CTA 0, which has 64 of 96 threads" in result.findings[0].message


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("bar.red.popc.u32 %r7, 0, %p2;", 3),
        ("barrier.cta.red.popc.aligned.u32 %r7, 0, 64, !%p2;", 61),
        ("bar.red.and.pred %p3, 0, %p2; selp.u32 %r7, 1, 0, %p3;", 0),
        ("bar.red.or.pred %p3, 0, %p2; selp.u32 %r7, 1, 0, %p3;", 1),
    ],
)
def test_a_reduction_gives_all_threads_its_result(form: str, expected: int) -> None:
    result = run(f"setp.lt.u32 %p2, %r0, 3; {form} st.global.u32 [%rd1], %r7;")
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {expected}


def test_a_reduction_over_true_alone_is_true() -> None:
    body = "setp.lt.u32 %p2, %r0, 999; bar.red.and.pred %p3, 0, %p2; selp.u32 %r7, 1, 0, %p3;"
    result = run(f"{body} st.global.u32 [%rd1], %r7;")
    assert set(result.buffers["out"].tolist()) == {1}


def test_one_barrier_for_different_counts_is_a_misuse() -> None:
    body = "setp.eq.u32 %p1, %r1, 0; mov.u32 %r8, 64; @%p1 mov.u32 %r8, 128;\nbarrier.sync 1, %r8;"
    result = run(body)
    assert "barrier-misuse" in result.kinds
    assert "all who take part give one count" in result.findings[0].message


@pytest.mark.parametrize(
    ("number", "count", "text"),
    [
        (16, 64, "barrier 16: a CTA has barriers 0 to 15"),
        (1, 48, "barrier 1 for 48 threads: a multiple of 32 is wanted"),
    ],
)
def test_a_bad_number_in_a_register_is_a_misuse(number: int, count: int, text: str) -> None:
    result = run(f"mov.u32 %r8, {number}; mov.u32 %r9, {count}; barrier.sync %r8, %r9;")
    assert result.kinds == ["barrier-misuse"]
    assert result.findings[0].message == text


@pytest.mark.parametrize("text", ["bar.sync 16;", "bar.sync 0, 48;", "bar.arrive 1;"])
def test_what_ptxas_rejects_is_rejected(text: str) -> None:
    with pytest.raises(UnsupportedKernel):
        run(text)


def test_lanes_of_a_mask_synchronise() -> None:
    body = (
        "setp.lt.u32 %p1, %r0, 4; @!%p1 bra END;\n"
        "bar.warp.sync 15; st.global.u32 [%rd1], 1;\nEND: bar.warp.sync -1;"
    )
    result = run(body, 32)
    assert result.kinds == []
    assert sum(result.buffers["out"].tolist()) == 4


def test_a_lane_outside_its_mask_is_a_misuse() -> None:
    result = run("bar.warp.sync 0xff;", 32)
    assert result.kinds == ["barrier-misuse"]
    assert result.findings[0].count == 24


@pytest.mark.parametrize("number", range(4))
def test_ctas_of_a_cluster_synchronise(number: int) -> None:
    body = (
        "mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 0; mov.u32 %r5, word;\n"
        "mapa.shared::cluster.u32 %r6, %r5, 0;\n"
        "@%p1 st.shared.u32 [%r5], 9;\n"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.acquire.aligned;\n"
        "ld.shared::cluster.u32 %r8, [%r6];\n"
        "barrier.cluster.arrive.relaxed; barrier.cluster.wait;\n"
        "@!%p1 st.global.u32 [%rd1], %r8;"
    )
    result = run(body, 64, 2, number)
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {9}


def test_a_cluster_barrier_of_one_cta_is_one_of_the_cta() -> None:
    body = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; st.global.u32 [%rd1], 1;"
    result = run(body)
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {1}


def test_an_exited_cta_is_not_waited_for() -> None:
    body = (
        "mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 1; @%p1 bra END;\n"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; st.global.u32 [%rd1], 1;\n"
        "END:"
    )
    result = run(body, 64, 2)
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {1}


def test_two_arrivals_without_a_wait_are_a_misuse() -> None:
    result = run("barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait;", 32)
    assert result.kinds == ["barrier-misuse"]
    assert "barrier.cluster.arrive again before" in result.findings[0].message


def test_a_wait_without_an_arrival_is_a_misuse() -> None:
    result = run("barrier.cluster.wait;", 32)
    assert result.kinds == ["barrier-misuse"]


def test_a_cluster_barrier_that_a_cta_misses_is_a_deadlock() -> None:
    body = (
        "mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 1; @%p1 bra OTHER;\n"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; bra END;\n"
        "OTHER: bar.sync 1, 64;\nEND:"
    )
    result = run(body, 32, 2)
    assert result.kinds == ["deadlock"]
    assert "barrier.cluster, which waits for CTA 1 warp 0" in result.findings[0].message


def test_an_aligned_barrier_on_one_side_of_a_branch_is_a_misuse() -> None:
    body = "setp.ge.u32 %p1, %r0, 40; @%p1 bra ON; bar.sync 0;\nON: st.global.u32 [%rd1], 1;"
    result = run(body, 64)
    assert result.kinds == ["barrier-misuse"]
    assert "the rest of their warp takes the other" in result.findings[0].message
    assert (result.findings[0].warp, result.findings[0].lanes) == (1, 0xFF)


def test_lanes_that_wait_at_different_aligned_barriers_name_one_another() -> None:
    body = (
        "setp.ne.u32 %p1, %r0, 0; @%p1 bra OTHERS;\n"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;\n"
        "OTHERS: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    )
    result = run(body, 32)
    assert result.kinds == ["deadlock", "barrier-misuse", "barrier-misuse"]
    assert [f.lanes for f in result.findings[1:]] in ([1, 0xFFFFFFFE], [0xFFFFFFFE, 1])
    assert "for the rest of their warp, which waits at" in result.findings[1].message
