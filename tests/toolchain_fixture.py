"""The real toolchain for every test that compiles, fetched once into the repository's own tree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernelrig.build.toolchain import find_toolchain
from kernelrig.model import Toolchain

REPOSITORY = Path(__file__).parents[1]
HOME = os.environ.get("HOME", "/")
"""The home before the tests have one of their own: where pip's index settings may lie."""


@pytest.fixture(scope="session")
def cuda_toolchain() -> Toolchain:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", HOME)
        return find_toolchain(REPOSITORY)


@pytest.fixture(scope="session")
def host_toolchain() -> Toolchain:
    """Only g++: what the rules of the store are tested with, as a compilation takes 0.2 s."""
    return find_toolchain(REPOSITORY, cuda=False)
