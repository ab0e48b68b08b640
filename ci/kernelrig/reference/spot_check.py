"""Which timed launches are spot-checked, where, and on which inputs (kernel/spot_check.cuh)."""

from __future__ import annotations

import numpy as np

from kernelrig.model import Function, Pattern
from kernelrig.reference.expected import Expected, expected
from kernelrig.reference.inputs import Indices, hash_at

CHECKS = 16
"""Of a process, where it has as many samples."""

PLACES = 256
"""Outputs of each."""

_SEED_SHIFT = np.uint64(64 - 48)


def spot_checked_samples(seed: int, samples: int) -> tuple[int, ...]:
    """Return the samples in rising order, never the last one: all its outputs are compared."""
    count = min(CHECKS, samples - 1)
    drawn = _drawn_from_parts("spot samples", seed, 0, count, samples - 1)
    return tuple(map(int, drawn))


def spot_places(seed: int, sample: int, outputs: int) -> Indices:
    """Return row-major indices of outputs, in rising order and spread over all of them."""
    count = min(PLACES, outputs)
    return _drawn_from_parts("spot places", seed, sample * PLACES, count, outputs)


def spot_seed(seed: int, sample: int) -> int:
    """Return the seed of the rows of A that the launch has in place of those of its set."""
    return int(hash_at("spot rows", seed, np.array([sample]))[0] >> _SEED_SHIFT)


def timed_seed(seed: int, sample: int) -> int:
    """Return the seed of the inputs that a timed launch of an operation has (operation_session)."""
    return int(hash_at("timed inputs", seed, np.array([sample]))[0] >> _SEED_SHIFT)


def spot_expected(
    rows: int,
    *,
    sample: int,
    sets: int,
    seed: int,
    accum_tol: float,
    n: int,
    k: int,
    rows_per_image: int,
    function: Function = Function.ROUND_THEN_ADD,
) -> tuple[Indices, Expected]:
    """Return the row-major indices of a spot-checked sample's outputs, and what they must be."""
    places = spot_places(seed, sample, rows * n)
    wanted = expected(
        places // n,
        places % n,
        pattern=Pattern.RANDOM,
        seed=seed + sample % sets,
        accum_tol=accum_tol,
        n=n,
        k=k,
        rows_per_image=rows_per_image,
        function=function,
        a_seed=spot_seed(seed, sample),
    )
    return places, wanted


def _drawn_from_parts(name: str, seed: int, first: int, count: int, extent: int) -> Indices:
    """Return a number from each of `count` nearly equal parts of [0, extent)."""
    parts = np.arange(count)
    whole, rest = divmod(extent, max(count, 1))
    begins = parts * whole + np.minimum(parts, rest)
    sizes = (whole + (parts < rest)).astype(np.uint64)
    return begins + (hash_at(name, seed, first + parts) % sizes).astype(np.int64)
