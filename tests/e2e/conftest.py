"""One sshd and one store of builds for all end-to-end tests; projects and hosts are each test's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelrig.model import Remote

from tests.e2e.host import LoopbackHost
from tests.e2e.project import MakeProject, Project, make_project
from tests.remote.sshd_fixture import Sshd, start_server


@pytest.fixture(scope="session")
def server(openssh: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server for tests that leave its connections alone."""
    server = start_server(tmp_path_factory.mktemp("e2e") / "sshd")
    yield server
    server.stop()


@pytest.fixture
def host(server: Sshd, tmp_path: Path) -> LoopbackHost:
    return LoopbackHost(server, tmp_path / "host")


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store that all projects share: a kernel is compiled once, whoever asks first."""
    return tmp_path_factory.mktemp("builds")


@pytest.fixture
def make(builds: Path, tmp_path: Path) -> MakeProject:
    """Make the test's project, with these remotes beside `local`."""

    def project(*remotes: Remote) -> Project:
        return make_project(tmp_path / "project", builds, *remotes)

    return project


@pytest.fixture
def project(make: MakeProject, host: LoopbackHost) -> Project:
    return make(host.remote())
