"""An SSH server of one connection that fails where no sshd can be made to: in login, in exec."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paramiko
from kernelrig.model import Remote

from tests.remote.sshd_fixture import make_key

Answer = Callable[[Any], bool]  # gets the server's transport


class _Server(paramiko.ServerInterface):  # type: ignore[misc]  # its base is Any
    def __init__(self, transport: Any, on_login: Answer, on_exec: Answer) -> None:  # noqa: ANN401
        self._transport = transport
        self._on_login = on_login
        self._on_exec = on_exec

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: object) -> int:
        known = self._on_login(self._transport)
        return int(paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return int(paramiko.OPEN_SUCCEEDED)

    def check_channel_exec_request(self, channel: object, command: bytes) -> bool:
        return self._on_exec(self._transport)


def accept(_: object) -> bool:
    return True


def refuse(_: object) -> bool:
    return False


def drop(transport: Any) -> bool:  # noqa: ANN401 - a paramiko transport
    """End the connection without a word of SSH, as a link that breaks does."""
    transport.sock.shutdown(socket.SHUT_RDWR)
    return False


@contextlib.contextmanager
def odd_server(
    folder: Path, *, on_login: Answer = accept, on_exec: Answer = accept
) -> Iterator[Remote]:
    host_key = make_key(folder / "odd_host_key")
    make_key(folder / "odd_identity")
    listener = socket.create_server(("127.0.0.1", 0))
    running: list[Any] = []

    def serve() -> None:
        transport = paramiko.Transport(listener.accept()[0])
        running.append(transport)
        transport.add_server_key(paramiko.Ed25519Key.from_private_key_file(folder / "odd_host_key"))
        transport.start_server(threading.Event(), _Server(transport, on_login, on_exec))

    accepting = threading.Thread(target=serve)
    accepting.start()
    try:
        yield Remote(
            "odd",
            "sm_90a",
            host="127.0.0.1",
            port=listener.getsockname()[1],
            user="nobody",
            identity_file=str(folder / "odd_identity"),
            host_key=host_key,
            connect_timeout_s=0.5,
        )
    finally:
        accepting.join(10)
        listener.close()
        for transport in running:
            transport.close()
            transport.join(10)
