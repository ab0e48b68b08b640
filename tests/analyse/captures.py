"""Captures of a B200 that are no part of the repository; tests of them are skipped without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "KERNELRIG_B200_CAPTURES"


def b200(name: str) -> Path:
    """Return a captured file of the folder that the variable names."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} does not name the folder of the B200 captures")
    return Path(folder) / name
