"""From a hop to a logged-in connection: host key checked, every wait bounded and explained.

Fabric and paramiko ship no types: their objects are `Any` in here and in `session`.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Sequence
from typing import Any

import fabric
import paramiko

from kernelrig.errors import RemoteError
from kernelrig.remote.ssh.channel import HostUnknown, LinkLost
from kernelrig.remote.ssh.known_hosts import HostKey, known_keys
from kernelrig.remote.ssh.login import KeyLogin
from kernelrig.remote.ssh.route import Hop

# Without a handler Python prints paramiko's tracebacks to stderr; its exceptions reach us anyway.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_WINDOW_BYTES = 8 << 20  # data in flight to us: at 150 ms of latency this still allows 50 MB/s
_KEEPALIVE_S = 10
_NO_SUCH_NAME = (socket.EAI_NONAME, socket.EAI_NODATA)


class HostKeyCheck(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]  # its base is Any
    """Accepts a key that is pinned or in known_hosts, no other; `pin` is the command that pins.

    `recorded` is the fingerprint of the key that the host showed before, to the same run: another
    one is refused even if it is known.
    """

    def __init__(self, hop: Hop, pin: str, recorded: str = "") -> None:
        self._hop = hop
        self._pin = pin
        self._recorded = recorded
        host = hop.known_as or hop.host
        known = (hop.pinned,) if hop.pinned else known_keys(hop.known_hosts, host, hop.port)
        # A host may have keys of several types: it is asked for the one that it showed before.
        self.accepted = tuple(key for key in known if key.fingerprint == recorded) or known
        self.shown = ""

    def algorithms(self, supported: Sequence[str]) -> list[str]:
        """Return `supported`, the accepted keys' first, so that the server shows such a key."""
        wanted = [name for key in self.accepted for name in key.algorithms if name in supported]
        return [*dict.fromkeys(wanted), *(name for name in supported if name not in wanted)]

    def missing_host_key(self, client: object, hostname: str, key: Any) -> None:  # noqa: ANN401 - a paramiko key
        """Called by paramiko for every key, because its own list of known keys is left empty."""
        shown = HostKey(key.get_name(), key.asbytes())
        where = self._hop.name
        if shown in self.accepted:
            if self._recorded not in ("", shown.fingerprint):
                raise RemoteError(
                    f"{where} is another host than the one the run was launched on: it shows"
                    f" {shown}, that one showed {self._recorded}",
                    "its results are on the host with that key: give the remote its address again",
                )
            self.shown = shown.fingerprint
            return
        if self.accepted:
            source = "pinned" if self._hop.pinned else "in known_hosts"
            raise RemoteError(
                f"the host key of {where} changed: it shows {shown},"
                f" {source} is {' or '.join(map(str, self.accepted))}",
                # Not the key that was shown: a paste would pin the attacker's.
                "this may be a man-in-the-middle attack"
                + (
                    f"; if the machine is a new one, `{self._pin} --fingerprint SHA256:...`"
                    " with what its provider says"
                    if self._pin
                    else ""
                ),
            )
        raise RemoteError(
            f"the host key of {where} is not known: it shows {shown}",
            "compare the fingerprint with what the host or its provider says, then"
            f" `{self._pin} --fingerprint {shown.fingerprint}`"
            if self._pin
            else "log in to it once with `ssh`, so that known_hosts has its key",
        )


def connect_hop(hop: Hop, before: Any | None, known: HostKeyCheck, link_timeout_s: float) -> Any:  # noqa: ANN401 - a Fabric connection
    """Return an open Fabric connection to `hop`, through the one `before` it if there is one."""

    def make_transport(sock: Any, disabled_algorithms: Any = None) -> Any:  # noqa: ANN401
        transport = paramiko.Transport(
            sock, default_window_size=_WINDOW_BYTES, disabled_algorithms=disabled_algorithms
        )
        transport.handshake_timeout = hop.timeout_s
        options = transport.get_security_options()
        options.key_types = known.algorithms(options.key_types)
        return transport

    def make_login(**_: object) -> KeyLogin:
        return KeyLogin(hop)

    connect: dict[str, Any] = {
        "banner_timeout": hop.timeout_s,
        "auth_timeout": hop.timeout_s,
        "channel_timeout": hop.timeout_s,
        "timeout": 2 * hop.timeout_s,  # banner and key exchange together
        "transport_factory": make_transport,
    }
    if before is None:
        connect["sock"] = _dial(hop, link_timeout_s)
    # lazy: neither fabric.yaml nor ssh_config is read here; the hop already holds what counts.
    config = fabric.Config(
        lazy=True,
        ssh_config=paramiko.SSHConfig(),
        overrides={"authentication": {"strategy_class": make_login}},
    )
    connection = fabric.Connection(
        hop.host,
        user=hop.user,
        port=hop.port,
        config=config,
        gateway=before or False,
        connect_kwargs=connect,
    )
    connection.client.set_missing_host_key_policy(known)
    began = time.monotonic()
    try:
        connection.open()
    except (OSError, EOFError, paramiko.SSHException) as e:
        close(connection)
        if "sock" in connect:
            connect["sock"].close()
        raise _explain(e, hop, before, time.monotonic() - began) from e
    except BaseException:
        close(connection)
        raise
    connection.transport.set_keepalive(_KEEPALIVE_S)
    if "sock" in connect and hasattr(socket, "TCP_QUICKACK"):
        # The server holds its next packet back until we acknowledge the one before: at once.
        with contextlib.suppress(OSError):
            connect["sock"].setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    return connection


