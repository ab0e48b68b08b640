"""Simulated sessions: the samples of each process on a card with known behaviour."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from kernelrig.bench import interleave
from kernelrig.model import Timed

NAMES = ("A", "B", "C")
SECONDS = 2.0


def session(
    seed: int,
    *slower: float,
    rounds: int = 10,
    spread: float = 0.002,
    within: float = 0.007,
    drift: Callable[[float], float] = lambda s: 0.0,
    second_mode: tuple[float, float] = (0.0, 0.0),
    samples: int = 60,
) -> tuple[Timed, ...]:
    """Return the processes of A and of one candidate for each of `slower`, which are fractions.

    `spread` is between processes, `within` between samples; `drift` is a fraction at a time since
    the beginning; `second_mode` = how often a process is in it, and by which fraction it is slower.
    """
    random = np.random.default_rng(seed)
    effects = (0.0, *slower)
    made = []
    for number, slot in enumerate(interleave(len(effects), rounds)):
        often, by = second_mode
        log = effects[slot.candidate] + random.normal(0.0, spread) + drift(number * SECONDS)
        log += by if random.random() < often else 0.0
        times = 0.93 * np.exp(log + random.normal(0.0, within, samples))
        made.append(Timed(slot.candidate, slot.round, tuple(map(float, times)), SECONDS))
    return tuple(made)
