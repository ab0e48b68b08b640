"""Which tunable matters, by how much, and which two depend on each other: from the timed sets.

A model of main effects is fitted to the logarithms of the times relative to the best set: the sets
are no full product, so plain averages of a value would mix in what the other tunables do. What a
tunable explains is by how much the squares that are left grow without it; what a pair explains
beyond its two parts, by how much they shrink with a term for each pair of values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from kernelrig.model import SweepRow

LEAST_SETS = 3


@dataclass(frozen=True, slots=True)
class MainEffect:
    """A tunable: by how many percent each value is slower than its best, others being equal.

    Tunables of which each value goes with one of the other are one: `A and B`, by the values of A.

    `share` is the part of the variance that it alone explains, 0 to 1.
    """

    tunable: str
    percent: dict[int, float]
    share: float

    @property
    def range_percent(self) -> float:
        return max(self.percent.values(), default=0.0)


@dataclass(frozen=True, slots=True)
class Interaction:
    """Two tunables: the mean of the sets with each pair of values, in percent over the best set,
    with how many sets there are; `share` is what the pair explains beyond its parts.
    """

    tunables: tuple[str, str]
    cells: dict[tuple[int, int], tuple[float, int]]
    share: float


def main_effects(rows: Sequence[SweepRow]) -> tuple[MainEffect, ...]:
    """Return the tunables by what they explain, the most first; none of fewer than LEAST_SETS."""
    timed = [r for r in rows if r.percent is not None]
    varied = _varied(timed)
    if len(timed) < LEAST_SETS or not varied:
        return ()
    whole, fitted = _fit(timed, [(name,) for name in varied])
    total = _spread(timed)
    found = []
    for name, values in varied.items():
        less, _ = _fit(timed, [(other,) for other in varied if other != name])
        at = {v: fitted[(name,), (v,)] for v in values}
        best = min(at.values())
        share = max(less - whole, 0.0) / total if total else 0.0
        called = " and ".join((name, *_bound(timed)[name]))
        found.append(
            MainEffect(called, {v: math.expm1(x - best) * 100 for v, x in at.items()}, share)
        )
    return tuple(sorted(found, key=lambda e: -e.share))


def interactions(rows: Sequence[SweepRow], most: int = 3) -> tuple[Interaction, ...]:
    """Return the pairs that explain the most beyond their parts."""
    timed = [r for r in rows if r.percent is not None]
    varied = _varied(timed)
    if len(timed) < LEAST_SETS or len(varied) < 2:
        return ()
    alone = [(name,) for name in varied]
    whole, _ = _fit(timed, alone)
    total = _spread(timed)
    found = []
    for pair in combinations(varied, 2):
        more, _ = _fit(timed, [*alone, pair])
        cells: dict[tuple[int, int], list[float]] = {}
        for row in timed:
            key = (row.set.values[pair[0]], row.set.values[pair[1]])
            cells.setdefault(key, []).append(_log(row))
        means = {k: (math.expm1(sum(v) / len(v)) * 100, len(v)) for k, v in sorted(cells.items())}
        share = max(whole - more, 0.0) / total if total else 0.0
        found.append(Interaction(pair, means, share))
    return tuple(sorted(found, key=lambda i: -i.share)[:most])


def _varied(timed: Sequence[SweepRow]) -> dict[str, list[int]]:
    return {name: sorted({r.set.values[name] for r in timed}) for name in _bound(timed)}


def _bound(timed: Sequence[SweepRow]) -> dict[str, list[str]]:
    """Return the tunables that vary, each with those that nothing tells apart from it."""
    found: dict[str, list[str]] = {}
    by_values: dict[tuple[int, ...], str] = {}
    for name in timed[0].set.values if timed else {}:
        held = [r.set.values[name] for r in timed]
        order = {value: i for i, value in enumerate(dict.fromkeys(held))}
        first = by_values.setdefault(tuple(order[v] for v in held), name)
        if len(order) > 1 and first == name:
            found[name] = []
        elif len(order) > 1:
            found[first].append(name)
    return found


def _log(row: SweepRow) -> float:
    return math.log1p((row.percent or 0.0) / 100)


def _spread(timed: Sequence[SweepRow]) -> float:
    logs = [_log(r) for r in timed]
    middle = sum(logs) / len(logs)
    return sum((x - middle) ** 2 for x in logs)


Terms = Sequence[tuple[str, ...]]


def _fit(
    timed: Sequence[SweepRow], terms: Terms
) -> tuple[float, dict[tuple[tuple[str, ...], tuple[int, ...]], float]]:
    """Return the squares that the terms leave, and each term's part by its values."""
    import numpy as np  # takes 0.1 s to import

    places: dict[tuple[tuple[str, ...], tuple[int, ...]], int] = {}
    hit = []
    for row in timed:
        keys = [(term, tuple(row.set.values[name] for name in term)) for term in terms]
        hit.append([places.setdefault(key, len(places) + 1) for key in keys])
    design = np.zeros((len(timed), len(places) + 1))
    design[:, 0] = 1
    for number, columns in enumerate(hit):
        design[number, columns] = 1
    logs = np.array([_log(r) for r in timed])
    # Of many solutions the shortest: each term's parts are then relative to its middle.
    solved, *_ = np.linalg.lstsq(design, logs, rcond=None)
    left = float(((logs - design @ solved) ** 2).sum())
    return left, {key: float(solved[place]) for key, place in places.items()}
