"""What the cases of a worker share, a server and a store of builds, and how a case is carried out.

Nothing is lost, doubled or left, and the next run works: that is what every test here asserts, of
its kinds of faults. With KERNELRIG_FAULTS_TABLE=FILE the cases write their rows into a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.case import undergo
from tests.faults.kind import Kind
from tests.remote.sshd_fixture import Sshd, start_server

Survives = Callable[[Kind, int], None]


@pytest.fixture(scope="session")
def shared_sshd(openssh: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    server = start_server(tmp_path_factory.mktemp("faults") / "sshd")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


@pytest.fixture
def survives(shared_sshd: Sshd, builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Survives:
    def run(kind: Kind, seed: int) -> None:
        sshd = shared_sshd
        if kind.own_sshd:
            sshd = start_server(tmp_path_factory.mktemp("own") / "sshd")
        found = undergo(kind, seed, tmp_path_factory.mktemp("case"), sshd, builds)
        assert not found.text(), found.text()

    return run
