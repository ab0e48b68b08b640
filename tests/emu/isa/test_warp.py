"""Lanes that work together while others are elsewhere; state of a thread of its own."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emu.harness import Result, run_ptx

HEAD = """ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd1, %rd1, %rd2; setp.lt.u32 %p1, %r1, 8;"""


def run(body: str, elected: str = "first") -> Result:
    body = f"{HEAD}\n{body}\nst.global.b32 [%rd1], %r9;"
    return run_ptx(body, {"out": np.zeros(32, np.uint32)}, elected=elected)


def words(body: str, elected: str = "first") -> list[int]:
    left = run(body, elected=elected)
    assert left.kinds == []
    return [int(x) for x in left.buffers["out"]]


def test_lanes_of_a_branch_vote_among_themselves() -> None:
    assert (
        words("""
        mov.u32 %r9, 7;
        @!%p1 bra DONE;
        setp.gt.u32 %p2, %r1, 2;
        vote.sync.ballot.b32 %r9, %p2, 0xff;
        DONE:""")
        == [0xF8] * 8 + [7] * 24
    )


def test_a_fold_leaves_out_who_is_no_member() -> None:
    assert (
        words("""
        mov.u32 %r9, 0;
        @!%p1 bra DONE;
        redux.sync.add.u32 %r9, %r1, 0xff;
        DONE:""")
        == [28] * 8 + [0] * 24
    )


def test_a_reduction_of_floats_skips_nans_by_default() -> None:
    body = """cvt.rn.f32.u32 %r2, %r1; setp.eq.u32 %p2, %r1, 5; @%p2 mov.b32 %r2, 0f7FC00000;
        redux.sync.max{}.f32 %r9, %r2, -1;"""
    assert words(body.format("")) == [0x41F80000] * 32
    assert words(body.format(".NaN")) == [0x7FFFFFFF] * 32


def test_an_executing_lane_outside_its_mask_is_an_error() -> None:
    left = run("shfl.sync.idx.b32 %r9, %r1, 0, 31, 0xffff;")
    assert "barrier-misuse" in left.kinds


def test_what_comes_from_an_absent_lane_is_the_own_value() -> None:
    left = run("""
        add.u32 %r9, %r1, 100;
        @!%p1 bra DONE;
        shfl.sync.down.b32 %r9, %r9, 4, 31, 0xff;
        DONE:""")
    assert left.buffers["out"][:8].tolist() == [104, 105, 106, 107, 104, 105, 106, 107]


def test_a_value_from_an_absent_lane_is_only_a_warning() -> None:
    left = run("""
        mov.u32 %r9, 0;
        @!%p1 bra DONE;
        shfl.sync.down.b32 %r9, %r1, 4, 31, 0xff;
        DONE:""")
    assert left.kinds == []
    (found,) = left.findings
    assert "lane 4 takes the value of lane 8, which does not take part" in found.message


@pytest.mark.parametrize(("elected", "leader"), [("first", 3), ("last", 7)])
def test_the_elected_lane_is_a_member_of_ones_choice(elected: str, leader: int) -> None:
    found = words(
        """
        mov.u32 %r9, 99;
        setp.lt.u32 %p2, %r1, 3;
        @%p2 bra DONE;
        @!%p1 bra DONE;
        elect.sync %r9|%p3, 0xf8;
        @%p3 add.u32 %r9, %r9, 100;
        DONE:""",
        elected=elected,
    )
    assert found == [99] * 3 + [leader + 100 * (k == leader) for k in range(3, 8)] + [99] * 24


def test_a_hashed_election_takes_one_of_the_members() -> None:
    found = words("elect.sync %r9|%p3, -1;", elected="hash")
    assert len(set(found)) == 1
    assert found[0] in range(32)


def test_a_hashed_election_takes_the_same_lane_of_a_mask_every_time() -> None:
    twice = "elect.sync %r9|%p3, -1; elect.sync %r8|%p3, -1; sub.u32 %r9, %r9, %r8;"
    assert words(twice, elected="hash") == [0] * 32


def test_activemask_of_a_diverged_warp_is_given_and_warned_about() -> None:
    left = run("mov.u32 %r9, 0; @%p1 activemask.b32 %r9;")
    assert [int(x) for x in left.buffers["out"]] == [0xFF] * 8 + [0] * 24
    assert [(f.kind, f.severity) for f in left.findings] == [("barrier-misuse", "warning")]


def test_activemask_of_cooperative_groups_is_not() -> None:
    file = '.file 1 "/cuda/include/cooperative_groups.h"\n'
    asks = "mov.u32 %r9, 0;\n.loc 1 794 9\n@%p1 activemask.b32 %r9;"
    body = f"{HEAD}\n{asks}\nst.global.b32 [%rd1], %r9;"
    assert run_ptx(body, {"out": np.zeros(32, np.uint32)}, shared=file).findings == ()


def test_the_carry_belongs_to_each_thread() -> None:
    assert (
        words("""
        mov.u32 %r2, -1; add.cc.u32 %r2, %r2, %r1;
        @%p1 bra DONE;
        add.cc.u32 %r3, 0, 0;
        DONE: addc.u32 %r9, 0, 0;""")
        == [0] + [1] * 7 + [0] * 24
    )


def test_a_division_whose_result_ptx_leaves_open_is_a_warning() -> None:
    left = run("cvt.u16.u32 %h1, %r1; div.u16 %h2, 100, %h1; cvt.u32.u16 %r9, %h2;")
    assert [(f.kind, f.severity, f.count) for f in left.findings] == [
        ("uninitialised", "warning", 1)
    ]
    assert int(left.buffers["out"][3]) == 33


def test_clocks_run_on_and_positions_are_read_as_a_whole() -> None:
    assert words("""
        mov.u64 %rd3, %clock64; mov.u64 %rd4, %clock64; setp.gt.u64 %p2, %rd4, %rd3;
        mov.v4.u32 {%r2, %r3, %r4, %r5}, %tid; add.u32 %r9, %r2, %r3; add.u32 %r9, %r9, %r5;
        @!%p2 mov.u32 %r9, -1;""") == list(range(32))
