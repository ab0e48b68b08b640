"""Comparisons of simulated sessions whose true difference is known, with fixed seeds.

Of 100 sessions that compare a build with itself at most 2 may report a change; of 100 with a
difference of 1% at least 95 must detect it.
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


def results(*slower: float, sessions: int = SESSIONS, **habits: Any) -> Counter[BenchVerdict]:  # noqa: ANN401 - of a session
    return Counter(
        compare(session(seed, *slower, **habits), NAMES, 0, 1).result for seed in range(sessions)
    )


@pytest.mark.parametrize("spread", [0.001, 0.002, 0.003, 0.005, 0.01])
def test_a_build_compared_with_itself_is_inconclusive(spread: float) -> None:
    assert results(0.0, spread=spread)[BenchVerdict.INCONCLUSIVE] >= 98


@pytest.mark.parametrize("spread", [0.001, 0.002, 0.003])
def test_one_percent_is_detected_with_a_realistic_spread_of_processes(spread: float) -> None:
    slower, faster = results(0.01, spread=spread), results(-0.01, spread=spread)
    assert slower[BenchVerdict.SLOWER] >= 95
    assert faster[BenchVerdict.FASTER] >= 95
    assert slower[BenchVerdict.FASTER] == faster[BenchVerdict.SLOWER] == 0


def test_twice_the_spread_needs_more_rounds_to_detect_one_percent() -> None:
    assert results(0.01, spread=0.005)[BenchVerdict.SLOWER] < 95
    assert results(0.01, spread=0.005, rounds=20)[BenchVerdict.SLOWER] >= 95


@pytest.mark.parametrize("rounds", [2, 3, 4, 6, 30])
def test_few_rounds_report_no_false_difference(rounds: int) -> None:
    assert results(0.0, rounds=rounds)[BenchVerdict.INCONCLUSIVE] >= 98


def warming(seconds: float) -> float:
    """A card that gets warm: 5% slower in the end, most of it in the first ten seconds."""
    return 0.05 * (1 - math.exp(-seconds / 10))


def wandering(seconds: float) -> float:
    return 0.03 * math.sin(seconds / 7)


@pytest.mark.parametrize("drift", [lambda s: 0.001 * s, warming, wandering])
def test_drift_is_not_reported_as_a_difference(drift: Any) -> None:  # noqa: ANN401 - a drift
    assert results(0.0, drift=drift)[BenchVerdict.INCONCLUSIVE] >= 98


@pytest.mark.parametrize("drift", [lambda s: 0.0005 * s, lambda s: warming(s) / 5])
def test_drift_hides_no_difference(drift: Any) -> None:  # noqa: ANN401 - a drift
    assert results(0.01, drift=drift)[BenchVerdict.SLOWER] >= 95


@pytest.mark.parametrize("often", [0.02, 0.1, 0.5])
def test_processes_with_two_modes_report_no_false_difference(often: float) -> None:
    assert results(0.0, second_mode=(often, 0.03))[BenchVerdict.INCONCLUSIVE] >= 98


def test_a_single_outlier_does_not_decide_the_result() -> None:
    assert results(0.01, second_mode=(0.02, 0.05))[BenchVerdict.SLOWER] >= 80


def test_a_session_without_spread_is_exact() -> None:
    found = compare(session(1, 0.01, spread=0.0, within=0.0), NAMES, 0, 1)
    assert (found.result, found.a, found.b, found.slots) == (BenchVerdict.SLOWER, "A", "B", 10)
    assert found.percent == pytest.approx(1.00502, abs=1e-5)
    assert (found.low_percent, found.high_percent) == pytest.approx((1.00502, 1.00502), abs=1e-5)
    assert (found.a_ms, found.b_ms) == pytest.approx((0.93, 0.93935), abs=1e-5)
    assert found.noise_percent == pytest.approx(0.0)
    assert found.more_minutes is None


def test_a_difference_within_the_noise_is_inconclusive() -> None:
    steady = session(3, 0.002, spread=0.0, within=0.0)
    assert compare(steady, NAMES, 0, 1).result is BenchVerdict.SLOWER
    # Every second A is 1% off: it cancels within the rounds, not between neighbouring slots of A.
    unsteady = tuple(
        replace(p, samples_ms=tuple(1.01 * s for s in p.samples_ms)) if p.round % 4 > 1 else p
        for p in steady
    )
    found = compare(unsteady, NAMES, 0, 1)
    assert found.low_percent > 0.19
    assert found.noise_percent is not None
    assert found.noise_percent > found.percent
    assert found.result is BenchVerdict.INCONCLUSIVE


def test_the_noise_comes_from_neighbouring_slots_of_one_build() -> None:
    small, large = (noise_percent(session(5, 0.5, spread=s), 10) for s in (0.001, 0.004))
    assert small == pytest.approx(0.15, abs=0.07)
    assert large == pytest.approx(0.42, abs=0.2)
    assert noise_percent(session(5, 0.5)[:4], 10) is None


def test_an_inconclusive_result_says_how_many_more_minutes_are_enough() -> None:
    found = compare(session(14, 0.004, spread=0.004), NAMES, 0, 1)
    assert found.result is BenchVerdict.INCONCLUSIVE
    assert found.more_minutes is not None
    per_round = 2 * 2.0 / 60
    rounds = 10 + math.ceil(found.more_minutes / per_round)
    assert 12 <= rounds <= 300
    again = results(abs(found.percent) / 100, sessions=20, spread=0.004, rounds=rounds)
    assert again[BenchVerdict.SLOWER] >= 18


def test_a_forward_and_a_backward_round_cancel_a_drifting_clock() -> None:
    steep = {"spread": 0.0005, "drift": lambda s: 0.004 * s}
    assert results(0.002, sessions=20, rounds=10, **steep)[BenchVerdict.SLOWER] < 10
    assert results(0.002, sessions=20, rounds=18, **steep)[BenchVerdict.SLOWER] >= 18


def test_differing_processes_widen_the_interval_however_many_slots_they_have() -> None:
    made = session(3, 0.0, rounds=18, spread=0.0002)
    alike = tuple(replace(t, process=t.round % 3) for t in made)
    # One process of B is 1% slower in all its slots: too few processes to call B slower.
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


def test_a_difference_that_is_not_detectable_has_no_minutes() -> None:
    assert compare(session(1, 0.0, spread=0.003), NAMES, 0, 0).more_minutes is None


def test_the_minimum_detectable_difference_is_detected() -> None:
    detectable = [compare(session(s, 0.0), NAMES, 0, 1).mdd_percent for s in range(50)]
    typical = sorted(detectable)[25]
    assert typical == pytest.approx(0.47, abs=0.1)
    assert results(typical / 100)[BenchVerdict.SLOWER] >= 80


def test_each_pair_of_three_is_compared_on_its_own() -> None:
    made = session(7, 0.0, 0.02)
    found = {(a, b): compare(made, NAMES, a, b).result for a, b in ((0, 1), (0, 2), (1, 2), (2, 0))}
    assert found == {
        (0, 1): BenchVerdict.INCONCLUSIVE,
        (0, 2): BenchVerdict.SLOWER,
        (1, 2): BenchVerdict.SLOWER,
        (2, 0): BenchVerdict.FASTER,
    }


def test_a_round_with_a_missing_slot_is_not_counted() -> None:
    made = session(7, 0.02)
    short = tuple(p for p in made if (p.candidate, p.round) != (1, 3))
    assert compare(short, NAMES, 0, 1).slots == 9


def test_without_a_common_round_there_is_no_comparison() -> None:
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
