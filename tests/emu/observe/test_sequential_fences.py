"""fence.sc (__threadfence): two of them order what is around them, in one order or in the other.

Fence-SC order is determined at run time (PTX ISA 8.9.3). It orders an access behind another only if
no execution has it the other way round: if a strong access behind the first fence was observed by
one before the second. The order in which this run executed them says nothing.
"""

from __future__ import annotations

import pytest

from tests.emu.scripted_machine import Play


def fence(play: Play, warp: int, sem: str = "sc", scope: str = "gpu") -> None:
    play.tell("fenced", (warp, 0), sem, scope)


def flag(play: Play, warp: int, sem: str = "relaxed", *, write: bool = False) -> None:
    play.access((warp, 0), 128, 4, write, "global", sem=sem, scope="gpu")


def pass_on(play: Play, reads: str = "relaxed") -> None:
    """Warp 1 sets the flag behind warp 0 of its CTA, and warp 2, of the other CTA, sees it."""
    play.sync(0, 1)
    flag(play, 1, write=True)
    flag(play, 2, reads)


def test_fences_of_two_ctas_do_not_order_by_themselves() -> None:
    play = Play(ctas=2, warps=1)
    play.store((0, 0), 0, space="global")
    fence(play, 0)
    fence(play, 1)
    play.load((1, 0), 0, space="global")
    assert play.kinds == ["race"]


def test_nor_do_those_of_an_earlier_wave() -> None:
    play = Play(warps=1)
    play.store((0, 0), 0, space="global")
    fence(play, 0)
    play.races.started(play.machine)
    fence(play, 0)
    play.load((0, 0), 0, space="global")
    assert play.kinds == ["race"]


def test_a_store_buffer_is_no_order_of_what_is_before_the_fences() -> None:
    # Each stores, fences and reads the other's variable: what both did before stays in no order.
    play = Play(ctas=2, warps=1)
    play.store((0, 0), 0, space="global")
    for warp in (0, 1):
        play.access((warp, 0), 128 + 4 * warp, 4, True, "global", sem="relaxed", scope="gpu")
        fence(play, warp)
        play.access((warp, 0), 132 - 4 * warp, 4, False, "global", sem="relaxed", scope="gpu")
    play.load((1, 0), 0, space="global")
    assert play.kinds == ["race"]


@pytest.mark.parametrize("reads", ["relaxed", "acquire"])
@pytest.mark.parametrize("own", [True, False])
def test_what_an_observed_thread_came_behind_is_before_the_next_fence(
    reads: str, own: bool
) -> None:
    # Every thread fences, then bar.sync, then one of them sets the flag, which it may not fence
    # itself: if the fence of the reader came first, it would have set the flag behind the read.
    play = Play(ctas=2, warps=2)
    play.store((0, 0), 0, space="global")
    fence(play, 0)
    if own:
        fence(play, 1)
    pass_on(play, reads)
    fence(play, 2)
    play.load((2, 0), 0, space="global")
    assert (play.kinds, play.warnings) == ([], [])


@pytest.mark.parametrize(
    ("first", "second"), [("acq_rel", "sc"), ("sc", "acq_rel"), ("release", "acquire")]
)
def test_a_fence_that_is_not_sc_takes_no_part_in_it(first: str, second: str) -> None:
    play = Play(ctas=2, warps=2)
    play.store((0, 0), 0, space="global")
    fence(play, 0, first)
    pass_on(play)
    fence(play, 2, second)
    play.load((2, 0), 0, space="global")
    # Hardware is known to have it in order all the same.
    assert (play.kinds, play.warnings) == ([], ["race"])


@pytest.mark.parametrize(
    ("proxy_fence", "wanted"), [("before", []), ("behind", ["proxy-fence"]), ("", ["proxy-fence"])]
)
def test_a_proxy_fence_before_the_first_counts_for_what_the_second_orders(
    proxy_fence: str, wanted: list[str]
) -> None:
    play = Play(ctas=2, warps=2)
    play.store((0, 0), 0, space="global")
    if proxy_fence == "before":
        play.tell("proxy_fenced", (0, 0), "")
    fence(play, 0)
    if proxy_fence == "behind":
        play.tell("proxy_fenced", (0, 0), "")
    play.sync(0, 1)
    flag(play, 1, write=True)
    flag(play, 2)
    fence(play, 2)
    op = play.issue((2, 0), "cp.async.bulk")
    play.op_access(op, write=False, at=0, size=64, space="global")
    assert play.kinds == wanted


def test_what_comes_behind_the_fence_of_the_writer_is_not_ordered() -> None:
    play = Play(ctas=2, warps=2)
    fence(play, 0)
    play.store((0, 0), 0, space="global")
    pass_on(play)
    fence(play, 2)
    play.load((2, 0), 0, space="global")
    assert play.kinds == ["race"]


def test_sequential_fences_of_cta_scope_order_no_other_cta() -> None:
    play = Play(ctas=2, warps=2)
    play.store((0, 0), 0, space="global")
    fence(play, 0, scope="cta")
    pass_on(play)
    fence(play, 2)
    play.load((2, 0), 0, space="global")
    assert play.kinds == ["race"]


def test_within_a_cta_they_have_the_order_of_execution() -> None:
    play = Play(warps=2)
    play.store((0, 0))
    fence(play, 0, scope="cta")
    fence(play, 1, scope="cta")
    play.load((1, 0))
    assert play.kinds == []
