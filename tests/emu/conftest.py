"""The native core, compiled before the tests whose time is limited: it takes a minute, or five of a
loaded machine, and all processes wait for the one that compiles."""

from __future__ import annotations

import contextlib

import pytest
from kernelrig.emu.native.core_build import NotBuilt
from kernelrig.emu.native.library import library


@pytest.fixture(scope="session", autouse=True)
def _core(_own_home: None) -> None:
    with contextlib.suppress(NotBuilt):  # those that need it say so
        library()
