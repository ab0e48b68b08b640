"""`--device`: which tests are left out without a GPU, on stand-ins for pytest's items."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.emu.device_fixture import pytest_collection_modifyitems, pytest_report_collectionfinish

HERE = Path(__file__).parent
ITEMS = {
    "compares": (HERE / "test_mma.py", ["gpu", "case"]),
    "emulates": (HERE / "test_mma.py", ["case"]),
    "has a gpu of its own": (HERE.parent / "remote/test_early_looks.py", ["gpu"]),
}


def collected(device: str) -> tuple[list[str], list[str], list[str]]:
    """Return which of ITEMS are left, which pytest is told of as deselected, and what is said."""
    items: list[Any] = [
        SimpleNamespace(name=name, path=path, fixturenames=fixtures)
        for name, (path, fixtures) in ITEMS.items()
    ]
    told: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: told.extend(items))
    config: Any = SimpleNamespace(getoption=lambda _: device, stash=pytest.Stash(), hook=hook)
    pytest_collection_modifyitems(config, items)
    said = pytest_report_collectionfinish(config)
    return [item.name for item in items], [item.name for item in told], said


def test_without_a_gpu_its_comparisons_are_left_out_and_counted() -> None:
    left, told, said = collected("cpu")
    assert left == ["emulates", "has a gpu of its own"]
    assert told == ["compares"]
    assert said == ["left out without --device gpu: 1 comparisons with a GPU"]


def test_on_a_gpu_all_run() -> None:
    assert collected("gpu") == (list(ITEMS), [], [])
