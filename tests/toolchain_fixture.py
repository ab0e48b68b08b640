"""The real toolchain for every test that compiles, fetched once into the repository's own tree.

`--system-cuda` takes the one of this machine: for a GPU host that reaches no package registry.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernelrig.build.toolchain import find_toolchain
from kernelrig.model import Toolchain

REPOSITORY = Path(__file__).parents[1]
HOME = os.environ.get("HOME", "/")
"""The home before the tests have one of their own: where pip's index settings may lie."""


def pytest_addoption(parser: pytest.Parser) -> None:
    help_ = "compile with the toolkit of CUDA_HOME or PATH in place of the pinned wheels"
    parser.addoption("--system-cuda", action="store_true", help=help_)


@pytest.fixture(scope="session")
def cuda_toolchain(request: pytest.FixtureRequest) -> Toolchain:
    system: bool = request.config.getoption("--system-cuda")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", HOME)
        return find_toolchain(REPOSITORY, system=system)


@pytest.fixture(scope="session")
def host_toolchain() -> Toolchain:
    """Only g++: what the rules of the store are tested with, as a compilation takes 0.2 s."""
    return find_toolchain(REPOSITORY, cuda=False)
