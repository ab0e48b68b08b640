"""Plain reads of a warp's own CTA, which are kept together: who writes must know each of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emu.scripted_machine import Barrier, Play

QUARTERS = 0x400 + np.arange(32) // 8 * 16
"""Eight lanes read one place of 16 bytes."""


def test_a_write_must_know_every_lane_that_shares_a_place() -> None:
    play, barrier = Play(), Barrier()
    play.load(0, QUARTERS, 16)
    for lane in (0, 1, 2, 3, 4, 5, 6, 7):
        play.arrive((0, lane), barrier)
    play.wait(1, barrier)
    play.store((1, 0), 0x400, 16)
    assert play.kinds == []
    play.store((1, 0), 0x410, 16)
    assert play.kinds == ["race"]
    assert "after the read by CTA 0 warp 0 lanes 8, 9, 10, ..." in play.messages[0]


@pytest.mark.parametrize(("last", "kinds"), [(3, []), (4, ["race"])])
def test_lanes_that_read_at_other_times_are_each_to_be_known(last: int, kinds: list[str]) -> None:
    play, barrier = Play(), Barrier()
    play.load((0, 3))
    play.arrive((0, range(32)), barrier)
    play.load((0, last))
    play.arrive((0, 3), barrier)
    play.wait(1, barrier)
    play.store((1, 0))
    assert play.kinds == kinds


def test_a_later_read_behind_a_barrier_stands_for_those_before() -> None:
    play, barrier = Play(warps=3), Barrier()
    play.load(0)
    play.sync(0, 1)
    play.load((0, 3))
    play.arrive((0, 3), barrier)
    play.wait(2, barrier)
    play.store((2, 0))
    assert play.kinds == []


def test_a_write_of_a_smaller_piece_knows_who_read_the_word() -> None:
    play = Play()
    play.load(0, 0x400, 4)
    play.store((1, 0), 0x402, 1)
    assert play.kinds == ["race"]
    play.store((1, 0), 0x404, 1)
    assert play.kinds == ["race"]


def test_a_thread_writes_what_it_alone_has_read() -> None:
    play = Play()
    play.load(0, 0x400 + np.arange(32) * 4)
    play.store(0, 0x400 + np.arange(32) * 4)
    assert play.kinds == []


def test_a_copy_over_what_a_warp_has_read_must_know_of_it() -> None:
    play, barrier = Play(), Barrier()
    play.load(0, 0x400 + np.arange(32) * 4)
    play.copy_in((1, 0), barrier)
    assert set(play.kinds) == {"race"}


def test_lanes_that_read_one_place_do_not_know_what_one_of_them_wrote() -> None:
    play = Play()
    play.store((0, 0))
    play.load(0)
    assert play.kinds == ["race"]
