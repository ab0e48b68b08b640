"""Registers that are waited for, as warps part and meet."""

from __future__ import annotations

import numpy as np
from kernelrig.emu.machine.divergence import chosen
from kernelrig.emu.numerics.arrays import UNDEFINED, Gathered, Pending, gathered

FIRST, SECOND = np.array([0]), np.array([1, 2])


def filled(warps: int, start: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    return (np.arange(warps)[:, None] + start + np.zeros((1, 32))).astype(np.uint32)


def test_some_of_the_warps_see_what_is_filled_in_later() -> None:
    later = np.zeros((3, 32), np.uint32)
    taken = Pending(later, "wait", "the wait").take(SECOND)
    assert isinstance(taken, Pending)
    later[...] = filled(3, 5)
    assert taken.values[:, 0].tolist() == [6, 7]


def test_warps_of_one_operation_reconverge_in_their_own_order() -> None:
    whole = Pending(filled(3, 0), "wait", "the wait")
    first, rest = np.array([2]), np.array([0, 1])
    parts = [(whole.take(SECOND), rest, None), (whole.take(FIRST), first, None)]
    met = gathered(parts, 3)
    assert not isinstance(met, Gathered)
    assert met.values[:, 0].tolist() == [1, 2, 0]


def test_warps_of_two_operations_keep_both() -> None:
    one, two = Pending(filled(1, 10), "wait", "the wait"), Pending(filled(2, 20), "wait", "it")
    met = gathered([(one, FIRST, None), (two, SECOND, None)], 3)
    assert met.tag == "wait"
    assert met.values[:, 0].tolist() == [10, 20, 21]
    taken = met.take(np.array([0, 2]))
    assert isinstance(taken, Pending)
    assert taken.values[:, 0].tolist() == [10, 21]


def test_different_waits_are_all_named() -> None:
    one, two = Pending(filled(1, 0), "a", "the wait"), Pending(filled(2, 0), "b", "it")
    assert gathered([(one, FIRST, None), (two, SECOND, None)], 3).tag == frozenset({"a", "b"})


def test_what_is_there_already_stays() -> None:
    one = Pending(filled(1, 10), "wait", "the wait")
    met = gathered([(np.array([[7]], np.uint32), SECOND, None), (one, FIRST, None)], 3)
    assert met.values[:, 0].tolist() == [10, 7, 7]
    there = met.take(SECOND)
    assert isinstance(there, np.ndarray)
    assert there[:, 0].tolist() == [7, 7]


def test_lanes_that_wrote_a_register_keep_it_where_the_others_wait() -> None:
    later = np.zeros((2, 32), np.uint32)
    waits, wrote = Pending(later, "wait", "the wait"), np.full((1, 1), 7, np.uint32)
    odd = np.broadcast_to(np.arange(32) % 2 == 1, (2, 32))
    for met in (chosen(odd, wrote, waits), chosen(~odd, waits, wrote)):
        assert isinstance(met, Pending)
        assert met.tag == "wait"
        later[...] = filled(2, 5)
        assert met.values[:, :4].tolist() == [[5, 7, 5, 7], [6, 7, 6, 7]]
        taken = met.take(np.array([1]))
        assert isinstance(taken, Pending)
        assert taken.values[:, :2].tolist() == [[6, 7]]
    never = chosen(odd, UNDEFINED, waits)
    assert isinstance(never, Pending)
    assert never.values[0, :2].tolist() == [5, 0]


def test_lanes_of_one_operation_stay_one() -> None:
    waits = Pending(filled(2, 5), "wait", "the wait")
    both = np.array([0, 1])
    parts = [(waits, both, None), (waits.take(both), both, np.zeros((2, 32), np.bool_))]
    assert not isinstance(gathered([*parts], 2), Gathered)


def test_of_two_waits_the_first_brings_its_own_and_the_second_the_rest() -> None:
    one, two = Pending(filled(1, 10), "a", "the wait"), Pending(filled(2, 20), "b", "it")
    met = gathered([(one, FIRST, None), (two, SECOND, None)], 3)
    left = met.settled({"a"})
    assert isinstance(left, Pending)
    assert left.tag == "b"
    there = left.settled({"b"})
    assert isinstance(there, np.ndarray)
    assert there[:, 0].tolist() == [10, 20, 21]
