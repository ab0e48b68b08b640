"""Faster, slower or inconclusive: two builds measured alternately in one session.

Samples within a slot agree to a few tenths of a percent, while slots differ by more: many samples
of two slots prove nothing. So the observation is not a sample but a round. Per round it is the
logarithm of the ratio of the two trimmed means: the ratio cancels what both neighbours shared
(clocks, temperature), and logarithms make B/A and A/B symmetric and averages of ratios unbiased.
A forward round and the backward one after it are averaged into one observation, because a steady
drift makes the one too large by as much as the other is too small.

Where a process has several slots, processes may differ from one another. The spread of the rounds
between processes shows by how much, and the interval is never narrower than that spread makes it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import NormalDist, mean, median

from kernelrig.bench.interval import interval, standard_error, t_quantile, trimmed, trimmed_mean
from kernelrig.bench.slots import WARM_UP
from kernelrig.model import BenchVerdict, Comparison, Timed

CONFIDENCE = 0.99
"""Of the interval: one in a hundred sessions that compare a build with itself reports a change."""

MIN_PAIRS = 8
"""Pairs of rounds needed to average in pairs: fewer observations do not show their spread."""

NOISE_CONFIDENCE = 0.95
POWER = 0.95
"""The share of sessions in which a difference as large as the MDD is detected."""

LONGEST_MINUTES = 600.0
"""A difference that needs more measuring than this counts as not detectable."""


def compare(slots: Sequence[Timed], names: Sequence[str], a: int, b: int) -> Comparison:
    """Compare candidate `b` with `a`; `slots` are in the order in which they were measured."""
    rounds = _rounds(slots)
    both = [(r[a], r[b]) for r in rounds.values() if a in r and b in r]
    if not both:
        raise ValueError(f"no round has both {names[a]} and {names[b]}")
    logs, by_process = _observations(both)
    wider = _widened(logs, by_process)
    middle, (low, high) = trimmed_mean(logs), interval(logs, CONFIDENCE)
    low, high = middle - wider * (middle - low), middle + wider * (high - middle)
    noise = _noise(slots, len(both))
    # Two hurdles: the interval excludes 0, and the change exceeds the noise of A compared with A.
    detected = (low > 0 or high < 0) and abs(middle) > (noise or 0.0)
    result = BenchVerdict.INCONCLUSIVE
    if detected:
        result = BenchVerdict.SLOWER if middle > 0 else BenchVerdict.FASTER
    spent_s = sum(t.seconds for t in slots)
    return Comparison(
        a=names[a],
        b=names[b],
        result=result,
        a_ms=median(median(x.samples_ms) for x, _ in both),
        b_ms=median(median(y.samples_ms) for _, y in both),
        percent=_percent(middle),
        low_percent=_percent(low),
        high_percent=_percent(high),
        noise_percent=None if noise is None else _percent(noise),
        mdd_percent=_percent(_detectable(wider * standard_error(logs), len(logs))),
        slots=len(both),
        more_minutes=None if detected else _more_minutes(middle, wider, logs, spent_s),
    )


def noise_percent(slots: Sequence[Timed], rounds: int) -> float | None:
    """Return the noise of that many rounds: what a build compared with itself shows by chance.

    None if there are fewer than two pairs of neighbouring slots of one build.
    """
    noise = _noise(slots, rounds)
    return None if noise is None else _percent(noise)


def _rounds(slots: Sequence[Timed]) -> Mapping[int, Mapping[int, Timed]]:
    rounds: dict[int, dict[int, Timed]] = {}
    for slot in slots:
        if slot.round > WARM_UP:
            rounds.setdefault(slot.round, {})[slot.candidate] = slot
    return rounds


def _log_ratio(x: Timed, y: Timed) -> float:
    """Return the logarithm of the ratio of the times of `y` and `x`.

    Of means: clocks move in steps, and a median would jump with them. Trimmed, because single
    launches may be delayed.
    """
    return math.log(_slot_mean(y.samples_ms) / _slot_mean(x.samples_ms))


@functools.lru_cache(maxsize=1024)
def _slot_mean(samples_ms: tuple[float, ...]) -> float:
    """Return the mean of a slot, which is in the noise of each pair, and in all pairs of A."""
    return trimmed_mean(samples_ms)


def _observations(
    both: Sequence[tuple[Timed, Timed]],
) -> tuple[list[float], list[tuple[int, ...]]]:
    """Return the observations, and for each the processes that it was measured in.

    With enough pairs of rounds an observation is the mean of a pair, and a round whose other half
    is missing is dropped; with fewer, each round is an observation.
    """
    logs = {x.round: _log_ratio(x, y) for x, y in both}
    held = {x.round: (x.process, y.process) for x, y in both}
    forward = [n for n in logs if n % 2 and n + 1 in logs]
    if len(forward) < MIN_PAIRS:
        return list(logs.values()), list(held.values())
    return [(logs[n] + logs[n + 1]) / 2 for n in forward], [held[n] + held[n + 1] for n in forward]


def _widened(logs: Sequence[float], by_process: Sequence[tuple[int, ...]]) -> float:
    """Return the factor, 1 or more, by which differing processes widen the standard error.

    One-way analysis of variance: `between` is the mean square between the groups of rounds that
    share their processes, and `between / count` the variance of the overall mean that it implies.
    """
    groups: dict[tuple[int, ...], list[float]] = {}
    for log, held in zip(logs, by_process, strict=True):
        groups.setdefault(held, []).append(log)
    if len(groups) < 2 or len(groups) == len(logs):
        return 1.0
    error, count = standard_error(logs), len(logs)
    middle = mean(logs)
    between = sum(len(g) * (mean(g) - middle) ** 2 for g in groups.values()) / (len(groups) - 1)
    return max(1.0, math.sqrt(between / count) / error) if error else 1.0


def _noise(slots: Sequence[Timed], rounds: int) -> float | None:
    """Return the largest mean log ratio that neighbouring slots of one build show by chance.

    Their true mean is 0, so it is not estimated, and no degree of freedom is lost to it.
    """
    counted = [t for t in slots if t.round != WARM_UP]
    alike = [_log_ratio(x, y) for x, y in pairwise(counted) if x.candidate == y.candidate]
    if rounds >= 2 * MIN_PAIRS:  # pairs of rounds cancel drift: it is not part of the noise
        alike = [(y - x) / math.sqrt(2) for x, y in pairwise(alike)]
    if len(alike) < 2:
        return None
    spread = _spread_about_zero(alike)
    return t_quantile((1 + NOISE_CONFIDENCE) / 2, len(alike)) * spread / math.sqrt(rounds)


def _spread_about_zero(values: Sequence[float]) -> float:
    """Return a standard deviation about 0 that a few outliers do not raise.

    Of a normal distribution the median of the absolute values is 0.6745 standard deviations.
    """
    return median(map(abs, values)) / NormalDist().inv_cdf(0.75)


def _detectable(error: float, count: int) -> float:
    """Return the minimum detectable difference: detected in POWER of all sessions like this one.

    As for any two-sided test: the half width of the interval, and the one-sided quantile of POWER.
    """
    if count < 2:
        return math.inf
    return error * (_factor(count) + t_quantile(POWER, _freedom(count)))


def _more_minutes(seen: float, wider: float, logs: Sequence[float], spent_s: float) -> float | None:
    """Return how many more minutes would detect the difference that was seen, if it is real.

    None where LONGEST_MINUTES are not enough: it is not detectable.
    """
    count = len(logs)
    if count < 2 or not seen or not spent_s:
        return None
    spread = wider * standard_error(logs) * math.sqrt(count)
    wanted = count + 1
    while _detectable(spread / math.sqrt(wanted), wanted) > abs(seen):
        wanted = math.ceil(wanted * 1.05)
        if spent_s * (wanted / count - 1) > LONGEST_MINUTES * 60:
            return None
    return spent_s * (wanted / count - 1) / 60


def _freedom(count: int) -> int:
    """Return the degrees of freedom of a trimmed mean of `count` values."""
    return count - 2 * trimmed(count) - 1


def _factor(count: int) -> float:
    """Return the half width of the interval in standard errors."""
    return t_quantile((1 + CONFIDENCE) / 2, _freedom(count))


def _percent(log: float) -> float:
    """Return a log ratio as a change in percent."""
    return math.expm1(min(log, 700.0)) * 100
