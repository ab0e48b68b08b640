"""Compare one run with a baseline: is it consistent with another run of the baseline's build?

A run is one process on one day, so it is one observation, however many samples it has. Its
prediction interval comes from the spread of the baseline's runs: of those on the same card if there
are enough, else of one value per card, as cards differ by more than runs on one of them. With fewer
than MIN_RUNS of either the spread is unknown, and the result is inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, median, stdev

from kernelrig.bench.interval import t_quantile
from kernelrig.model import BaselineComparison, BenchVerdict, TimedRun

CONFIDENCE = 0.99
"""As in bench.pair: one run in a hundred of an unchanged build is called faster or slower."""

MIN_RUNS = 3
MIN_SPREAD = 0.001
"""The least standard deviation assumed between processes: three runs may agree better by chance."""


def compare_runs(
    known: Sequence[TimedRun], cards: tuple[str, str], times_ms: tuple[float, float]
) -> BaselineComparison:
    """Compare the second of two runs with the first, given the spread of the `known` runs."""
    (card, other), (a_ms, b_ms) = cards, times_ms
    values, basis, enough = _observations(_by_card(known), card if card == other else "")
    seen = math.log(b_ms / a_ms)
    # The variance of the difference of two independent runs is twice that of one.
    return _judge(seen, a_ms, basis if known else "", values if enough else (), math.sqrt(2))


def compare_with_baseline(
    baseline: Sequence[TimedRun], card: str, median_ms: float
) -> BaselineComparison:
    """Compare one run of `median_ms` on `card` with the runs of a baseline."""
    if not baseline:
        raise ValueError("a baseline needs at least one run")
    values, basis, enough = _observations(_by_card(baseline), card)
    middle = mean(values)
    # Prediction interval for one more observation: its own variance and that of the mean of n.
    one_more = math.sqrt(1 + 1 / len(values))
    seen = math.log(median_ms) - middle
    return _judge(seen, math.exp(middle), basis, values if enough else (), one_more)


def _by_card(runs: Sequence[TimedRun]) -> Mapping[str, Sequence[float]]:
    """Return the logarithms of the times: differences of logs are ratios, whatever the size."""
    by_card: dict[str, list[float]] = {}
    for run in runs:
        by_card.setdefault(run.card, []).append(math.log(run.median_ms))
    return by_card


def _judge(
    seen: float, baseline_ms: float, basis: str, values: Sequence[float], widened: float
) -> BaselineComparison:
    """Judge the difference `seen` by the spread of `values`; without values it is inconclusive."""
    if not values:
        return BaselineComparison(BenchVerdict.INCONCLUSIVE, _percent(seen), baseline_ms, basis)
    spread = max(stdev(values), MIN_SPREAD)
    half = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * spread * widened
    result = BenchVerdict.INCONCLUSIVE
    if abs(seen) > half:
        result = BenchVerdict.SLOWER if seen > 0 else BenchVerdict.FASTER
    low, high = _percent(seen - half), _percent(seen + half)
    return BaselineComparison(result, _percent(seen), baseline_ms, basis, low, high)


def _observations(
    by_card: Mapping[str, Sequence[float]], card: str
) -> tuple[Sequence[float], str, bool]:
    """Return the observations to compare with, their description, and whether they are enough."""
    own = by_card.get(card, ())
    if len(own) >= MIN_RUNS:
        return own, f"{len(own)} runs on this card", True
    if len(by_card) >= MIN_RUNS:
        return [median(logs) for logs in by_card.values()], f"{len(by_card)} cards", True
    if own:
        return own, f"{len(own)} of {MIN_RUNS} runs on this card", False
    every = [log for logs in by_card.values() for log in logs]
    return every, f"{len(every)} {'run' if len(every) == 1 else 'runs'}, none on this card", False


def _percent(log: float) -> float:
    return math.expm1(min(log, 700.0)) * 100  # exp(710) overflows
