"""The local boxes that the tests of the agent and of its client share."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote.local_box import LocalBox


@pytest.fixture
def box(tmp_path: Path) -> Iterator[LocalBox]:
    box = LocalBox(tmp_path)
    yield box
    box.close()


@pytest.fixture
def small_box(tmp_path: Path) -> Iterator[LocalBox]:
    """A box whose disk has 5 MB."""
    box = LocalBox(tmp_path)
    box.workdir.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(box.workdir)], check=False
    )
    if mounting.returncode:
        pytest.skip("mounting a small disk needs root")
    yield box
    box.close()
    subprocess.run(["umount", "--lazy", str(box.workdir)], check=True)
