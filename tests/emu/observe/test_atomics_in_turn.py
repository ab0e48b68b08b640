"""Atomics of one step of the scheduler: each takes what those before it left, and no more.

The order in which they go is drawn; it alone says what each acquires (PTX ISA 8.9.2). One whose
result nobody gets is no read (8.2): it acquires nothing, whatever the order.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.emu.scripted_machine import NUMBERS, Play, WarpBatch

COUNTER = 128


def count(
    play: Play, turns: list[tuple[int, int]], *, observed: bool = True, sem: str = "acq_rel"
) -> None:
    """Threads, (warp, lane) each, count by one instruction, in this order."""
    warps = sorted({warp for warp, _ in turns})
    mask = np.zeros((len(warps), 32), np.bool_)
    order = [warps.index(warp) * 32 + lane for warp, lane in turns]
    mask.reshape(-1)[order] = True
    batch = WarpBatch(play.machine, np.array(warps), next(NUMBERS))
    play.races.in_turn(batch, mask, order, observed)
    index = np.full((len(warps), 32), play.buffer.start + COUNTER)
    play.races.accessed(
        batch, mask, "global", index, 4, True, atomic=True, sem=sem, scope="gpu"
    )  # fmt: skip


@pytest.mark.parametrize("threads", [[(0, 0), (1, 0)], [(0, 0), (0, 1)], [(0, 5), (1, 3)]])
def test_the_second_knows_the_first_and_not_the_other_way_round(
    threads: list[tuple[int, int]],
) -> None:
    for reader, wanted in ((1, []), (0, ["race"])):
        play = Play(ctas=2, warps=1)
        play.store(threads[1 - reader], 0, space="global")
        count(play, threads)
        play.load(threads[reader], 0, space="global")
        assert play.kinds == wanted


def test_what_one_takes_it_hands_on() -> None:
    play = Play(ctas=3, warps=1)
    play.store((2, 0), 0, space="global")
    play.store((0, 0), 4, space="global")
    count(play, [(2, 0), (0, 0), (1, 0)])
    play.load((1, 0), [0, 4, *[0] * 30], space="global")
    assert play.kinds == []


@pytest.mark.parametrize("fenced", [True, False])
def test_of_relaxed_ones_fences_take_it(fenced: bool) -> None:
    play = Play(ctas=2, warps=1)
    play.store((0, 0), 0, space="global")
    play.tell("fenced", (0, 0), "acq_rel", "gpu")
    count(play, [(0, 0), (1, 0)], sem="relaxed")
    if fenced:
        play.tell("fenced", (1, 0), "acq_rel", "gpu")
    play.load((1, 0), 0, space="global")
    assert (play.kinds, play.warnings) == ([], [] if fenced else ["race"])


@pytest.mark.parametrize("fence", ["acq_rel", "sc"])
def test_who_looks_at_no_result_has_taken_nothing(fence: str) -> None:
    play = Play(ctas=2, warps=1)
    play.store((0, 0), 0, space="global")
    play.tell("fenced", (0, 0), fence, "gpu")
    count(play, [(0, 0), (1, 0)], sem="relaxed", observed=False)
    play.tell("fenced", (1, 0), fence, "gpu")
    play.load((1, 0), 0, space="global")
    assert play.kinds == ["race"]


def test_it_hands_on_what_was_there_all_the_same() -> None:
    play = Play(ctas=3, warps=1)
    play.store((0, 0), 0, space="global")
    count(play, [(0, 0), (1, 0)], sem="release", observed=False)
    count(play, [(2, 0)], sem="acquire")
    play.load((2, 0), 0, space="global")
    assert play.kinds == []


def races_where(play: Play, warp: int) -> bool:
    """Say whether something races where that warp stores to the counter."""
    play.store((warp, 0), COUNTER, space="global")
    return "race" in play.kinds


def test_the_last_that_counts_may_set_the_counter() -> None:
    play = Play(ctas=3, warps=1)
    count(play, [(2, 0), (0, 0), (1, 0)], sem="relaxed")
    assert not races_where(play, 1)


def test_one_before_it_may_not() -> None:
    play = Play(ctas=3, warps=1)
    count(play, [(2, 0), (0, 0), (1, 0)], sem="relaxed")
    assert races_where(play, 0)


def test_nor_the_last_where_it_looks_at_no_result() -> None:
    play = Play(ctas=2, warps=1)
    count(play, [(0, 0), (1, 0)], sem="relaxed", observed=False)
    assert races_where(play, 1)


def test_who_was_behind_all_is_so_behind_its_own_too() -> None:
    # The last one sets the counter back by an atomic whose result nobody gets, then by a store.
    play = Play(ctas=2, warps=1)
    count(play, [(0, 0), (1, 0)], sem="relaxed")
    count(play, [(1, 0)], sem="relaxed", observed=False)
    assert not races_where(play, 1)


def test_of_lanes_that_store_one_flag_the_last_is_seen() -> None:
    for writer, wanted in ((31, []), (30, ["race"])):
        play = Play(ctas=2, warps=1)
        play.store((0, writer), 0, space="global")
        play.access(0, COUNTER, 4, True, "global", sem="release", scope="gpu")
        play.access((1, 0), COUNTER, 4, False, "global", sem="acquire", scope="gpu")
        play.load((1, 0), 0, space="global")
        assert play.kinds == wanted


def test_of_many_lanes_those_of_a_warp_go_together_when_its_last_does() -> None:
    threads = [(warp, lane) for lane in range(8) for warp in (0, 1)]
    for reader, wanted in (((1, 7), []), ((1, 0), []), ((0, 7), ["race"])):
        play = Play(ctas=2, warps=1)
        play.store((1, 3), 0, space="global")
        play.store((0, 3), 4, space="global")
        count(play, threads)
        play.load(reader, 0, space="global")
        play.load(reader, 4, space="global")
        assert play.kinds == wanted
