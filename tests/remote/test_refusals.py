"""What may be tried again and what may not: a link that broke, or a server that said no."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from kernelrig.errors import RemoteError
from kernelrig.model import Remote
from kernelrig.remote.ssh.channel import LinkLost
from kernelrig.remote.ssh.route import SshHome
from kernelrig.remote.ssh.session import Session

from tests.remote.odd_server import drop, odd_server, refuse


def reconnecting(remote: Remote) -> RemoteError:
    """Return what a session says of this server."""
    session = Session(remote, home=SshHome.empty())
    with session, pytest.raises(RemoteError) as error:
        session.open(["true"])
    return error.value


def test_a_login_that_is_refused_is_no_lost_link(tmp_path: Path) -> None:
    with odd_server(tmp_path, on_login=refuse) as remote:
        error = reconnecting(remote)
    assert not isinstance(error, LinkLost)
    assert "remote 'odd' accepted none of our keys" in error.message


def test_a_link_that_breaks_in_the_login_is_a_lost_link(tmp_path: Path) -> None:
    with odd_server(tmp_path, on_login=drop) as remote:
        error = reconnecting(remote)
    assert isinstance(error, LinkLost)
    assert error.message == "remote 'odd' disconnected during the login"


def test_a_link_that_falls_silent_in_the_login_is_a_lost_link(tmp_path: Path) -> None:
    over = threading.Event()
    with odd_server(tmp_path, on_login=lambda _: over.wait(30)) as remote:
        error = reconnecting(remote)
        over.set()
    assert isinstance(error, LinkLost)
    asked = "remote 'odd' did not answer the login"
    assert error.message == f"{asked} within 0.5 s"


def test_a_command_that_is_refused_is_no_lost_link(tmp_path: Path) -> None:
    with odd_server(tmp_path, on_exec=refuse) as remote:
        error = reconnecting(remote)
    assert not isinstance(error, LinkLost)
    assert error.message == "remote 'odd' did not start true"


def test_a_link_that_falls_silent_when_a_command_is_to_start_is_a_lost_link(tmp_path: Path) -> None:
    over = threading.Event()
    with odd_server(tmp_path, on_exec=lambda _: over.wait(30)) as remote:
        error = reconnecting(remote)
        over.set()
    assert isinstance(error, LinkLost)
    said = "remote 'odd' did not start true within 0.5 s"
    assert error.message == said
