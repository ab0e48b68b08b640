"""Simulated GPUs: what sets really take, and slots with drift, processes that differ, outliers."""

from __future__ import annotations

from itertools import product

import numpy as np
from kernelrig.bench import interleave_groups
from kernelrig.sweep.racing import Heat, Observation, Standings, exhaustive, slots_of

SPACE = (3, 3, 3, 4, 3)
"""The values of each tunable of the sm_90a kernel."""


def true_logs(random: np.random.Generator, count: int) -> dict[str, float]:
    """Draw the true times of `count` sets: effects of each tunable, some none, and of a pair."""
    grid = list(product(*map(range, SPACE)))
    chosen = [grid[i] for i in random.permutation(len(grid))[:count]]
    sizes = random.choice([0.001, 0.003, 0.01, 0.03, 0.1], size=len(SPACE))
    effects = [
        random.normal(0, size, values) * (random.random() > 0.2)
        for size, values in zip(sizes, SPACE, strict=True)
    ]
    pair = random.normal(0, 0.003, SPACE[:2]) * (random.random() > 0.5)
    return {
        f"set-{i}": float(sum(e[v] for e, v in zip(effects, at, strict=True)) + pair[at[:2]])
        for i, at in enumerate(chosen)
    }


class SimulatedGpu:
    """Measures heats. Processes of one build differ by 0.1 to 0.3% and a few by more; slots have
    heavy tails, and one in a hundred is disturbed by 3% on average; clocks drift and walk."""

    def __init__(self, random: np.random.Generator, logs: dict[str, float]) -> None:
        self.random, self.logs = random, logs
        self.spent = 0
        self._rounds, self._walk = 0, 0.0
        self._processes = random.choice([0.001, 0.002, 0.003])
        self._drift = random.choice([0.0, 1e-5, 3e-5])

    def measure(self, heat: Heat) -> list[Observation]:
        random, biases = self.random, dict[tuple[str, int], float]()
        seen = []
        slots = interleave_groups(len(heat.sets), heat.rounds, min(3, heat.rounds), heat.together)
        assert len(slots) == slots_of(heat)
        self.spent += len(slots)
        for slot in slots:
            self._walk += self._drift + random.normal(0, 0.0004)
            name = heat.sets[slot.candidate]
            key = (name, slot.process)
            wide = 3 if random.random() < 0.03 else 1
            bias = biases.setdefault(key, random.normal(0, self._processes * wide))
            noise = random.standard_t(3) * 0.0006
            noise += random.exponential(0.03) if random.random() < 0.01 else 0.0
            if slot.round:
                log = self.logs[name] + self._walk + bias + noise
                seen.append(Observation(name, self._rounds + max(slot.round, 1), log))
        self._rounds += max((slot.round for slot in slots), default=0)
        return seen


def race(seed: int, count: int, pool: int) -> tuple[float, float, float]:
    """Return what part of the exhaustive slots a race spends, and by how much its winner and that
    of the exhaustive measurement are slower than the truly best set."""
    random = np.random.default_rng(seed)
    logs = true_logs(random, count)
    racing, whole = SimulatedGpu(random, logs), SimulatedGpu(random, logs)
    names, seen = list(logs), list[Observation]()
    while heat := Standings(names, seen).next_heat(pool):
        seen += racing.measure(heat)
    every = whole.measure(exhaustive(names, pool))
    best = min(logs.values())
    lost, also = (logs[Standings(names, s).best] - best for s in (seen, every))
    return racing.spent / whole.spent, lost, also
