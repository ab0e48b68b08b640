"""Lanes that exchange by memory with a shuffle, and no __syncwarp, between: an error that names the
shuffle, or a warning where what is written follows from what was read.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

START = """
.shared .align 4 .b8 tile[256];
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd1, %r0, 4;
add.u64 %rd0, %rd0, %rd1;
shl.b32 %r1, %r0, 2;
mov.u32 %r2, tile;
add.u32 %r3, %r1, %r2;
mov.u32 %r20, -1;
setp.lt.u32 %p1, %r0, 16;
setp.eq.u32 %p0, %r0, 0;
st.shared.u32 [%r3], %r0;
bar.sync 0;
"""
REDUCED = """
ld.shared.u32 %r4, [%r3];
shfl.sync.bfly.b32 %r5, %r4, 16, 31, {mask};
add.u32 %r6, %r4, %r5;
shfl.sync.bfly.b32 %r7, %r6, 8, 31, {mask};
{last}
{guard} st.shared.u32 [tile], %r8;
bar.sync 0;
ld.shared.u32 %r9, [tile];
st.global.u32 [%rd0], %r9;
"""
"""As FlashInfer's RMSNorm: lanes read, add up by shuffles, and store the sum where one has read."""
EXCHANGED = """
st.shared.u32 [%r3], %r1;
{between}
ld.shared.u32 %r9, [%r3+4];
st.global.u32 [%rd0], %r9;
"""
SHUFFLE = "shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1;"


def found(body: str, threads: int = 32) -> list[tuple[str, str, str]]:
    text = kernel_text(START + body, ["out"], "sm_90")
    kernel = bound_text(
        text, {"out": np.zeros(64, np.uint32)}, Geometry((1, 1, 1), (threads, 1, 1))
    )
    one, _ = run_both(kernel, Schedule(0), (OBSERVERS["races"],), recorded=False)
    # Lanes that store sums of their own to one place have a rule of their own (test_same_values).
    found = [f for f in one.findings if f.rule != "lanes-store-to-one-place"]
    return sorted((f.rule, f.severity, f.message) for f in found)


def reduced(last: str, mask: str = "-1", guard: str = "@!%p0") -> list[tuple[str, str, str]]:
    return found(REDUCED.format(last=last, mask=mask, guard=guard))


@pytest.mark.parametrize(
    ("last", "mask", "guard"),
    [
        ("add.u32 %r8, %r6, %r7;", "-1", "@!%p0"),
        ("add.u32 %r8, %r6, %r7;", "-1", ""),
        ("add.u32 %r8, %r6, %r7;", "%r20", "@!%p0"),
        ("mov.u32 %r8, %r7; @%p1 add.u32 %r8, %r8, 1;", "-1", "@!%p0"),
        ("mov.u32 %r8, %r7; @!%p1 bra over; add.u32 %r8, %r7, 1; over:", "-1", "@!%p0"),
    ],
)
def test_a_sum_of_what_was_read_is_a_warning(last: str, mask: str, guard: str) -> None:
    rules = reduced(last, mask, guard)
    assert {(rule, severity) for rule, severity, _ in rules} == {
        ("write-follows-from-read", "warning")
    }
    assert "what is written follows by it from what was read" in rules[0][2]


@pytest.mark.parametrize(
    ("last", "mask"),
    [
        ("mov.u32 %r8, 7;", "-1"),  # another value
        ("mov.u32 %r8, %r4;", "-1"),  # the lane's own
        ("add.u32 %r8, %r6, %r7; @%p1 mov.u32 %r8, 7;", "-1"),  # in some lanes another
        ("mov.u32 %r8, %r7; @!%p1 bra over; mov.u32 %r8, 7; over:", "-1"),
        ("add.u32 %r8, %r6, %r7;", "%r20"),  # of lanes that only a run knows
        ("shfl.sync.bfly.b32 %r8, %r0, 1, 31, -1;", "-1"),  # the shuffle of something else
    ],
)
def test_any_other_value_is_an_error_that_names_the_shuffle(last: str, mask: str) -> None:
    known_by_the_run = "@%p1 mov.u32 %r20, 0xffffffff;" if mask == "%r20" else ""
    rules = found(known_by_the_run + REDUCED.format(last=last, mask=mask, guard="@!%p0"))
    assert {(rule, severity) for rule, severity, _ in rules} == {
        ("lanes-not-synchronised", "error")
    }
    assert all(
        "shfl.sync.bfly.b32" in text and "stands between them, which orders no memory" in text
        for *_, text in rules
    )


@pytest.mark.parametrize(
    ("between", "named"),
    [
        (SHUFFLE, "shfl.sync.bfly.b32"),
        ("vote.sync.any.pred %p2, %p1, -1;", "vote.sync.any.pred"),
        ("match.any.sync.b32 %r5, %r1, -1;", "match.any.sync.b32"),
        ("redux.sync.add.u32 %r5, %r1, -1;", "redux.sync.add.u32"),
    ],
)
def test_what_the_next_lane_stored_is_an_error_that_names_what_stands_between(
    between: str, named: str
) -> None:
    ((rule, severity, text),) = found(EXCHANGED.format(between=between))
    assert (rule, severity) == ("lanes-not-synchronised", "error")
    assert f"nothing orders them; {named} " in text
    assert "stands between them, which orders no memory" in text


def test_nothing_is_named_where_a_way_has_no_shuffle() -> None:
    ((rule, _, text),) = found(EXCHANGED.format(between=f"@%p1 bra over; {SHUFFLE} over:"))
    assert rule == "lanes-not-synchronised"
    assert "stands between" not in text


@pytest.mark.parametrize("shuffle", ["", SHUFFLE])
def test_a_barrier_of_the_warp_orders_them(shuffle: str) -> None:
    assert found(EXCHANGED.format(between=f"bar.warp.sync -1; {shuffle}")) == []
    body = REDUCED.format(last="mov.u32 %r8, 7; bar.warp.sync -1;", mask="-1", guard="@!%p0")
    assert found(body) == []


def test_in_a_loop_without_a_barrier_the_next_read_may_come_first() -> None:
    body = """
    mov.u32 %r10, 0;
    again:
    ld.shared.u32 %r4, [tile];
    shfl.sync.bfly.b32 %r5, %r4, 16, 31, -1;
    {guard}st.shared.u32 [tile], %r5;
    {barrier}
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p2, %r10, 2;
    @%p2 bra again;
    """
    for loose in ("", "bar.arrive 1, 64;"):
        rules = found(body.format(guard="@%p0 ", barrier=loose))
        assert {rule for rule, *_ in rules} == {"lanes-not-synchronised"}
    tight = found(body.format(guard="@%p0 ", barrier="bar.sync 0;"))
    assert {rule for rule, *_ in tight} == {"write-follows-from-read"}
