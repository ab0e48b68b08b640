"""The library that reads ncu's reports, fetched once into the repository's own tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.build.toolchain import NCU_REPORT, fetch_wheels

from tests.toolchain_fixture import HOME, REPOSITORY


@pytest.fixture(scope="session")
def ncu_report() -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", HOME)
        return fetch_wheels(REPOSITORY, NCU_REPORT)
