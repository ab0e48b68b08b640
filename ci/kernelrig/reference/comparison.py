"""Whether numbers are what they must be, and how they are shown where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Number = np.floating[Any] | np.integer[Any]
_MOST_WHOLE = 2.0**63
"""No two integers of 64 bits that matter are further apart than a bound may be."""


def within(
    got: NDArray[Any], wanted: NDArray[Any], max_abs: float, max_rel: float
) -> NDArray[np.bool_]:
    """Return where |got - wanted| <= max_abs + max_rel x |wanted|; never where one is NaN.

    Integers are compared as such, of which doubles have only 53 bits, and take no `max_rel`.
    """
    if got.dtype.kind in "iu":
        far = np.maximum(got, wanted).view(np.uint64) - np.minimum(got, wanted).view(np.uint64)
        return np.asarray(far <= np.uint64(min(max_abs, _MOST_WHOLE)), np.bool_)
    bound = max_abs + max_rel * np.abs(wanted)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(got - wanted) <= bound, np.bool_)


def shown(number: Number, digits: int = 7) -> str:
    """Return a float with so many digits, an integer with all."""
    return str(number) if number.dtype.kind in "iu" else f"{number:.{digits}g}"
