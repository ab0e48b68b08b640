"""A covering array of the tunables: the sets that are compiled, of a million possible ones.

Every combination of the structural tunables occurs with every value of every other. In addition,
with the structural ones at their defaults, every pair of values of two others occurs (all pairs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product

from kernelrig.model import Tunable

Values = dict[str, int]
Pair = frozenset[tuple[str, int]]


def tried_sets(tunables: Mapping[str, Tunable]) -> tuple[Values, ...]:
    """Return the sets, complete and without duplicates; the first holds every default."""
    defaults = {name: t.default for name, t in tunables.items()}
    rest = {name: t.values for name, t in tunables.items() if not t.structural}
    found = [defaults]
    found += ({**defaults, **some} for some in pairwise(rest))
    for number, shape in enumerate(structural_product(tunables)):
        found += ({**defaults, **shape, **some} for some in each_value(rest, number))
    return tuple(dict(s) for s in dict.fromkeys(tuple(values.items()) for values in found))


def structural_product(tunables: Mapping[str, Tunable]) -> Iterator[Values]:
    """Return every combination of the structural tunables."""
    structural = {name: t.values for name, t in tunables.items() if t.structural}
    return (dict(zip(structural, some, strict=True)) for some in product(*structural.values()))


def each_value(choices: Mapping[str, tuple[int, ...]], slot: int) -> Iterator[Values]:
    """Return as few sets as hold every value once; another `slot` combines them differently."""
    for number in range(max(map(len, choices.values()), default=1)):
        yield {
            name: values[(number + slot * place) % len(values)]
            for place, (name, values) in enumerate(choices.items())
        }


def pairwise(choices: Mapping[str, tuple[int, ...]]) -> Iterator[Values]:
    """Return sets in which every pair of values of two tunables occurs; greedy, deterministic."""
    missing = {
        frozenset({(a, x), (b, y)}): None
        for a, b in combinations(choices, 2)
        for x, y in product(choices[a], choices[b])
    }
    while missing:
        # Begin with a missing pair, so that each set covers at least one more.
        chosen = dict(sorted(next(iter(missing))))
        for name, values in choices.items():
            if name not in chosen:
                chosen[name] = max(values, key=lambda v: _new(missing, chosen, name, v))
        for covered in _pairs(chosen):
            missing.pop(covered, None)
        yield {name: chosen[name] for name in choices}


def _new(missing: Mapping[Pair, None], chosen: Values, name: str, value: int) -> int:
    return sum(frozenset({(name, value), pair}) in missing for pair in chosen.items())


def _pairs(values: Values) -> Iterator[Pair]:
    return map(frozenset, combinations(values.items(), 2))
