"""The order of asynchronous operations and the proxies: rows 12 to 16, 20, 23, 25 to 27."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernelrig.emu.machine.operations import Op

from tests.emu.scripted_machine import Barrier, Play

LANES = np.arange(32) * 4
EVEN, ODD = 0, 1


# Copies into shared memory (row 12).
@pytest.mark.parametrize(("sem", "kinds"), [("acquire", []), ("relaxed", ["race"])])
def test_a_wait_that_acquires_sees_the_bytes_of_a_copy(sem: str, kinds: list[str]) -> None:
    play, barrier = Play(), Barrier()
    play.copy_in((0, 0), barrier)
    play.wait(1, barrier, sem=sem)
    play.load((1, 0))
    assert play.kinds == kinds


def test_without_a_wait_a_copy_races() -> None:
    play, barrier = Play(), Barrier()
    play.copy_in((0, 0), barrier)
    play.load((0, 0))
    assert play.kinds == ["race"]
    assert "write by cp.async.bulk.tensor of CTA 0 warp 0 lane 0" in play.messages[0]
    assert "wait, .acquire, for the phase of the mbarrier" in play.messages[0]


def test_the_wait_of_another_cta_acquires_a_copy_at_any_scope() -> None:
    play, barrier = Play(ctas=2, cluster=2, warps=1), Barrier(1)
    play.copy_in((0, 0), barrier, slot=1)
    play.wait(1, barrier, scope="cta")
    play.load((1, 0))
    assert play.kinds == []


def test_a_copy_carries_nothing_of_its_issuer() -> None:
    play, barrier = Play(), Barrier()
    play.store((0, 0), 0x800)
    play.copy_in((0, 0), barrier)
    play.wait(1, barrier)
    play.load((1, 0), 0x800)
    assert play.kinds == ["race"]


def test_a_copy_to_two_ctas_signals_to_each_its_own_bytes() -> None:
    play = Play(ctas=2, cluster=2, warps=1)
    first, second = Barrier(0), Barrier(1)
    op = play.issue((0, 0), "cp.async.bulk.tensor")
    play.op_access(op, True, slot=0)
    play.races.op_arrived(op, first, 0, "tx")
    play.op_access(op, True, slot=1)
    play.races.op_arrived(op, second, 0, "tx")
    play.wait(0, first)
    play.wait(1, second)
    play.load((0, 0))
    play.load((1, 0))
    assert play.kinds == []
    play.access((0, 0), play.slot(1) * 0x40000 + 0x400, 4, False)
    assert play.kinds == ["race"]


def test_a_refill_must_know_the_readers() -> None:
    play, full = Play(), Barrier()
    play.copy_in((0, 0), full)
    play.wait(1, full)
    play.load((1, 0))
    play.copy_in((0, 0), full, 1)
    assert "race" in play.kinds


def test_a_refill_behind_arrivals_of_the_readers_is_in_order() -> None:
    play, full, empty = Play(), Barrier(), Barrier(0, 0x408)
    for phase in range(3):
        if phase:
            play.wait((0, 0), empty, phase - 1)
        play.copy_in((0, 0), full, phase)
        play.wait(1, full, phase)
        play.load(1, 0x400 + LANES)
        play.tell("proxy_fenced", 1, "shared::cta")
        play.arrive(1, empty, phase)
    assert play.kinds == []


@pytest.mark.parametrize(
    ("access", "rule", "severity"),
    [
        (Play.load, "refill-without-proxy-fence", "warning"),
        (Play.store, "store-without-proxy-fence", "error"),
    ],
)
def test_a_refill_after_generic_accesses_needs_a_proxy_fence_too(
    access: Callable[..., None], rule: str, severity: str
) -> None:
    play, full, empty = Play(), Barrier(), Barrier(0, 0x408)
    play.copy_in((0, 0), full)
    play.wait(1, full)
    access(play, 1, 0x400 + LANES)
    play.arrive(1, empty)
    play.wait((0, 0), empty)
    play.copy_in((0, 0), full, 1)
    found = {(f.kind, f.rule, f.severity) for f in play.machine.findings}
    assert found == {("proxy-fence", rule, severity)}


# Copies out of shared memory (rows 13, 14, 16).
def staged(fence: str | None, *, meet: bool = True, late: bool = False) -> Play:
    """A warp stages, one lane stores."""
    play = Play()
    play.store(0, 0x400 + LANES)
    if fence is not None and not late:
        play.tell("proxy_fenced", 0, fence)
    if meet:
        play.tell("warp_synced", 0)
    if fence is not None and late:
        play.tell("proxy_fenced", (0, 0), fence)
    play.copy_out((0, 0), size=128)
    return play


@pytest.mark.parametrize("fence", ["", "shared::cta", "shared::cluster"])
def test_staged_bytes_reach_a_store_through_a_proxy_fence(fence: str) -> None:
    assert staged(fence).kinds == []


def test_the_fence_may_be_the_issuers() -> None:
    assert staged("shared::cta", late=True).kinds == []


@pytest.mark.parametrize("fence", [None, "global"])
def test_without_a_proxy_fence_for_that_space_it_is_missed(fence: str | None) -> None:
    play = staged(fence)
    assert set(play.kinds) == {"proxy-fence"}
    assert "fence.proxy.async.shared::cta" in play.messages[0]


def test_a_fence_of_each_lane_orders_no_other_lane() -> None:
    play = staged("shared::cta", meet=False)
    assert set(play.kinds) == {"race"}


def test_a_store_races_with_the_own_lanes_write_behind_the_fence() -> None:
    play = Play()
    play.tell("proxy_fenced", (0, 0), "")
    play.store((0, 0))
    play.copy_out((0, 0))
    assert play.kinds == ["proxy-fence"]


def test_a_store_that_was_waited_for_reading_frees_its_source() -> None:
    play = Play()
    op = play.copy_out((0, 0))
    play.group_wait((0, 0), op, read=True)
    play.tell("warp_synced", 0)
    play.store(0, 0x400 + LANES)
    assert play.kinds == []


def test_a_source_that_was_not_waited_for_is_not_free() -> None:
    play = Play()
    play.copy_out((0, 0))
    play.tell("warp_synced", 0)
    play.store(0, 0x400 + LANES)
    assert set(play.kinds) == {"race"}
    assert "wait_group.read" in play.messages[0]


def test_a_wait_is_the_issuing_lanes_own() -> None:
    play = Play()
    op = play.copy_out((0, 0))
    play.group_wait((0, 0), op, read=True)
    play.store((0, 1))
    assert play.kinds == ["race"]


@pytest.mark.parametrize(("read", "kinds"), [(True, ["race"]), (False, [])])
def test_what_a_store_wrote_is_there_after_a_full_wait(read: bool, kinds: list[str]) -> None:
    play = Play()
    op = play.copy_out((0, 0))
    play.group_wait((0, 0), op, read=read)
    play.load((0, 0), 0, space="global")
    assert play.kinds == kinds


def test_stores_of_two_ctas_to_one_place_race() -> None:
    play = Play(ctas=2, warps=1)
    play.copy_out((0, 0))
    play.copy_out((1, 0))
    assert play.kinds == ["race"]
    assert "C + 0" in play.messages[0]


def test_reductions_of_two_ctas_to_one_place_do_not_race() -> None:
    play = Play(ctas=2, warps=1)
    for warp in (0, 1):
        op = play.issue((warp, 0), "cp.reduce.async.bulk")
        play.op_access(op, True, 0, 256, "global")
    assert play.kinds == []


def test_two_copies_into_one_place_race_though_one_thread_issued_them() -> None:
    play, barrier = Play(), Barrier()
    play.copy_in((0, 0), barrier)
    play.copy_in((0, 0), barrier)
    assert play.kinds == ["race"]


def test_an_operation_is_in_order_with_itself() -> None:
    play = Play()
    op = play.issue((0, 0), "cp.async.bulk.tensor")
    play.op_access(op, False)
    play.op_access(op, True)
    play.op_access(op, False)
    assert play.kinds == []


def test_what_the_issuer_does_after_the_issue_is_not_before_it() -> None:
    play = Play()
    op = play.issue((0, 0), "cp.async.bulk.tensor")
    play.store((0, 0))
    play.tell("proxy_fenced", (0, 0), "")
    play.op_access(op, False)
    assert play.kinds == ["race"]


# cp.async (row 15), st.async (row 26).
def test_a_lane_sees_its_own_copies_after_its_wait() -> None:
    play = Play()
    op = play.issue((0, 0), "cp.async", "generic")
    play.op_access(op, True, size=16)
    play.group_wait((0, 0), op)
    play.load((0, 0))
    assert play.kinds == []
    play.load((0, 1))
    assert play.kinds == ["race"]


def test_copies_reach_others_through_a_barrier_behind_the_wait() -> None:
    play = Play()
    op = play.issue((0, 0), "cp.async", "generic")
    play.op_access(op, True, size=16)
    play.group_wait((0, 0), op)
    play.sync(0, 1)
    play.load((1, 0))
    assert play.kinds == []


@pytest.mark.parametrize(("fence", "kinds"), [(True, []), (False, ["proxy-fence"])])
def test_copies_of_the_generic_proxy_reach_a_product_through_a_fence(
    fence: bool, kinds: list[str]
) -> None:
    play = Play()
    op = play.issue((0, 0), "cp.async", "generic")
    play.op_access(op, True, size=16)
    play.group_wait((0, 0), op)
    if fence:
        play.tell("proxy_fenced", (0, 0), "shared::cta")
    play.sync(0)
    product = play.issue(0, "wgmma.mma_async")
    play.op_access(product, False, size=16)
    assert play.kinds == kinds


def copy(play: Play, lanes: list[int], at: int = 0x400) -> Op:
    """Lanes of warp 0 copy 16 bytes each, side by side."""
    op = play.issue((0, lanes), "cp.async", "generic")
    play.op_access(op, True, at, 16)
    return op


def test_lanes_that_copied_by_one_instruction_have_waited_for_their_own_alone() -> None:
    play = Play()
    op = copy(play, [0, 1, 2])
    for lane in (0, 1):
        play.group_wait((0, lane), op)
    play.load((0, 0))
    play.load((0, 1), 0x410)
    assert play.kinds == []
    play.load((0, 1))
    play.load((0, 2), 0x420)
    assert play.kinds == ["race", "race"]


def test_what_a_lane_did_before_its_copy_comes_before_it_and_what_it_does_then_does_not() -> None:
    play = Play()
    play.store((0, 0))
    op = play.issue((0, [0, 1]), "cp.async", "generic")
    play.op_access(op, True, size=16)
    assert play.kinds == []
    play.store((0, 1), 0x420)
    late = play.issue((0, [1]), "cp.async", "generic")
    play.store((0, 1), 0x420)  # after the issue, and before the copy writes
    play.op_access(late, True, 0x420, 16)
    assert play.kinds == ["race"]


def test_what_another_lane_did_is_not_ordered_before_a_copy() -> None:
    play = Play()
    play.load((0, 1))
    copy(play, [0, 1])
    assert play.kinds == ["race"]


def test_two_lanes_that_copy_to_one_place_race() -> None:
    play = Play()
    op = play.issue((0, [3, 4]), "cp.async", "generic")
    play.races.op_accessed(op, "shared", np.array([0x400, 0x400]), 16, True)
    assert play.kinds == ["race"]


def test_a_copy_over_an_earlier_one_that_was_not_waited_for_races() -> None:
    play = Play()
    first = copy(play, [0, 1])
    copy(play, [0, 1])
    assert set(play.kinds) == {"race"}
    play = Play()
    first = copy(play, [0, 1])
    for lane in (0, 1):
        play.group_wait((0, lane), first)
    copy(play, [0, 1])
    assert play.kinds == []


@pytest.mark.parametrize(("at", "kinds"), [(0x400, []), (0x600, ["proxy-fence"])])
def test_a_proxy_fence_is_for_the_copies_that_were_waited_for(at: int, kinds: list[str]) -> None:
    play = Play()
    play.group_wait((0, 0), copy(play, [0]))
    play.tell("proxy_fenced", (0, 0), "shared::cta")
    play.group_wait((0, 0), copy(play, [0], 0x600))
    play.sync(0)
    play.op_access(play.issue(0, "wgmma.mma_async"), False, at, 16)
    assert play.kinds == kinds


def test_arrivals_of_some_lanes_bring_the_copies_of_those() -> None:
    play, barrier = Play(), Barrier()
    op = copy(play, [0, 1])
    play.races.copies_arrived([op], 0b01, barrier, 0)
    play.wait((1, 0), barrier)
    play.load((1, 0))
    assert play.kinds == []
    play.load((1, 0), 0x410)
    assert play.kinds == ["race"]


@pytest.mark.parametrize(("waits", "kinds"), [(True, []), (False, ["race"])])
def test_a_remote_store_shows_to_who_waits_for_its_bytes(waits: bool, kinds: list[str]) -> None:
    play, barrier = Play(ctas=2, cluster=2, warps=1), Barrier(1)
    op = play.issue((0, 0), "st.async", "generic")
    play.op_access(op, True, size=16, slot=1)
    play.races.op_arrived(op, barrier, 0, "tx")
    if waits:
        play.wait(1, barrier)
    play.load((1, 0))
    assert play.kinds == kinds


# wgmma (row 20).
@pytest.mark.parametrize(("waits", "kinds"), [(True, []), (False, ["race"])])
def test_a_product_frees_its_operands_when_it_was_waited_for(waits: bool, kinds: list[str]) -> None:
    play, full, empty = Play(), Barrier(), Barrier(0, 0x408)
    play.copy_in((1, 0), full)
    play.wait(0, full)
    op = play.issue(0, "wgmma.mma_async")
    play.op_access(op, False)
    if waits:
        batch, _ = play.batch(0)
        play.races.group_waited(batch, 0, -1, [op], False)
    play.arrive((0, 0), empty)
    play.wait((1, 0), empty)
    play.copy_in((1, 0), full, 1)
    assert play.kinds == kinds


def test_a_product_of_a_warp_needs_what_all_its_lanes_know() -> None:
    play, full = Play(), Barrier()
    play.copy_in((1, 0), full)
    play.wait((0, 0), full)
    op = play.issue(0, "wgmma.mma_async")
    play.op_access(op, False)
    assert play.kinds == ["race"]


# Launches (row 25).
def test_what_was_there_before_the_launch_is_in_order() -> None:
    play, barrier = Play(), Barrier()
    play.load(0, LANES, space="global")
    op = play.issue((0, 0), "cp.async.bulk.tensor")
    play.op_access(op, False, 0, 256, "global")
    play.copy_in((0, 1), barrier)
    assert play.kinds == []


# The async proxy across CTAs (row 27).
def across(direct: bool) -> Play:
    play, first, second = Play(ctas=2, cluster=2, warps=1), Barrier(0), Barrier(0, 0x408)
    play.copy_in((0, 0), first)
    play.wait((ODD if direct else EVEN, 0), first)
    play.arrive((0, 0), second, scope="cluster")
    play.wait((1, 0), second, scope="cluster")
    play.copy_in((1, 0), Barrier(1), slot=0)
    return play


def test_threads_alone_between_operations_of_two_ctas_are_worth_a_warning() -> None:
    play = across(direct=False)
    assert [f.severity for f in play.machine.findings] == ["warning"]
    assert "8.9.5" in play.messages[0]


def test_an_operation_that_the_cta_waited_for_itself_is_not() -> None:
    assert across(direct=True).machine.findings == []


def test_a_refill_of_what_the_other_cta_has_read_is_not() -> None:
    """A multicast copy waits for the arrivals of all CTAs whose products read the stage."""
    play, empty = Play(ctas=2, cluster=2, warps=1), Barrier(1, 0x408)
    op = play.issue(0, "wgmma.mma_async")
    play.op_access(op, False)
    batch, _ = play.batch(0)
    play.races.group_waited(batch, 0, -1, [op], False)
    play.arrive((0, 0), empty, scope="cluster")
    play.wait((1, 0), empty, scope="cluster")
    play.copy_in((1, 0), Barrier(1), slot=0)
    assert play.machine.findings == []


# Many operations.
def test_columns_of_operations_are_used_again() -> None:
    play, full, empty = Play(), Barrier(), Barrier(0, 0x408)
    for phase in range(1000):
        if phase:
            play.wait((0, 0), empty, phase - 1)
        play.copy_in((0, 0), full, phase)
        play.wait((1, 0), full, phase)
        play.load((1, 0))
        play.tell("proxy_fenced", (1, 0), "")
        play.arrive((1, 0), empty, phase)
    assert play.kinds == []
    assert play.races.python.warps[0].cluster.columns == 64 + 256
    play.copy_in((0, 0), full, 1000)
    assert set(play.kinds) == {"race"}


def test_more_operations_in_flight_than_columns_make_more_columns() -> None:
    play = Play()
    ops = [play.issue((0, 0), "st.async", "generic") for _ in range(600)]
    for number, op in enumerate(ops):
        play.op_access(op, True, 0x400 + 16 * (number % 300), 16)
    assert play.kinds == ["race"] * 300
    play.group_wait((0, 0), *ops)
    play.load((0, 0))
    assert len(play.kinds) == 300
