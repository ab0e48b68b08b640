"""The local hosts that the tests of the agent and of its client share."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote.local_host import LocalHost


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalHost]:
    host = LocalHost(tmp_path)
    yield host
    host.close()


@pytest.fixture
def small_host(tmp_path: Path) -> Iterator[LocalHost]:
    """A host whose disk has 5 MB."""
    host = LocalHost(tmp_path)
    host.workdir.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(host.workdir)], check=False
    )
    if mounting.returncode:
        pytest.skip("mounting a small disk needs root")
    yield host
    host.close()
    subprocess.run(["umount", "--lazy", str(host.workdir)], check=True)
