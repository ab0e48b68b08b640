"""A confidence interval for the mean of a few numbers, of which one may be an outlier.

The mean is trimmed: an eighth of the values is left out at each end, so that a single process in
which the card did something else does not decide the result. The interval is the wider of two:
- the percentile bootstrap (Efron and Tibshirani 1993), which assumes no distribution, but is too
  narrow for small samples;
- Student's t for a trimmed mean, with the winsorized variance (Tukey and McLaughlin 1963, Yuen
  1974), which is right for small samples, but assumes that they are about normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import stdev
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES = 4_000
SEED = 20261121
"""Fixed, so that the same numbers always give the same interval."""


def trimmed(count: int) -> int:
    """Return how many values are left out at each end."""
    return count // 8


def trimmed_mean(values: Sequence[float]) -> float:
    left_out = trimmed(len(values))
    kept = sorted(values)[left_out : len(values) - left_out]
    return math.fsum(kept) / len(kept)


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the trimmed mean, from the winsorized variance.

    Winsorized: the values left out are replaced by the nearest value kept. Of n values, k of them
    kept, the squared error is (n - 1) s^2 / (k (k - 1)).
    """
    count, left_out = len(values), trimmed(len(values))
    if count < 2:
        return math.inf
    ordered = sorted(values)
    least, most = ordered[left_out], ordered[count - 1 - left_out]
    winsorized = [min(max(v, least), most) for v in values]
    kept = count - 2 * left_out
    return stdev(winsorized) * math.sqrt((count - 1) / (kept * (kept - 1)))


def interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Return the confidence interval of the trimmed mean; of a single value it is infinite."""
    count = len(values)
    if count < 2:
        return -math.inf, math.inf
    middle = trimmed_mean(values)
    # One degree of freedom less than values kept, as in Yuen 1974.
    half = t_quantile((1 + confidence) / 2, count - 2 * trimmed(count) - 1) * standard_error(values)
    low, high = _bootstrap(values, confidence)
    return min(low, middle - half), max(high, middle + half)


@lru_cache(maxsize=1024)  # an estimate of the minutes left asks for the same ones again and again
def t_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution with `freedom` degrees of freedom."""
    # What scipy.stats.t.ppf calls; scipy.stats itself takes half a second more to import.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def _bootstrap(values: Sequence[float], confidence: float) -> tuple[float, float]:
    import numpy as np  # takes 0.1 s to import

    observed, count = np.asarray(values), len(values)
    left_out = trimmed(count)
    means = np.sort(observed[_resamples(count)], axis=1)[:, left_out : count - left_out].mean(
        axis=1
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


@lru_cache(maxsize=4)
def _resamples(count: int) -> NDArray[Any]:
    """Return which of `count` values are in each resample, the same ones each time."""
    import numpy as np

    return np.random.default_rng(SEED).integers(count, size=(RESAMPLES, count))