def show_host_key(
    hop: Hop,
    before: Any | None,  # noqa: ANN401 - a Fabric connection
    key_types: Sequence[str],
    link_timeout_s: float,
) -> HostKey | None:
    """Return the key `hop` shows when asked for one of `key_types`, None if it has none of them."""
    began = time.monotonic()
    transport = None
    try:
        if before is None:
            sock: Any = _dial(hop, link_timeout_s)
        else:
            sock = before.transport.open_channel("direct-tcpip", (hop.host, hop.port), ("", 0))
        transport = paramiko.Transport(sock)
        transport.banner_timeout = transport.handshake_timeout = hop.timeout_s
        transport.get_security_options().key_types = tuple(key_types)
        transport.start_client(timeout=2 * hop.timeout_s)
        key = transport.get_remote_server_key()
    except paramiko.ssh_exception.IncompatiblePeer:
        return None
    except (OSError, EOFError, paramiko.SSHException) as e:
        raise _explain(e, hop, before, time.monotonic() - began) from e
    finally:
        if transport is not None:
            transport.close()
    return HostKey(key.get_name(), key.asbytes())


def _dial(hop: Hop, link_timeout_s: float) -> socket.socket:
    try:
        sock = socket.create_connection((hop.host, hop.port), hop.timeout_s)
    except socket.gaierror as e:
        # A name server that is silent may answer later; one that knows no such name has answered.
        lost = HostUnknown if e.errno in _NO_SUCH_NAME else LinkLost
        raise lost(f"the address of {hop.name} does not resolve: {e.strerror}") from e
    except UnicodeError as e:
        raise HostUnknown(f"the address of {hop.name} is not the name of a host") from e
    except TimeoutError as e:
        raise LinkLost(
            f"{hop.name} did not answer within {hop.timeout_s:g} s", "is the host running?"
        ) from e
    except ConnectionRefusedError as e:
        raise LinkLost(
            f"{hop.name} refused the connection", "is sshd running there, is the port right?"
        ) from e
    except OSError as e:
        raise LinkLost(f"{hop.name} cannot be reached: {e.strerror or e}") from e
    seconds = max(1, round(link_timeout_s / 4))
    for level, name, value in (
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", seconds),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", seconds),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", round(link_timeout_s * 1000)),
    ):
        if hasattr(socket, name):  # macOS lacks some; its own defaults hold there
            sock.setsockopt(level, getattr(socket, name), value)
    return sock


def _explain(error: Exception, hop: Hop, before: Any | None, seconds: float) -> RemoteError:  # noqa: ANN401
    """Return the error for a failure between the open socket and the finished login."""
    if isinstance(error, paramiko.ChannelException):
        reason = {1: "it forbids forwarding", 2: "no connection"}.get(error.code, error.text)
        lost = HostUnknown if error.code == 1 else LinkLost
        return lost(f"the jump host before {hop.name} cannot reach it: {reason}")
    text = str(error)
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        if "version" in text:
            return RemoteError(f"{hop.name} does not speak SSH version 2")
        return RemoteError(f"{hop.name} and kernelrig have no algorithm in common: {text}")
    if "banner" in text or "protocol version" in text or "No existing session" in text:
        if "Indecipherable" in text or "Invalid" in text:
            return RemoteError(f"{hop.name} does not speak SSH", "is the port right?")
        if seconds > 0.9 * hop.timeout_s:
            return LinkLost(
                f"{hop.name} accepted the connection and sent nothing for {hop.timeout_s:g} s",
                "is it an SSH server?",
            )
        return LinkLost(
            f"{hop.name} closed the connection without sending anything",
            "does it limit who may connect?",
        )
    if seconds > 0.9 * hop.timeout_s:
        return LinkLost(f"{hop.name} did not finish the SSH handshake in {seconds:.0f} s")
    return LinkLost(f"{hop.name} aborted the SSH handshake: {text or 'connection closed'}")


def close(connection: Any) -> None:  # noqa: ANN401 - a Fabric connection
    """Close a connection in any state; Fabric's own close ignores one that is half open."""
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        connection.client.close()
