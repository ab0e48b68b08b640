"""An mbarrier by itself: what completes a phase, and what it rejects."""

from __future__ import annotations

import pytest
from kernelrig.emu.machine.phase import Barrier, Misuse


def make(count: int = 2) -> Barrier:
    return Barrier(0, 0x400, count)


def seen(barrier: Barrier) -> Barrier:
    barrier.observed = True
    return barrier


def test_the_last_arrival_completes_the_phase() -> None:
    barrier = make(2)
    barrier.arrive()
    assert (barrier.phase, barrier.pending) == (0, 1)
    barrier.arrive()
    assert (barrier.phase, barrier.pending) == (1, 2)


def test_bytes_that_are_expected_keep_the_phase_open() -> None:
    barrier = make(1)
    barrier.transact(128)
    barrier.arrive()
    assert barrier.phase == 0
    barrier.transact(-64)
    barrier.transact(-64)
    assert (barrier.phase, barrier.tx) == (1, 0)


def test_bytes_may_come_before_they_are_expected() -> None:
    barrier = make(1)
    barrier.transact(-64)
    assert (barrier.phase, barrier.tx) == (0, -64)
    barrier.transact(64)
    assert barrier.phase == 0
    barrier.arrive()
    assert barrier.phase == 1


def test_a_fresh_barrier_has_completed_parity_1() -> None:
    barrier = make()
    assert barrier.has_completed(1)
    assert not barrier.has_completed(0)


def test_the_state_holds_parity_and_pending_as_sass_does() -> None:
    barrier = make(3)
    assert barrier.state == (0x100000 - 3) << 43
    barrier.arrive(3)
    assert barrier.state == (1 << 63) | (0x100000 - 3) << 43


def test_a_dropped_arrival_is_missing_from_the_next_phase_on() -> None:
    barrier = make(3)
    barrier.drop(1)
    assert barrier.pending == 3
    barrier.arrive(3)
    assert (barrier.phase, barrier.pending) == (1, 2)


@pytest.mark.parametrize("count", [0, 1 << 20])
def test_an_init_counts_1_to_2_to_the_20_less_1(count: int) -> None:
    with pytest.raises(Misuse) as caught:
        make(count)
    assert str(caught.value) == f"an mbarrier counts 1 to 1048575, not {count}"


def test_more_arrivals_than_pending_are_a_misuse() -> None:
    barrier = make(2)
    with pytest.raises(Misuse) as caught:
        barrier.arrive(3)
    assert str(caught.value) == "3 arrivals where 2 of 2 are pending"
    assert caught.value.rule == "arrive"
    assert barrier.phase == 1


def test_an_arrival_before_a_wait_saw_the_phase_before_is_a_misuse() -> None:
    barrier = make(1)
    barrier.arrive()
    with pytest.raises(Misuse) as caught:
        barrier.arrive()
    assert caught.value.rule == "unobserved"
    assert barrier.phase == 2
    seen(barrier).arrive()
    assert barrier.phase == 3


def test_the_tx_count_stays_in_20_bits() -> None:
    barrier = make()
    barrier.transact((1 << 20) - 1)
    with pytest.raises(Misuse) as caught:
        barrier.transact(1)
    assert caught.value.rule == "tx"
    assert barrier.tx == (1 << 20) - 1


def test_an_arrival_that_must_not_complete_the_phase_is_a_misuse_if_it_does() -> None:
    barrier = make(2)
    barrier.arrive(1, completes=False)
    with pytest.raises(Misuse) as caught:
        barrier.arrive(1, completes=False)
    assert str(caught.value) == ".noComplete arrival of 1 where 1 are pending"
