"""Small projects on disk, and what the reader says of their mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kernelrig.errors import ConfigError

Project = Callable[[str, str], Path]
"""Writes one file of the project and returns the project's root."""


def mistakes(load: Callable[[], object]) -> list[str]:
    """Return the lines of the ConfigError that `load` raises."""
    with pytest.raises(ConfigError) as caught:
        load()
    return str(caught.value).split("\n")
