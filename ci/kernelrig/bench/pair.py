"""Faster, slower or inconclusive: two builds whose processes were run in turn, in one session.

Samples of one turn agree to a few tenths of a percent while turns differ by more, so many samples
of two turns prove nothing. Of each round counts the logarithm of the ratio of two trimmed means,
which takes out what both neighbours shared. Two rounds, one forward and one backward, are one
observation: a clock that drifts makes the one too large by what the other is too small. Where a
process has several turns, what processes differ by is seen by how the rounds of one differ from
those of another, and the interval is never narrower than that makes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import NormalDist, mean, median

from kernelrig.bench.interval import interval, standard_error, t_quantile, trimmed, trimmed_mean
from kernelrig.bench.slots import WARMS_UP
from kernelrig.model import Change, Comparison, Timed

CONFIDENCE = 0.99
"""Of what counts as a difference: of a hundred sessions of a build beside itself, one is wrong."""

LEAST_PAIRS = 8
"""Of rounds, to count by pairs: fewer observations than that tell nothing of their spread."""

NOISE_CONFIDENCE = 0.95
POWER = 0.95
LONGEST_MINUTES = 600.0
"""Nobody rents a box for longer than this to learn of one difference."""


def compare(slots: Sequence[Timed], names: Sequence[str], a: int, b: int) -> Comparison:
    """Say what contender `b` is beside `a`; the turns stand in the order they were taken in."""
    rounds = _rounds(slots)
    both = [(r[a], r[b]) for r in rounds.values() if a in r and b in r]
    if not both:
        raise ValueError(f"no round has both {names[a]} and {names[b]}")
    logs, by_process = _observations(both)
    wider = _widened(logs, by_process)
    middle, (low, high) = trimmed_mean(logs), interval(logs, CONFIDENCE)
    low, high = middle - wider * (middle - low), middle + wider * (high - middle)
    noise = _noise(slots, len(both))
    told = (low > 0 or high < 0) and abs(middle) > (noise or 0.0)
    word = (Change.SLOWER if middle > 0 else Change.FASTER) if told else Change.INCONCLUSIVE
    spent_s = sum(t.seconds for t in slots)
    return Comparison(
        a=names[a],
        b=names[b],
        word=word,
        a_ms=median(median(x.samples_ms) for x, _ in both),
        b_ms=median(median(y.samples_ms) for _, y in both),
        percent=_percent(middle),
        low_percent=_percent(low),
        high_percent=_percent(high),
        noise_percent=None if noise is None else _percent(noise),
        mdd_percent=_percent(_resolved(wider * standard_error(logs), len(logs))),
        slots=len(both),
        more_minutes=None if told else _more_minutes(middle, wider, logs, spent_s),
    )


def noise_percent(slots: Sequence[Timed], rounds: int) -> float | None:
    """Return what a build beside itself comes to in as many rounds; None if none was its own
    neighbour twice.
    """
    noise = _noise(slots, rounds)
    return None if noise is None else _percent(noise)


def _rounds(slots: Sequence[Timed]) -> Mapping[int, Mapping[int, Timed]]:
    rounds: dict[int, dict[int, Timed]] = {}
    for slot in slots:
        if slot.round > WARMS_UP:
            rounds.setdefault(slot.round, {})[slot.candidate] = slot
    return rounds


def _log_ratio(x: Timed, y: Timed) -> float:
    """Return by how much `y` took longer. A mean, as clocks move in steps and a median with them;
    trimmed, as a launch may be held up.
    """
    return math.log(trimmed_mean(y.samples_ms) / trimmed_mean(x.samples_ms))


def _observations(
    both: Sequence[tuple[Timed, Timed]],
) -> tuple[list[float], list[tuple[int, ...]]]:
    """Return the logarithms that count, and which processes each is of; a round that has lost its
    neighbour counts for nothing, if there are two others.
    """
    logs = {x.round: _log_ratio(x, y) for x, y in both}
    held = {x.round: (x.process, y.process) for x, y in both}
    forward = [n for n in logs if n % 2 and n + 1 in logs]
    if len(forward) < LEAST_PAIRS:
        return list(logs.values()), list(held.values())
    return [(logs[n] + logs[n + 1]) / 2 for n in forward], [held[n] + held[n + 1] for n in forward]


def _widened(logs: Sequence[float], by_process: Sequence[tuple[int, ...]]) -> float:
    """Return what the error must be multiplied by, 1 or more, for processes that differ."""
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
    """Return the largest mean that neighbours of one build would show by chance.

    Their difference is 0 in truth, so that each is a whole degree of freedom.
    """
    counted = [t for t in slots if t.round != WARMS_UP]
    alike = [_log_ratio(x, y) for x, y in pairwise(counted) if x.candidate == y.candidate]
    if rounds >= 2 * LEAST_PAIRS:  # as the rounds are mirrored, what drifts is no noise
        alike = [(y - x) / math.sqrt(2) for x, y in pairwise(alike)]
    if len(alike) < 2:
        return None
    spread = _spread_about_zero(alike)
    return t_quantile((1 + NOISE_CONFIDENCE) / 2, len(alike)) * spread / math.sqrt(rounds)


def _spread_about_zero(values: Sequence[float]) -> float:
    """Return a standard deviation that a few processes which went astray do not raise."""
    return median(map(abs, values)) / NormalDist().inv_cdf(0.75)


def _resolved(error: float, count: int) -> float:
    """Return the difference that would be told in POWER of all sessions with such an error."""
    if count < 2:
        return math.inf
    return error * (_factor(count) + t_quantile(POWER, _freedom(count)))


def _more_minutes(seen: float, wider: float, logs: Sequence[float], spent_s: float) -> float | None:
    """Return what would have to be run besides to tell the difference that was seen, if true."""
    count = len(logs)
    if count < 2 or not seen or not spent_s:
        return None
    spread = wider * standard_error(logs) * math.sqrt(count)
    wanted = count + 1
    while _resolved(spread / math.sqrt(wanted), wanted) > abs(seen):
        wanted = math.ceil(wanted * 1.05)
        if spent_s * (wanted / count - 1) > LONGEST_MINUTES * 60:
            return None
    return spent_s * (wanted / count - 1) / 60


def _freedom(count: int) -> int:
    return count - 2 * trimmed(count) - 1


def _factor(count: int) -> float:
    return t_quantile((1 + CONFIDENCE) / 2, _freedom(count))


def _percent(log: float) -> float:
    return math.expm1(min(log, 700.0)) * 100
