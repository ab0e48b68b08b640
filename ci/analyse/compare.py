"""Faster, slower or undecided: two builds whose processes were run in turn, in one session.

A process is one observation: samples of one process agree to a few tenths of a percent while
processes differ by more, so many samples of two processes prove nothing. Of each round counts the
logarithm of the ratio of the two medians, which takes out what both neighbours shared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import NormalDist, median

from ci.analyse.interval import interval, standard_error, t_quantile, trimmed, trimmed_mean
from ci.analyse.order import WARMS_UP
from ci.model import Comparison, Timed, Word

CONFIDENCE = 0.99
"""Of what counts as a difference: of a hundred sessions of a build beside itself, one is wrong."""

NOISE_CONFIDENCE = 0.95
POWER = 0.95
LONGEST_MINUTES = 600.0
"""Nobody rents a box for longer than this to learn of one difference."""


def compare(processes: Sequence[Timed], names: Sequence[str], a: int, b: int) -> Comparison:
    """Say what contender `b` is beside `a`; the processes stand in the order they were run in."""
    rounds = _rounds(processes)
    both = [(r[a], r[b]) for r in rounds.values() if a in r and b in r]
    logs = [math.log(median(y.samples_ms) / median(x.samples_ms)) for x, y in both]
    if not logs:
        raise ValueError(f"no round has both {names[a]} and {names[b]}")
    mean, (low, high) = trimmed_mean(logs), interval(logs, CONFIDENCE)
    noise = _noise(processes, len(logs))
    told = (low > 0 or high < 0) and abs(mean) > (noise or 0.0)
    word = (Word.SLOWER if mean > 0 else Word.FASTER) if told else Word.UNDECIDED
    spent_s = sum(p.seconds for p in processes)
    return Comparison(
        a=names[a],
        b=names[b],
        word=word,
        a_ms=median(median(x.samples_ms) for x, _ in both),
        b_ms=median(median(y.samples_ms) for _, y in both),
        percent=_percent(mean),
        low_percent=_percent(low),
        high_percent=_percent(high),
        noise_percent=None if noise is None else _percent(noise),
        resolves_percent=_percent(_resolved(standard_error(logs), len(logs))),
        processes=len(logs),
        more_minutes=None if told else _more_minutes(mean, logs, spent_s),
    )


def noise_percent(processes: Sequence[Timed], rounds: int) -> float | None:
    """Return what a build beside itself comes to in as many rounds; None if none was its own
    neighbour twice.
    """
    noise = _noise(processes, rounds)
    return None if noise is None else _percent(noise)


def _rounds(processes: Sequence[Timed]) -> Mapping[int, Mapping[int, Timed]]:
    rounds: dict[int, dict[int, Timed]] = {}
    for process in processes:
        if process.round > WARMS_UP:
            rounds.setdefault(process.round, {})[process.contender] = process
    return rounds


def _noise(processes: Sequence[Timed], rounds: int) -> float | None:
    """Return the largest mean that neighbours of one build would show by chance.

    Their difference is 0 in truth, so that each is a whole degree of freedom.
    """
    counted = [p for p in processes if p.round != WARMS_UP]
    alike = [
        math.log(median(y.samples_ms) / median(x.samples_ms))
        for x, y in pairwise(counted)
        if x.contender == y.contender
    ]
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


def _more_minutes(mean: float, logs: Sequence[float], spent_s: float) -> float | None:
    """Return what would have to be run besides to tell the difference that was seen, if true."""
    count = len(logs)
    if count < 2 or not mean or not spent_s:
        return None
    spread = standard_error(logs) * math.sqrt(count)
    wanted = count + 1
    while _resolved(spread / math.sqrt(wanted), wanted) > abs(mean):
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
