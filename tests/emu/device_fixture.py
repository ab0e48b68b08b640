"""`--device gpu`: the tests of instructions run on a GPU too, and compare it with the emulator.

Without it those comparisons, hundreds of them, are left out when tests are collected.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emu.gpu import Gpu

_LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", choices=("cpu", "gpu"), default="cpu", help="where PTX tests run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what asks for `gpu` below this folder; elsewhere a fixture may have its name."""
    if config.getoption("--device") == "gpu":
        return
    here = Path(__file__).parent
    left_out = [
        item
        for item in items
        if "gpu" in getattr(item, "fixturenames", ()) and item.path.is_relative_to(here)
    ]
    config.stash[_LEFT_OUT] = len(left_out)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        ids = {id(item) for item in left_out}
        items[:] = [item for item in items if id(item) not in ids]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    number = config.stash.get(_LEFT_OUT, 0)
    return [f"left out without --device gpu: {number} comparisons with a GPU"] if number else []


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> Gpu:
    """The GPU; a test outside of this folder that asks for it is skipped without one."""
    if request.config.getoption("--device") != "gpu":
        pytest.skip("needs --device gpu")
    return Gpu()
