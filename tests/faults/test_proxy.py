"""The relay of the tests leaves nothing open, however its connections ended."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from tests.e2e.host import await_that
from tests.faults.proxy import RESETS, Cut, Proxy


def reset(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
    end.close()


@pytest.mark.parametrize("how", ["reset", "close", "silence"])
def test_every_socket_is_closed_and_no_thread_accepts(how: Cut) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Proxy(server.getsockname()[1]) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port))
        behind, _ = server.accept()
        with client, behind:
            client.sendall(b"x")
            assert behind.recv(1) == b"x"
            proxy.cut(how)
        proxy.down = how
        with socket.create_connection(("127.0.0.1", proxy.port)) as other:
            await_that(lambda: proxy.accepted == 2, "the second connection")
            if how != "silence":
                with contextlib.suppress(ConnectionResetError):
                    assert other.recv(1) == b""
    assert [end.fileno() for link in proxy.links for end in link.ends] == [-1, -1]
    assert [held.fileno() for held in proxy.held] == [-1] * (how == "silence")
    assert proxy._accepting not in threading.enumerate()


def test_a_client_that_resets_is_closed_as_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Proxy(server.getsockname()[1]) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port))
        behind, _ = server.accept()
        reset(client)
        with behind:
            assert behind.recv(1) == b""
    assert [end.fileno() for link in proxy.links for end in link.ends] == [-1, -1]
