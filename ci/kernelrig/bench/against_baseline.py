"""One run beside a baseline: is it what another run of the baseline's build might have been?

A run is one process on one day, so one observation. What it may differ by is told from how the
baseline's runs differ: those on this very card, or else, a card being another than the next one, a
value for each card. Of fewer than three of either nothing is known of the spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, median, stdev

from kernelrig.bench.interval import t_quantile
from kernelrig.model import AgainstBaseline, Change, TimedRun

CONFIDENCE = 0.99
"""As of a bench: of a hundred runs of an unchanged build one is called faster or slower."""

LEAST_RUNS = 3
LEAST_SPREAD = 0.001
"""What processes of one build differ by at the least: three runs may agree better by accident."""


def two_runs(
    known: Sequence[TimedRun], cards: tuple[str, str], times_ms: tuple[float, float]
) -> AgainstBaseline:
    """Say what the second of two runs is beside the first, by what `known` runs differ by."""
    (card, other), (a_ms, b_ms) = cards, times_ms
    values, basis, enough = _observations(_by_card(known), card if card == other else "")
    seen = math.log(b_ms / a_ms)
    return _beside(seen, a_ms, basis if known else "", values if enough else (), math.sqrt(2))


def beside(baseline: Sequence[TimedRun], card: str, median_ms: float) -> AgainstBaseline:
    """Say what one run of `median_ms` on `card` is beside the runs of a baseline."""
    if not baseline:
        raise ValueError("a baseline has a run at the least")
    values, basis, enough = _observations(_by_card(baseline), card)
    middle = mean(values)
    one_more = math.sqrt(1 + 1 / len(values))
    seen = math.log(median_ms) - middle
    return _beside(seen, math.exp(middle), basis, values if enough else (), one_more)


def _by_card(runs: Sequence[TimedRun]) -> Mapping[str, Sequence[float]]:
    by_card: dict[str, list[float]] = {}
    for run in runs:
        by_card.setdefault(run.card, []).append(math.log(run.median_ms))
    return by_card


def _beside(
    seen: float, baseline_ms: float, basis: str, values: Sequence[float], widened: float
) -> AgainstBaseline:
    """Judge a difference by how `values` differ; of none of them nothing is decided."""
    if not values:
        return AgainstBaseline(Change.INCONCLUSIVE, _percent(seen), baseline_ms, basis)
    spread = max(stdev(values), LEAST_SPREAD)
    half = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * spread * widened
    word = Change.INCONCLUSIVE
    if abs(seen) > half:
        word = Change.SLOWER if seen > 0 else Change.FASTER
    low, high = _percent(seen - half), _percent(seen + half)
    return AgainstBaseline(word, _percent(seen), baseline_ms, basis, low, high)


def _observations(
    by_card: Mapping[str, Sequence[float]], card: str
) -> tuple[Sequence[float], str, bool]:
    """Return what the run is one more of, what that is called, and whether they tell the spread."""
    own = by_card.get(card, ())
    if len(own) >= LEAST_RUNS:
        return own, f"{len(own)} runs on this card", True
    if len(by_card) >= LEAST_RUNS:
        return [median(logs) for logs in by_card.values()], f"{len(by_card)} cards", True
    if own:
        return own, f"{len(own)} of {LEAST_RUNS} runs on this card", False
    every = [log for logs in by_card.values() for log in logs]
    return every, f"{len(every)} {'run' if len(every) == 1 else 'runs'}, none on this card", False


def _percent(log: float) -> float:
    return math.expm1(min(log, 700.0)) * 100
