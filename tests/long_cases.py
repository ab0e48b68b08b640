"""Cases of which the default run takes a few, and the long run all."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def mostly_long(cases: Iterable[str], *by_default: str) -> list[str | ParameterSet]:
    """Return `cases` as parameters: all but those `by_default` are long."""
    every = list(cases)
    assert set(by_default) <= set(every)
    return [c if c in by_default else pytest.param(c, marks=pytest.mark.long) for c in every]
