"""Log in with a public key: from the remote's record, ssh_config or ssh-agent.

The error of a refused login counts the keys that were tried; the terminal alone shows their names.
"""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko

from kernelrig.errors import RemoteError
from kernelrig.remote.ssh.channel import LinkLost
from kernelrig.remote.ssh.route import Hop
from kernelrig.terminal.log import say

_REFUSED = "was refused"


class KeyLogin(paramiko.auth_strategy.AuthStrategy):  # type: ignore[misc]  # its base is Any
    """Tries each key once. Never asks for a password: a run must not wait for a person."""

    def __init__(self, hop: Hop) -> None:
        super().__init__(ssh_config=None)
        self._hop = hop
        self._tried: list[tuple[str, str]] = []

    def authenticate(self, transport: Any) -> None:  # noqa: ANN401 - a paramiko transport
        """Log in or raise RemoteError; LinkLost if the connection failed, not the login."""
        agent = paramiko.Agent() if self._hop.use_agent else None
        try:
            for label, key in self._keys(agent):
                try:
                    _offer(transport, self._hop.user, key)
                except paramiko.AuthenticationException as e:
                    self._check_link(transport, str(e))
                    self._tried.append((label, _REFUSED))
                if transport.is_authenticated():
                    return
                if not transport.is_active():
                    break  # the server allows no further attempt
        finally:
            if agent is not None:
                agent.close()
        for label, why in self._tried:
            say(f"key {label}: {why}")
        reasons = Counter(why for _, why in self._tried)
        raise RemoteError(
            f"{self._hop.name} accepted none of our keys: "
            + (
                ", ".join(f"{times} {why}" for why, times in reasons.items())
                or "there is no identity_file, no agent, no ~/.ssh/id_*"
            ),
            "name the right key as identity_file of the remote, or load it into ssh-agent",
        )

    def _check_link(self, transport: Any, text: str) -> None:  # noqa: ANN401 - a paramiko transport
        """Raise LinkLost for silence or a dropped connection, which paramiko calls a failed login.

        A server that allows no further attempt disconnects too, but only after it refused a key.
        """
        name = self._hop.name
        if "timeout" in text:
            seconds = f"{self._hop.timeout_s:g} s"
            raise LinkLost(f"{name} did not answer the login within {seconds}")
        if not transport.is_active() and not any(why == _REFUSED for _, why in self._tried):
            raise LinkLost(f"{name} disconnected during the login")

    def _keys(self, agent: Any | None) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
        if self._hop.key:
            key = paramiko.Ed25519Key.from_private_key(io.StringIO(self._hop.key))
            yield "of the embedded host", key
        wanted: set[str] = set()
        for path in self._hop.identities:
            try:
                wanted.add(_public_words(path))
                yield str(path), paramiko.PKey.from_path(path)
            except FileNotFoundError:
                self._tried.append((str(path), "does not exist"))
            except TypeError:  # what the cryptography package raises for a missing passphrase
                self._tried.append((str(path), "has a passphrase: load it into ssh-agent"))
            except (ValueError, OSError, paramiko.SSHException, paramiko.pkey.UnknownKeyType):
                self._tried.append((str(path), "is not a readable private key"))
        for key in agent.get_keys() if agent else ():
            if not self._hop.only_identities or f"{key.get_name()} {key.get_base64()}" in wanted:
                yield f"agent key {key.comment or key.get_name()}", key


class PipelinedLogin(paramiko.auth_handler.AuthHandler):  # type: ignore[misc]  # its base is Any
    """Sends the login with the request for the service that takes it: a round trip less.

    A server answers both in their order.
    """

    def _request_auth(self) -> None:
        super()._request_auth()
        accepted = paramiko.Message()
        accepted.add_string("ssh-userauth")
        accepted.rewind()
        super()._parse_service_accept(accepted)

    def _parse_service_accept(self, message: Any) -> None:  # noqa: ANN401 - a paramiko message
        """What it allows was sent by now."""


def _offer(transport: Any, user: str, key: Any) -> None:  # noqa: ANN401 - of paramiko
    """Offer the key. Which hash an RSA key signs with the server says before it accepts."""
    if "rsa" in key.get_name() or not transport.is_active():
        transport.auth_publickey(user, key)
        return
    done = threading.Event()
    transport.auth_handler = PipelinedLogin(transport)
    transport.auth_handler.auth_publickey(user, key, done)
    transport.auth_handler.wait_for_response(done)


def _public_words(path: Path) -> str:
    """Return `type base64` of a key file's public half, from `FILE.pub` or the file; or nothing."""
    for candidate in (path.with_name(f"{path.name}.pub"), path):
        if candidate.is_file():
            return " ".join(candidate.read_text(errors="replace").split()[:2])
    return ""
