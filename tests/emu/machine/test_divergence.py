"""Lanes and warps part and meet: every schedule gives what each thread by itself would compute."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emu.harness import Result, run_ptx

SCHEDULES = range(8)
OUT = """
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd1, %r0, 4;
add.s64 %rd2, %rd0, %rd1;
"""
"""%r0 is the thread, %rd2 the address of its output."""


def ran(body: str, threads: int = 96, number: int = 0, shared: str = "") -> Result:
    out = {"out": np.zeros(threads, np.uint32)}
    return run_ptx(OUT + body, out, block=(threads, 1, 1), number=number, shared=shared)


def steps_to_one(start: int) -> int:
    count = 0
    while start != 1:
        start = start // 2 if start % 2 == 0 else 3 * start + 1
        count += 1
    return count


@pytest.mark.parametrize("number", SCHEDULES)
def test_lanes_that_loop_for_different_times_reconverge_behind_the_loop(number: int) -> None:
    body = """
    add.u32 %r1, %r0, 1;
    mov.u32 %r2, 0;
    AGAIN:
    setp.eq.u32 %p0, %r1, 1;
    @%p0 bra DONE;
    and.b32 %r3, %r1, 1;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra EVEN;
    mad.lo.u32 %r1, %r1, 3, 1;
    bra NEXT;
    EVEN:
    shr.u32 %r1, %r1, 1;
    NEXT:
    add.u32 %r2, %r2, 1;
    bra AGAIN;
    DONE:
    bar.warp.sync 0xffffffff;
    st.global.u32 [%rd2], %r2;
    """
    result = ran(body, number=number)
    assert result.findings == ()
    assert result.buffers["out"].tolist() == [steps_to_one(i + 1) for i in range(96)]


@pytest.mark.parametrize("number", SCHEDULES)
def test_branches_within_branches_leave_each_thread_its_own_value(number: int) -> None:
    body = """
    mov.u32 %r1, 0;
    setp.lt.u32 %p0, %r0, 20;
    @%p0 bra LOW;
    and.b32 %r2, %r0, 3;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra FOURTH;
    add.u32 %r1, %r1, 100;
    bra OUTER;
    FOURTH:
    add.u32 %r1, %r1, 200;
    bra OUTER;
    LOW:
    setp.gt.u32 %p2, %r0, 9;
    @%p2 add.u32 %r1, %r1, 7;
    @!%p2 add.u32 %r1, %r1, 5;
    OUTER:
    add.u32 %r1, %r1, 1;
    st.global.u32 [%rd2], %r1;
    """
    wanted = [(8 if i > 9 else 6) if i < 20 else (201 if i % 4 == 0 else 101) for i in range(96)]
    assert ran(body, number=number).buffers["out"].tolist() == wanted


@pytest.mark.parametrize("number", SCHEDULES)
def test_an_elected_lane_may_work_while_the_others_wait_for_their_warp(number: int) -> None:
    body = """
    mov.u32 %r1, 0;
    elect.sync %r9|%p0, 0xffffffff;
    @!%p0 bra MEET;
    WORK:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 50;
    @%p1 bra WORK;
    MEET:
    bar.warp.sync 0xffffffff;
    shfl.sync.idx.b32 %r2, %r1, %r9, 31, 0xffffffff;
    st.global.u32 [%rd2], %r2;
    """
    assert ran(body, number=number).buffers["out"].tolist() == [50] * 96


@pytest.mark.parametrize("number", SCHEDULES)
def test_threads_that_return_early_are_not_waited_for(number: int) -> None:
    body = """
    and.b32 %r1, %r0, 1;
    setp.eq.u32 %p0, %r1, 1;
    @%p0 ret;
    bar.warp.sync 0x55555555;
    st.global.u32 [%rd2], 3;
    """
    assert ran(body, number=number).buffers["out"].tolist() == [3, 0] * 48


@pytest.mark.parametrize("number", SCHEDULES)
def test_a_table_of_branches_sends_each_lane_its_way(number: int) -> None:
    body = """
    TABLE: .branchtargets ONE, TWO, THREE;
    rem.u32 %r1, %r0, 3;
    brx.idx %r1, TABLE;
    ONE: mov.u32 %r2, 11; bra ALL;
    TWO: mov.u32 %r2, 22; bra ALL;
    THREE: mov.u32 %r2, 33;
    ALL: st.global.u32 [%rd2], %r2;
    """
    assert ran(body, number=number).buffers["out"].tolist() == [11, 22, 33] * 32


@pytest.mark.parametrize("number", SCHEDULES)
def test_a_warp_may_wait_for_another_in_a_plain_loop(number: int) -> None:
    body = """
    setp.ge.u32 %p0, %r0, 32;
    @%p0 bra SECOND;
    SPIN:
    ld.acquire.gpu.global.u32 %r1, [%rd0+128];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra SPIN;
    bra LAST;
    SECOND:
    st.release.gpu.global.u32 [%rd2], 9;
    LAST:
    setp.lt.u32 %p2, %r0, 32;
    @%p2 st.global.u32 [%rd2], %r1;
    """
    assert ran(body, 64, number).buffers["out"].tolist() == [9] * 64


def test_a_block_that_fills_no_warp_has_only_its_threads() -> None:
    body = "activemask.b32 %r1; st.global.u32 [%rd2], %r1;"
    assert ran(body, 40).buffers["out"].tolist() == [0xFFFFFFFF] * 32 + [0xFF] * 8


def test_more_ctas_than_are_resident_run_in_waves() -> None:
    body = """
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %ctaid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    add.u32 %r1, %r0, 1000;
    st.global.u32 [%rd2], %r1;
    """
    result = run_ptx(body, {"out": np.zeros(50, np.uint32)}, grid=(50, 1, 1), resident_ctas=3)
    assert result.buffers["out"].tolist() == [1000 + i for i in range(50)]


def test_the_same_seed_is_the_same_run() -> None:
    def order(seed: int) -> NDArray[np.uint32]:
        body = "atom.global.add.u32 %r1, [%rd0], 1; st.global.u32 [%rd2+512], %r1;"
        out = {"out": np.zeros(224, np.uint32)}
        return run_ptx(OUT + body, out, block=(96, 1, 1), number=2, seed=seed).buffers["out"]

    assert order(1).tolist() == order(1).tolist()
    assert any(order(1).tolist() != order(seed).tolist() for seed in range(2, 6))


NEVER_WRITTEN = {
    "under a guard": "@%p0 add.u32 %r9, %r0, 5;",
    "on one way of a branch": "@!%p0 bra JOIN; add.u32 %r9, %r0, 5; JOIN: bar.warp.sync -1;",
    "on the other way": "@%p0 bra ONE; bra JOIN; ONE: add.u32 %r9, %r0, 5; JOIN: bar.warp.sync -1;",
    "by some warps": "shr.u32 %r2, %r0, 5; setp.eq.u32 %p0, %r2, 1; @%p0 bra ONE; bra JOIN;"
    " ONE: add.u32 %r9, %r0, 5; JOIN: bar.sync 0;",
}


@pytest.mark.parametrize("number", SCHEDULES)
@pytest.mark.parametrize("how", NEVER_WRITTEN)
def test_lanes_that_never_wrote_a_register_hold_0(how: str, number: int) -> None:
    body = f"and.b32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 1; {NEVER_WRITTEN[how]}"
    left = ran(f"{body} st.global.u32 [%rd2], %r9;", number=number).buffers["out"].tolist()
    wrote = [i // 32 == 1 if how == "by some warps" else i % 2 == 1 for i in range(96)]
    assert left == [i + 5 if w else 0 for i, w in enumerate(wrote)]


@pytest.mark.parametrize("number", SCHEDULES)
def test_a_guarded_write_that_nothing_reads_does_no_harm(number: int) -> None:
    body = """
    mov.u32 %r9, %r0;
    bar.sync 0;
    add.u32 %r8, %r9, 0;
    setp.ge.u32 %p0, %r0, 32;
    @%p0 bra TWO;
    bra JOIN;
    TWO:
    setp.gt.u32 %p1, %r0, 40;
    @%p1 add.u32 %r9, %r0, 5;
    JOIN:
    st.global.u32 [%rd2], %r8;
    """
    assert ran(body, number=number).buffers["out"].tolist() == list(range(96))


TWO_SIDES = """
and.b32 %r1, %r0, 31;
setp.lt.u32 %p0, %r1, 16;
mov.u32 %r2, words;
mad.lo.u32 %r2, %r0, 4, %r2;
add.u32 %r3, %r0, 100;
@%p0 bra LOW;
st.shared.u32 [%r2], %r3;
bar.warp.sync {high};
bra NEXT;
LOW:
st.shared.u32 [%r2], %r3;
bar.warp.sync {low};
NEXT:
xor.b32 %r2, %r2, 64;
ld.shared.u32 %r4, [%r2];
st.global.u32 [%rd2], %r4;
"""
"""Both halves of a warp write, meet, and read what the other half wrote."""
WORDS = ".shared .align 128 .b8 words[384]; .shared .align 4 .b8 flag[4];"


@pytest.mark.parametrize("number", SCHEDULES)
def test_lanes_of_one_mask_meet_at_barriers_on_both_sides_of_a_branch(number: int) -> None:
    body = TWO_SIDES.format(high="-1", low="-1")
    result = ran(body, number=number, shared=WORDS)
    assert result.findings == ()
    assert result.buffers["out"].tolist() == [(i ^ 16) + 100 for i in range(96)]


@pytest.mark.parametrize("number", SCHEDULES)
def test_lanes_that_have_met_need_no_other_warp_to_wait(number: int) -> None:
    """Warps 1 and 2 wait in a loop for what warp 0 writes behind its barriers."""
    waits = """
    setp.lt.u32 %p1, %r0, 32;
    @%p1 bra MET;
    AGAIN:
    ld.relaxed.cta.shared.u32 %r5, [flag];
    setp.eq.u32 %p2, %r5, 0;
    @%p2 bra AGAIN;
    MET:
    """
    tell = "@%p1 st.relaxed.cta.shared.u32 [flag], 1;"
    clear = "setp.eq.u32 %p3, %r0, 0; @%p3 st.shared.u32 [flag], 0; bar.sync 0;"
    body = clear + waits + TWO_SIDES.format(high="-1", low="-1") + tell
    result = ran(body, number=number, shared=WORDS)
    assert result.findings == ()
    assert result.buffers["out"].tolist() == [(i ^ 16) + 100 for i in range(96)]


def test_lanes_of_different_masks_do_not_meet() -> None:
    result = ran(TWO_SIDES.format(high="-1", low="0x7fffffff"), shared=WORDS)
    assert [f.kind for f in result.findings] == ["deadlock"]


def test_a_shuffle_does_not_meet_another_one() -> None:
    shuffle = "shfl.sync.idx.b32 %r4, %r0, 0, 31, -1;"
    body = f"setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW; {shuffle} bra NEXT; LOW: {shuffle} NEXT:"
    result = ran(f"{body} st.global.u32 [%rd2], %r4;", threads=32)
    (found,) = result.findings
    assert (found.kind, found.rule) == ("deadlock", "lanes-never-meet")
