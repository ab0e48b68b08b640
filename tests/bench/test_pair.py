"""What is said of sessions whose truth is known; of fixed seeds: no figure changes.

Of 100 sessions of a build beside itself at most 2% may be told apart, where the house asks for 5;
of a difference of 1% at least 95% must be told.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from kernelrig.bench import compare, noise_percent
from kernelrig.bench.interval import t_quantile
from kernelrig.model import BenchVerdict, Timed

from tests.bench.sessions import NAMES, session

SESSIONS = 100


def told(*slower: float, sessions: int = SESSIONS, **habits: Any) -> Counter[BenchVerdict]:  # noqa: ANN401 - of a session
    return Counter(
        compare(session(seed, *slower, **habits), NAMES, 0, 1).result for seed in range(sessions)
    )


@pytest.mark.parametrize("spread", [0.001, 0.002, 0.003, 0.005, 0.01])
def test_a_build_beside_itself_is_undecided(spread: float) -> None:
    assert told(0.0, spread=spread)[BenchVerdict.INCONCLUSIVE] >= 98


@pytest.mark.parametrize("spread", [0.001, 0.002, 0.003])
def test_one_percent_is_told_with_processes_that_differ_as_real_ones_do(spread: float) -> None:
    slower, faster = told(0.01, spread=spread), told(-0.01, spread=spread)
    assert slower[BenchVerdict.SLOWER] >= 95
    assert faster[BenchVerdict.FASTER] >= 95
    assert slower[BenchVerdict.FASTER] == faster[BenchVerdict.SLOWER] == 0


def test_twice_the_spread_wants_more_processes_and_gets_there() -> None:
    assert told(0.01, spread=0.005)[BenchVerdict.SLOWER] < 95
    assert told(0.01, spread=0.005, rounds=20)[BenchVerdict.SLOWER] >= 95


@pytest.mark.parametrize("rounds", [2, 3, 4, 6, 30])
def test_few_processes_are_no_reason_to_see_a_difference(rounds: int) -> None:
    assert told(0.0, rounds=rounds)[BenchVerdict.INCONCLUSIVE] >= 98


def warming(seconds: float) -> float:
    """A card that gets warm: 5% slower in the end, most of it in the first ten seconds."""
    return 0.05 * (1 - math.exp(-seconds / 10))


def wandering(seconds: float) -> float:
    return 0.03 * math.sin(seconds / 7)


@pytest.mark.parametrize("drift", [lambda s: 0.001 * s, warming, wandering])
def test_what_neighbours_share_is_no_difference(drift: Any) -> None:  # noqa: ANN401 - a drift
    assert told(0.0, drift=drift)[BenchVerdict.INCONCLUSIVE] >= 98


@pytest.mark.parametrize("drift", [lambda s: 0.0005 * s, lambda s: warming(s) / 5])
def test_what_neighbours_share_hides_no_difference(drift: Any) -> None:  # noqa: ANN401 - a drift
    assert told(0.01, drift=drift)[BenchVerdict.SLOWER] >= 95


@pytest.mark.parametrize("often", [0.02, 0.1, 0.5])
def test_processes_of_two_modes_are_told_apart_by_no_accident(often: float) -> None:
    assert told(0.0, second_mode=(often, 0.03))[BenchVerdict.INCONCLUSIVE] >= 98


def test_one_process_that_went_astray_does_not_decide() -> None:
    assert told(0.01, second_mode=(0.02, 0.05))[BenchVerdict.SLOWER] >= 80


def test_a_session_without_spread_is_told_to_the_last_digit() -> None:
    found = compare(session(1, 0.01, spread=0.0, within=0.0), NAMES, 0, 1)
    assert (found.result, found.a, found.b, found.slots) == (BenchVerdict.SLOWER, "A", "B", 10)
    assert found.percent == pytest.approx(1.00502, abs=1e-5)
    assert (found.low_percent, found.high_percent) == pytest.approx((1.00502, 1.00502), abs=1e-5)
    assert (found.a_ms, found.b_ms) == pytest.approx((0.93, 0.93935), abs=1e-5)
    assert found.noise_percent == pytest.approx(0.0)
    assert found.more_minutes is None


def test_a_difference_within_the_noise_of_the_same_build_is_not_told() -> None:
    steady = session(3, 0.002, spread=0.0, within=0.0)
    assert compare(steady, NAMES, 0, 1).result is BenchVerdict.SLOWER
    # Every second A stands 1% off, evenly over the pairs of a round, not over A beside A.
    unsteady = tuple(
        replace(p, samples_ms=tuple(1.01 * s for s in p.samples_ms)) if p.round % 4 > 1 else p
        for p in steady
    )
    found = compare(unsteady, NAMES, 0, 1)
    assert found.low_percent > 0.19
    assert found.noise_percent is not None
    assert found.noise_percent > found.percent
    assert found.result is BenchVerdict.INCONCLUSIVE


def test_the_noise_is_of_neighbours_of_one_build() -> None:
    small, large = (noise_percent(session(5, 0.5, spread=s), 10) for s in (0.001, 0.004))
    assert small == pytest.approx(0.15, abs=0.07)
    assert large == pytest.approx(0.42, abs=0.2)
    assert noise_percent(session(5, 0.5)[:4], 10) is None


def test_undecided_says_how_many_more_minutes_which_then_are_enough() -> None:
    found = compare(session(14, 0.004, spread=0.004), NAMES, 0, 1)
    assert found.result is BenchVerdict.INCONCLUSIVE
    assert found.more_minutes is not None
    per_round = 2 * 2.0 / 60
    rounds = 10 + math.ceil(found.more_minutes / per_round)
    assert 12 <= rounds <= 300
    again = told(abs(found.percent) / 100, sessions=20, spread=0.004, rounds=rounds)
    assert again[BenchVerdict.SLOWER] >= 18


def test_two_rounds_that_mirror_each_other_cancel_a_clock_that_drifts() -> None:
    steep = {"spread": 0.0005, "drift": lambda s: 0.004 * s}
    assert told(0.002, sessions=20, rounds=10, **steep)[BenchVerdict.SLOWER] < 10
    assert told(0.002, sessions=20, rounds=18, **steep)[BenchVerdict.SLOWER] >= 18


def test_processes_that_differ_widen_the_interval_however_many_turns_they_take() -> None:
    made = session(3, 0.0, rounds=18, spread=0.0002)
    alike = tuple(replace(t, process=t.round % 3) for t in made)
    # one process of B is 1% slower in all its turns: too few processes to call B slower
    by = {(1, 0): 1.01}
    unlike = tuple(
        replace(
            t, samples_ms=tuple(s * by.get((t.candidate, t.process), 1.0) for s in t.samples_ms)
        )
        for t in alike
    )
    narrow, wide = (compare(slots, NAMES, 0, 1) for slots in (alike, unlike))
    assert narrow.high_percent - narrow.low_percent < 0.3
    assert wide.low_percent < 0 < wide.high_percent
    assert wide.result is BenchVerdict.INCONCLUSIVE


def test_what_no_rental_would_tell_has_no_minutes() -> None:
    assert compare(session(1, 0.0, spread=0.003), NAMES, 0, 0).more_minutes is None


def test_what_it_resolves_is_what_it_tells() -> None:
    resolved = [compare(session(s, 0.0), NAMES, 0, 1).mdd_percent for s in range(50)]
    typical = sorted(resolved)[25]
    assert typical == pytest.approx(0.47, abs=0.1)
    assert told(typical / 100)[BenchVerdict.SLOWER] >= 80


def test_each_pair_of_three_is_compared_on_its_own() -> None:
    made = session(7, 0.0, 0.02)
    words = {(a, b): compare(made, NAMES, a, b).result for a, b in ((0, 1), (0, 2), (1, 2), (2, 0))}
    assert words == {
        (0, 1): BenchVerdict.INCONCLUSIVE,
        (0, 2): BenchVerdict.SLOWER,
        (1, 2): BenchVerdict.SLOWER,
        (2, 0): BenchVerdict.FASTER,
    }


def test_a_round_that_lost_a_process_counts_for_no_pair() -> None:
    made = session(7, 0.02)
    short = tuple(p for p in made if (p.candidate, p.round) != (1, 3))
    assert compare(short, NAMES, 0, 1).slots == 9


def test_without_a_single_round_there_is_nothing_to_say() -> None:
    alone: tuple[Timed, ...] = tuple(p for p in session(1, 0.0) if p.candidate == 0)
    with pytest.raises(ValueError, match="no round has both A and B"):
        compare(alone, NAMES, 0, 1)


@pytest.mark.parametrize(
    ("freedom", "confidence", "tabled"),
    [(1, 0.99, 63.657), (3, 0.99, 5.841), (3, 0.95, 3.182), (7, 0.99, 3.499), (30, 0.95, 2.042)],
)
def test_quantiles_of_students_t_are_those_of_the_printed_tables(
    freedom: int, confidence: float, tabled: float
) -> None:
    assert t_quantile((1 + confidence) / 2, freedom) == pytest.approx(tabled, abs=5e-4)
