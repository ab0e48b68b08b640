"""Paired racing: which sets are measured next, which are out, and how sure that is.

A heat is a relay of the best set so far and some others, in which each has a slot per round. All
sets of a round share what the GPU did meanwhile (clocks, temperature), so the observations are
logarithms of times in an additive model: log time = set + round + noise. Differences between two
sets come from the rounds that both had, and from chains of rounds over sets that both met.

A set is out as soon as it cannot be more than MARGIN better than the best one, at CONFIDENCE; it
has lost if it is slower at that confidence. So the winner is within MARGIN of the best set, and
no GPU time goes into telling apart what makes no difference.

Slots may be disturbed: observations far from the model count less (Huber 1964), and the noise is
never taken to be smaller than processes of one build differ by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kernelrig.bench.interval import t_quantile, trimmed_mean
from kernelrig.bench.slots import WARM_UP, interleave_groups
from kernelrig.model import Timed

CONFIDENCE = 0.99
MARGIN = math.log(1.005)
LEAST_ROUNDS = 3
"""Of the best set: it is not called that for one slot."""
MOST_SLOTS = 128
"""In one heat: what it measured comes back when it has ended."""
RACED_ROUNDS, MOST_ROUNDS = 5, 7
"""A set that is still in after so many counts as level; a `bench` has seven rounds of each."""

NOISE, NOISE_WEIGHT = 0.003, 6.0
"""What slots of one build differ by before anything was measured, and the observations that this
is worth: processes on an H200 differ by 0.1 to 0.3%."""
LEAST_NOISE = 0.001
HUBER, FITS = 2.5, 12
ONE_SLOT = 1.5
"""By so much the interval of a set is wider that rests on one slot: nothing shows if it was odd."""


class Standing(StrEnum):
    """What racing has found of a set."""

    WAITING = "not measured"
    RACING = "in the race"
    BEST = "best"
    LEVEL = "within 0.5%"
    LOST = "slower"


@dataclass(frozen=True, slots=True)
class Heat:
    """A run of relays: the best set so far, then those that it is compared with.

    Of more sets than can be on the GPU `together` (0 = all can) groups take their turn.
    """

    sets: tuple[str, ...]
    rounds: int
    together: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """The logarithm of one slot's time; `round` is unique over all heats."""

    set: str
    round: int
    log_ms: float


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a set stands: its time relative to the best one as a logarithm, with its interval.

    A set that was not measured has no interval and no rounds.
    """

    set: str
    standing: Standing
    rounds: int = 0
    log_ratio: float = math.nan
    low: float = -math.inf
    high: float = math.inf


def observe(names: Sequence[str], slots: Iterable[Timed], first_round: int) -> list[Observation]:
    """Return the observations of a heat of the sets `names`; warming up counts for nothing.

    The best set's slot before the first round is one more observation of it in that round.
    """
    return [
        Observation(
            names[t.candidate],
            first_round + max(t.round, 1) - 1,
            math.log(trimmed_mean(t.samples_ms)),
        )
        for t in slots
        if t.round != WARM_UP
    ]


class Standings:
    """What is known of each set after some observations."""

    def __init__(self, sets: Sequence[str], seen: Sequence[Observation]) -> None:
        self.sets = tuple(sets)
        self._rounds: dict[str, set[int]] = {name: set() for name in sets}
        linked = _linked(seen)
        seen = [o for o in seen if o.set in linked]
        for o in seen:
            self._rounds[o.set].add(o.round)
        self._place = {name: i for i, name in enumerate(n for n in sets if self._rounds[n])}
        self._fit([o for o in seen if o.set in self._place])
        self.best = min(self._place, key=self._mean) if self._place else self.sets[0]
        self.placed = {name: self._placed(name) for name in self.sets}

    def next_heat(self, pool: int, pairs: int = 0, most_slots: int = MOST_SLOTS) -> Heat | None:
        """Return the heat to run next; None if the race is over.

        Sets that were not measured have a slot each, `pool` of them at a time; a heat of those in
        the race has `pairs` sets at most (default: `pool`), as each has two rounds, which are of
        two processes.
        """
        waiting = [n for n in self.sets if not self._rounds[n]]
        if waiting:
            others = [n for n in waiting if n != self.best]
            return fitting(Heat((self.best, *others), 1, pool), most_slots)
        racing = [n for n in self.sets if self.placed[n].standing is Standing.RACING]
        racing.sort(key=lambda n: (len(self._rounds[n]), self._mean(n)))
        if not racing and len(self.sets) > 1 and len(self._rounds[self.best]) < LEAST_ROUNDS:
            # What wins is confirmed, against the defaults and the second.
            order = sorted((n for n in self.sets if n != self.best), key=self._mean)
            racing = list(dict.fromkeys((order[0], *(n for n in self.sets[:1] if n != self.best))))
        if not racing:
            return None
        return Heat((self.best, *racing[: (pairs or pool) - 1]), 2, pairs or pool)

    def next_exhaustive(self, pool: int, most_slots: int = MOST_SLOTS) -> Heat | None:
        """Return a heat of sets that lack rounds of MOST_ROUNDS; None if none does."""
        left = {n: MOST_ROUNDS - len(self._rounds[n]) for n in self.sets if n != self.best}
        most = max(left.values(), default=0)
        if most <= 0:
            return None
        others = [n for n, count in left.items() if count == most]
        return fitting(Heat((self.best, *others), most, pool), most_slots)

    def _mean(self, name: str) -> float:
        return float(self._means[self._place[name]])

    def _placed(self, name: str) -> Placed:
        rounds = len(self._rounds[name])
        if not rounds:
            return Placed(name, Standing.WAITING)
        if name == self.best:
            return Placed(name, Standing.BEST, rounds, 0.0, 0.0, 0.0)
        i, best = self._place[name], self._place[self.best]
        of = self._covariance
        error = math.sqrt(max(of[i, i] + of[best, best] - 2 * of[i, best], 0.0))
        half = t_quantile((1 + CONFIDENCE) / 2, self._freedom) * error
        half *= ONE_SLOT if rounds == 1 else 1.0
        ratio = float(self._means[i] - self._means[best])
        standing = Standing.RACING
        if ratio - half > 0:
            standing = Standing.LOST
        elif ratio - half > -MARGIN or rounds >= RACED_ROUNDS:
            standing = Standing.LEVEL
        return Placed(name, standing, rounds, ratio, ratio - half, ratio + half)

    def _fit(self, seen: Sequence[Observation]) -> None:
        """Fit the additive model by least squares in which outliers count less."""
        import numpy as np  # takes 0.1 s to import

        count = len(self._place)
        rounds = {number: i for i, number in enumerate(sorted({o.round for o in seen}))}
        design = np.zeros((len(seen), count + len(rounds)))
        for row, o in enumerate(seen):
            design[row, self._place[o.set]] = design[row, count + rounds[o.round]] = 1
        logs = np.array([o.log_ms for o in seen])
        # Of each set's only observation nothing is left: it says nothing of the noise.
        freedom = max(len(seen) - count - len(rounds) + 1, 0)
        weights, noise = np.ones(len(seen)), NOISE
        fitted, covariance = np.zeros(count), np.zeros((count, count))
        for step in range(FITS if len(seen) else 0):
            normal = design.T @ (weights[:, None] * design)
            # Only differences are determined: the pseudo-inverse takes the sum of the sets as 0.
            inverse = np.asarray(np.linalg.pinv(normal, hermitian=True))
            covariance = inverse[:count, :count]
            fitted = inverse @ (design.T @ (weights * logs))
            left = logs - design @ fitted
            squares = float((weights * left**2).sum())
            noise = math.sqrt((NOISE_WEIGHT * NOISE**2 + squares) / (NOISE_WEIGHT + freedom))
            noise = max(noise, LEAST_NOISE)
            # One outlier must not widen the scale by which it is recognised as one.
            sizes = np.abs(left)
            said = sizes[sizes > 1e-9]
            scale = NOISE
            if step >= FITS // 2 and len(said):
                scale = max(NOISE, float(np.median(said)) / 0.6745)
            far = sizes / (HUBER * scale)
            weights = np.asarray(1 / np.maximum(far, 1.0))
        self.noise = noise
        self._freedom = int(NOISE_WEIGHT) + freedom
        self._means = fitted[:count]
        self._covariance = noise**2 * covariance


def exhaustive(sets: Sequence[str], pool: int, rounds: int = MOST_ROUNDS) -> Heat:
    """Return the heat that measures every set as often, to compare racing with."""
    return Heat(tuple(sets), rounds, pool)


def fitting(heat: Heat, most_slots: int) -> Heat:
    """Return the heat with as many of its sets as slots are allowed, two at least."""
    while len(heat.sets) > 2 and slots_of(heat) > most_slots:
        heat = Heat(heat.sets[:-1], heat.rounds, heat.together)
    return heat


def slots_of(heat: Heat) -> int:
    """Return the slots of a heat, with warming up and the best one's comparison with itself."""
    return len(interleave_groups(len(heat.sets), heat.rounds, 1, heat.together))


def _linked(seen: Sequence[Observation]) -> set[str]:
    """Return the sets that chains of common rounds link: the most there are, the first if as many.

    Nothing compares two sets that are not linked: a group of a heat counts for nothing where the
    set that all its groups have is out.
    """
    rounds: dict[int, set[str]] = {}
    for o in seen:
        rounds.setdefault(o.round, set()).add(o.set)
    parts: list[set[str]] = []
    for own in rounds.values():
        joined = own.union(*(p for p in parts if p & own))
        parts = [p for p in parts if not p & own] + [joined]
    return max(parts, key=len, default=set())


def percent(log_ratio: float) -> float:
    return math.expm1(min(log_ratio, 700.0)) * 100
