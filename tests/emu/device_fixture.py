"""`--device gpu`: the tests of instructions run on a GPU too, and compare it with the emulator."""

from __future__ import annotations

import pytest

from tests.emu.gpu import Gpu


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", choices=("cpu", "gpu"), default="cpu", help="where PTX tests run")


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> Gpu:
    """The GPU; tests that ask for it are skipped without `--device gpu`."""
    if request.config.getoption("--device") != "gpu":
        pytest.skip("needs --device gpu")
    return Gpu()
