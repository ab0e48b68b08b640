"""The order of threads: rows 1 to 11 of the table of the memory model, with and without."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emu.scripted_machine import Barrier, Play

LANES = np.arange(32) * 4


def test_one_lane_is_in_order_with_itself() -> None:
    play = Play()
    play.store((0, 3))
    play.load((0, 3))
    play.store((0, 3))
    assert play.kinds == []


def test_two_lanes_of_a_warp_are_not_in_order() -> None:
    play = Play()
    play.store((0, 3))
    play.load((0, 4))
    assert play.kinds == ["race"]
    assert "read by CTA 0 warp 0 lane 4 at shared 0x400 of CTA 0" in play.messages[0]
    assert "write by CTA 0 warp 0 lane 3 (PTX line" in play.messages[0]
    assert "bar.warp.sync" in play.messages[0]


def test_lanes_that_synchronised_are_in_order() -> None:
    play = Play()
    play.store((0, 3))
    play.tell("warp_synced", 0)
    play.load((0, 4))
    assert play.kinds == []


def test_a_lane_outside_the_mask_of_a_warp_barrier_is_not_in_order() -> None:
    play = Play()
    play.store((0, 3))
    play.tell("warp_synced", (0, range(16)))
    play.load((0, 4))
    play.load((0, 20))
    assert play.kinds == ["race"]


def test_what_comes_after_the_warp_barrier_is_not_in_order() -> None:
    play = Play()
    play.tell("warp_synced", 0)
    play.store((0, 3))
    play.load((0, 4))
    assert play.kinds == ["race"]


def test_lanes_that_read_one_word_do_not_race() -> None:
    play = Play()
    play.load(0)
    play.load(1)
    assert play.kinds == []


def test_a_write_races_with_each_reader_it_does_not_know() -> None:
    play = Play(warps=3)
    play.load(0)
    play.load(1)
    play.sync(0, 2)
    play.store((2, 0))
    assert play.kinds == ["race"]


def test_a_write_after_a_barrier_with_all_readers_is_in_order() -> None:
    play = Play(warps=3)
    play.load(0)
    play.load(1)
    play.sync(0, 1, 2)
    play.store((2, 0))
    assert play.kinds == []


def test_lanes_that_write_words_of_their_own_do_not_race() -> None:
    play = Play()
    play.store(0, 0x400 + LANES)
    play.load(0, 0x400 + LANES)
    assert play.kinds == []


def test_lanes_that_write_halves_of_one_word_do_not_race() -> None:
    play = Play()
    play.store(0, 0x400 + np.arange(32) * 2, size=2)
    play.store(0, 0x400 + np.arange(32) * 2, size=2)
    assert play.kinds == []


def test_a_byte_of_another_lanes_word_is_shared() -> None:
    play = Play()
    play.store(0, 0x400 + LANES)
    play.load((0, 1), 0x403, size=1)
    assert play.kinds == ["race"]


def test_a_vector_covers_all_of_its_words() -> None:
    play = Play()
    play.store((0, 0), 0x400, size=16)
    play.load((1, 0), 0x40C)
    assert play.kinds == ["race"]


def test_a_fault_of_many_lanes_is_one_finding_a_write() -> None:
    play = Play()
    play.store(0, 0x400 + LANES)
    play.load(1, 0x400 + LANES)
    assert set(play.kinds) == {"race"}
    assert len(set(play.messages)) <= 32


@pytest.mark.parametrize("synchronised", [True, False])
def test_a_barrier_orders_its_participants(synchronised: bool) -> None:
    play = Play()
    play.store(0, 0x400 + LANES)
    if synchronised:
        play.sync(0, 1)
    play.load(1, 0x400 + LANES[::-1])
    assert bool(play.kinds) is not synchronised


def test_a_barrier_orders_no_other_threads() -> None:
    play = Play(warps=3)
    play.store(0, 0x400 + LANES)
    play.sync(0, 1)
    play.load((2, 0))
    assert play.kinds == ["race"]


def test_who_only_arrives_learns_nothing() -> None:
    play = Play()
    play.store(0, 0x400 + LANES)
    play.tell("barrier_arrived", 0, "b", "cta")
    play.tell("barrier_arrived", 1, "b", "cta")
    play.tell("barrier_passed", 0, "b", "cta")
    play.load((1, 0))
    assert play.kinds == ["race"]


def test_order_is_transitive() -> None:
    play = Play(warps=3)
    play.store((0, 0))
    play.sync(0, 1)
    play.sync(1, 2)
    play.load((2, 7))
    assert play.kinds == []


# Clusters.
def cluster() -> Play:
    return Play(ctas=2, cluster=2, warps=1)


@pytest.mark.parametrize(("sem", "kinds"), [("release", []), ("relaxed", ["race"])])
def test_a_cluster_barrier_orders_where_it_releases(sem: str, kinds: list[str]) -> None:
    play = cluster()
    play.store((0, 0), 0, space="global")
    for warp in (0, 1):
        play.tell("barrier_arrived", warp, "c", "cluster", sem)
    for warp in (0, 1):
        play.tell("barrier_passed", warp, "c", "cluster")
    play.load((1, 0), 0, space="global")
    assert play.kinds == kinds


@pytest.mark.parametrize(("scope", "kinds"), [("cluster", []), ("gpu", []), ("cta", ["race"])])
def test_a_fence_before_a_relaxed_cluster_arrival_releases(scope: str, kinds: list[str]) -> None:
    play = cluster()
    play.store((0, 0), 0, space="global")
    play.tell("fenced", 0, "acq_rel", scope)
    for warp in (0, 1):
        play.tell("barrier_arrived", warp, "c", "cluster", "relaxed")
    for warp in (0, 1):
        play.tell("barrier_passed", warp, "c", "cluster")
    play.load((1, 0), 0, space="global")
    assert play.kinds == kinds


def test_an_access_between_arrival_and_wait_is_not_in_order() -> None:
    play = cluster()
    for warp in (0, 1):
        play.tell("barrier_arrived", warp, "c", "cluster")
    play.store((0, 0), 0, space="global")
    for warp in (0, 1):
        play.tell("barrier_passed", warp, "c", "cluster")
    play.load((1, 0), 0, space="global")
    assert play.kinds == ["race"]


# mbarriers.
def test_an_arrival_releases_to_a_wait_that_acquires() -> None:
    play, barrier = Play(), Barrier()
    play.store((0, 0), 0x500)
    play.arrive((0, 0), barrier)
    play.wait(1, barrier)
    play.load((1, 5), 0x500)
    assert play.kinds == []


@pytest.mark.parametrize(
    ("arrive", "wait"), [("relaxed", "acquire"), ("release", "relaxed"), ("relaxed", "relaxed")]
)
def test_a_relaxed_side_orders_no_memory(arrive: str, wait: str) -> None:
    play, barrier = Play(), Barrier()
    play.store((0, 0), 0x500)
    play.arrive((0, 0), barrier, sem=arrive)
    play.wait(1, barrier, sem=wait)
    play.load((1, 5), 0x500)
    assert play.kinds == ["race"]


def test_an_arrival_of_another_lane_orders_only_that_lane() -> None:
    play, barrier = Play(), Barrier()
    play.store((0, 1), 0x500)
    play.arrive((0, 0), barrier)
    play.wait(1, barrier)
    play.load((1, 5), 0x500)
    assert play.kinds == ["race"]


def test_what_follows_the_arrival_is_not_in_order() -> None:
    play, barrier = Play(), Barrier()
    play.arrive((0, 0), barrier)
    play.store((0, 0), 0x500)
    play.wait(1, barrier)
    play.load((1, 5), 0x500)
    assert play.kinds == ["race"]


def test_a_wait_for_an_older_phase_learns_nothing_of_the_next() -> None:
    play, barrier = Play(), Barrier()
    play.arrive((0, 0), barrier, 0)
    play.store((0, 0), 0x500)
    play.arrive((0, 0), barrier, 1)
    play.wait(1, barrier, 0)
    play.load((1, 5), 0x500)
    assert play.kinds == ["race"]


@pytest.mark.parametrize(
    ("arrive", "wait", "kinds"),
    [
        ("cluster", "cluster", []),
        ("cta", "cluster", ["race"]),
        ("cluster", "cta", ["race"]),
        ("cta", "cta", ["race"]),
    ],
)
def test_scopes_between_ctas_must_include_each_other(
    arrive: str, wait: str, kinds: list[str]
) -> None:
    play, barrier = cluster(), Barrier()
    play.store((0, 0), 0, space="global")
    play.arrive((0, 0), barrier, scope=arrive)
    play.wait(1, barrier, scope=wait)
    play.load((1, 5), 0, space="global")
    assert play.kinds == kinds


@pytest.mark.parametrize(("scope", "kinds"), [("cluster", []), ("cta", ["race"])])
def test_an_acquire_fence_makes_a_relaxed_wait_acquire(scope: str, kinds: list[str]) -> None:
    play, barrier = cluster(), Barrier()
    play.store((0, 0), 0, space="global")
    play.arrive((0, 0), barrier, scope="cluster")
    play.wait(1, barrier, sem="relaxed", scope="cluster")
    play.tell("fenced", 1, "acquire", scope)
    play.load((1, 5), 0, space="global")
    assert play.kinds == kinds


# Variables.
def flagged(write: str, read: str, *, scope: str = "gpu", ctas: int = 2) -> Play:
    """CTA 0 writes and sets a flag, CTA 1 sees it and reads."""
    play = Play(ctas=ctas, warps=1)
    play.store((0, 0), 0, space="global")
    play.store((0, 0), 64, space="global", sem=write, scope=scope)
    play.load((1, 0), 64, space="global", sem=read, scope=scope)
    play.load((1, 0), 0, space="global")
    return play


def test_a_release_is_read_by_an_acquire() -> None:
    assert flagged("release", "acquire").kinds == []


def test_a_relaxed_write_of_a_flag_releases_nothing() -> None:
    assert flagged("relaxed", "acquire").kinds == ["race"]


def test_a_relaxed_read_of_a_flag_acquires_nothing_by_the_text() -> None:
    play = flagged("release", "relaxed")
    assert (play.kinds, play.warnings) == ([], ["race"])
    assert "acquires nothing without a fence" in play.machine.findings[0].message


def test_a_flag_of_cta_scope_between_ctas_is_a_race_itself() -> None:
    assert flagged("release", "acquire", scope="cta").kinds == ["race", "race"]


def test_a_weak_flag_races() -> None:
    play = Play(ctas=2, warps=1)
    play.store((0, 0), 64, space="global")
    play.load((1, 0), 64, space="global", sem="acquire", scope="gpu")
    assert play.kinds == ["race"]


def test_fences_make_relaxed_flags_synchronise() -> None:
    play = Play(ctas=2, warps=1)
    play.store((0, 0), 0, space="global")
    play.tell("fenced", (0, 0), "acq_rel", "gpu")
    play.store((0, 0), 64, space="global", sem="volatile")
    play.load((1, 0), 64, space="global", sem="volatile")
    play.tell("fenced", (1, 0), "acq_rel", "gpu")
    play.load((1, 0), 0, space="global")
    assert play.kinds == []


def test_a_fence_of_one_lane_closes_nothing_of_another() -> None:
    play = Play(ctas=2, warps=1)
    play.store((0, 1), 0, space="global")
    play.tell("fenced", 0, "acq_rel", "gpu")
    play.store((0, 0), 64, space="global", sem="relaxed", scope="gpu")
    play.load((1, 0), 64, space="global", sem="acquire", scope="gpu")
    play.load((1, 0), 0, space="global")
    assert play.kinds == ["race"]


def test_what_follows_a_release_fence_is_not_closed_by_it() -> None:
    play = Play(ctas=2, warps=1)
    play.tell("fenced", (0, 0), "acq_rel", "gpu")
    play.store((0, 0), 0, space="global")
    play.store((0, 0), 64, space="global", sem="relaxed", scope="gpu")
    play.load((1, 0), 64, space="global", sem="acquire", scope="gpu")
    play.load((1, 0), 0, space="global")
    assert play.kinds == ["race"]


def test_atomics_do_not_race_with_each_other() -> None:
    play = Play(ctas=3, warps=1)
    for warp in range(3):
        play.atomic(warp)
    assert play.kinds == []


def test_a_weak_read_races_with_each_atomic_it_does_not_know() -> None:
    play = Play(ctas=3, warps=1)
    play.atomic((0, 0))
    play.atomic((1, 0))
    play.load((2, 0), 0, space="global")
    assert play.kinds == ["race", "race"]


def test_a_weak_read_behind_an_atomic_knows_what_that_observed() -> None:
    for sets, found in ((play_atomic, []), (play_relaxed, ["race"])):
        play = Play(ctas=3, warps=1)
        play.atomic((0, 0))
        sets(play)
        play.load((1, 0), 0, space="global")
        assert play.kinds == found


def play_atomic(play: Play) -> None:
    play.atomic((1, 0))


def play_relaxed(play: Play) -> None:
    """A store observes nothing."""
    play.store((1, 0), 0, space="global", sem="relaxed", scope="gpu")


def test_atomics_of_a_narrow_scope_race_between_ctas() -> None:
    play = Play(ctas=2, warps=1)
    play.atomic((0, 0), scope="cta")
    play.atomic((1, 0), scope="gpu")
    assert play.kinds == ["race"]


def test_a_chain_of_atomics_passes_a_release_on() -> None:
    play = Play(ctas=3, warps=1)
    play.store((0, 0), 64, space="global")
    play.atomic((0, 0), sem="release")
    play.atomic((1, 0))
    play.atomic((2, 0), sem="acquire")
    play.load((2, 0), 64, space="global")
    assert play.kinds == []


def test_a_plain_write_ends_the_chain() -> None:
    play = Play(ctas=3, warps=1)
    play.store((0, 0), 64, space="global")
    play.atomic((0, 0), sem="release")
    play.store((1, 0), 0, space="global", sem="relaxed", scope="gpu")
    play.atomic((2, 0), sem="acquire")
    play.load((2, 0), 64, space="global")
    assert play.kinds == ["race"]


def test_lanes_of_one_atomic_learn_nothing_from_each_other() -> None:
    play = Play(warps=1)
    play.store((0, 0), 64, space="global")
    play.atomic(0, sem="acq_rel")
    play.load((0, 1), 64, space="global")
    assert play.kinds == ["race"]


def test_the_last_of_a_grid_reads_what_all_have_written() -> None:
    play = Play(ctas=3, warps=1)
    for warp in range(3):
        play.store((warp, 0), 64 + 4 * warp, space="global")
        play.tell("fenced", (warp, 0), "sc", "gpu")
        play.atomic((warp, 0))
        play.tell("fenced", (warp, 0), "sc", "gpu")
    for other in range(3):
        play.load((2, 0), 64 + 4 * other, space="global")
    assert play.kinds == []


def test_waves_are_in_no_order() -> None:
    play = Play(warps=1)
    play.store((0, 0), 0, space="global")
    play.races.started(play.machine)
    play.load((0, 0), 0, space="global")
    assert play.kinds == ["race"]


def test_shared_memory_of_a_new_wave_is_another() -> None:
    play = Play(warps=1)
    play.store((0, 0))
    play.races.started(play.machine)
    play.store((0, 1))
    assert play.kinds == []


def test_reads_before_the_first_write_are_remembered() -> None:
    play = Play(ctas=2, warps=1)
    play.load(0, LANES, space="global")
    play.store((1, 0), 40, space="global")
    assert play.kinds == ["race"]


def non_coherent(play: Play, warp: int) -> None:
    batch, mask = play.batch(warp)
    index = np.full((1, 32), play.buffer.start)
    play.races.read_non_coherent(batch, mask, index, 4)
    play.races.accessed(batch, mask, "global", index, 4, False)


def test_what_is_loaded_as_read_only_is_not_written_by_the_grid() -> None:
    play = Play()
    non_coherent(play, 0)
    play.store((1, 0), 0, space="global")
    assert play.kinds == ["race"]
    assert ".nc" in play.messages[0]


def test_what_the_grid_has_written_is_not_loaded_as_read_only() -> None:
    play = Play()
    play.store((1, 0), 0, space="global")
    play.sync(0, 1)
    non_coherent(play, 0)
    assert play.kinds == ["race"]


def test_a_fence_takes_what_a_narrower_one_left_to_wider_scopes() -> None:
    play = Play(ctas=2)
    play.store((0, 0), space="global", at=64)
    play.atomic((0, 0), sem="release")
    play.access((2, 0), 0, 4, False, "global", sem="relaxed", scope="gpu")
    for scope in ("cta", "cta", "gpu", "cluster"):
        play.tell("fenced", (2, 0), "acquire", scope)
    play.load((2, 0), space="global", at=64)
    assert play.kinds == []


@pytest.mark.parametrize("fences", [False, True])
def test_lanes_that_saw_different_variables_synchronise(fences: bool) -> None:
    play = Play(warps=2)
    for lane in (0, 1):
        play.store((0, lane), 256 + 4 * lane, space="global")
        play.access((0, lane), 4 * lane, 4, True, "global", sem="release", scope="gpu")
        play.access((1, lane), 4 * lane, 4, False, "global", sem="relaxed", scope="gpu")
    play.tell("warp_synced", 1)
    if fences:
        play.tell("fenced", 1, "acquire", "gpu")
    for lane in (0, 1):
        play.load((1, lane), 256 + 4 * lane, space="global")
    assert play.kinds == []
    assert set(play.warnings) == (set() if fences else {"race"})
