"""The one SSH connection of a run and the processes opened on it; every wait has a limit."""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import paramiko

from kernelrig.errors import ConfigError, RemoteError
from kernelrig.model import Remote
from kernelrig.remote.ssh import handshake
from kernelrig.remote.ssh.channel import LinkLost
from kernelrig.remote.ssh.handshake import HostKeyCheck
from kernelrig.remote.ssh.route import Hop, SshHome, addresses, route
from kernelrig.terminal.log import mask, say

_PACKET_BYTES = 32 << 10  # the largest payload an SSH packet has to carry
_STDERR_BYTES = 64 << 10
_LINK_ERRORS = (OSError, EOFError, paramiko.SSHException)


class SshChannel:
    """One remote process. A thread drains its stderr, which shares the flow window with stdout."""

    def __init__(self, raw: Any, where: str, drop: Callable[[], None], limit_s: float) -> None:  # noqa: ANN401 - a paramiko channel
        self._raw = raw
        self._where = where
        self._drop = drop
        self._limit_s = limit_s
        self._stderr = bytearray()
        self._drain = threading.Thread(target=self._drain_stderr, daemon=True)
        self._drain.start()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                sent = self._raw.send(bytes(view[:_PACKET_BYTES]))
                if not sent:
                    raise self._closed("accepts no more input")
                view = view[sent:]
        except TimeoutError as e:
            raise self._lost(f"accepted no data for {self._raw.gettimeout():g} s") from e
        except _LINK_ERRORS as e:
            raise self._closed("accepts no more input") from e

    def read(self, limit: int) -> bytes:
        try:
            data: bytes = self._raw.recv(limit)
        except TimeoutError as e:
            raise self._lost(f"sent nothing for {self._raw.gettimeout():g} s") from e
        # paramiko returns b"" for the end of stdout and for a dead connection alike: it is the end
        # only if the server sent EOF or an exit status.
        if not data and not self._raw.eof_received and self._raw.exit_status == -1:
            raise self._lost("dropped the connection")
        return data

    def stderr(self) -> str:
        if self._raw.closed or self._raw.eof_received:
            self._drain.join(self._limit_s)
        return bytes(self._stderr[-_STDERR_BYTES:]).decode(errors="replace")

    def exit_status(self) -> int | None:
        if not self._raw.status_event.wait(self._limit_s):
            return None
        code: int = self._raw.exit_status
        return None if code == -1 else code

    def ended_by_signal(self) -> bool:
        raw = self._raw
        return bool(raw.eof_received and raw.exit_status == -1 and raw.get_transport().is_active())

    def close(self) -> None:
        with contextlib.suppress(*_LINK_ERRORS):
            self._raw.close()

    def _drain_stderr(self) -> None:
        with contextlib.suppress(*_LINK_ERRORS):
            while True:
                try:
                    data = self._raw.recv_stderr(_PACKET_BYTES)
                except TimeoutError:
                    continue
                if not data:
                    return
                self._stderr += data
                if len(self._stderr) > 2 * _STDERR_BYTES:
                    del self._stderr[:-_STDERR_BYTES]

    def _closed(self, what: str) -> RemoteError:
        if self._raw.eof_received or self._raw.exit_status != -1:
            return RemoteError(f"the process on {self._where} {what}", self.stderr().strip()[-300:])
        return self._lost("dropped the connection")

    def _lost(self, what: str) -> LinkLost:
        self._drop()
        return LinkLost(f"{self._where} {what}")


class Session:
    """Opens processes on a remote over one connection, made at first use and after a drop.

    `silence_s` bounds a read or write without progress, `link_timeout_s` data without a TCP
    acknowledgement. Connecting is bounded by the hop's own limit, for each of its steps.
    `host_key` is the fingerprint of the one key that the remote may show, empty before it is known:
    the first connection sets it, so that a later one reaches the same host.
    """

    def __init__(
        self,
        remote: Remote,
        *,
        home: SshHome | None = None,
        host_key: str = "",
        silence_s: float = 30.0,
        link_timeout_s: float = 20.0,
    ) -> None:
        self.remote = remote
        self.host_key = host_key
        self.silence_s = silence_s
        self.link_timeout_s = link_timeout_s
        self._home = home or SshHome.of_user()
        self._chain: list[Any] = []
        self._shown: set[str] = set()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(
        self, argv: Sequence[str], *, first: bytes = b"", silence_s: float | None = None
    ) -> SshChannel:
        """Start `argv`; if the connection is found dead, connect again, once.

        `first` is its first input, which goes with the request: a round trip less.
        """
        command = command_line(argv)
        raw = self._open_channel()
        raw.settimeout(self.silence_s if silence_s is None else silence_s)
        # paramiko waits for the reply to an exec request without limit: this timer ends that.
        waited_enough = threading.Event()

        def give_up() -> None:
            waited_enough.set()
            with contextlib.suppress(*_LINK_ERRORS):  # the connection may be lost by now
                raw.close()

        timer = threading.Timer(self._limit_s, give_up)
        timer.start()
        try:
            _execute(raw, command, first)
        except _LINK_ERRORS as e:
            if waited_enough.is_set():
                text = f"{self._where} did not start {argv[0]} within {self._limit_s:g} s"
                raise LinkLost(text) from e
            if self._alive():
                raise RemoteError(f"{self._where} did not start {argv[0]}") from e
            raise LinkLost(f"{self._where} dropped the connection") from e
        finally:
            timer.cancel()
        chain = self._chain  # a late read on this channel must not close a newer connection
        return SshChannel(raw, self._where, lambda: _close_all(chain), self._limit_s)

    def close(self) -> None:
        _close_all(self._chain)
        self._chain = []

    @property
    def _where(self) -> str:
        return f"remote '{self.remote.name}'"

    def _alive(self) -> bool:
        return bool(self._chain) and all(c.is_connected for c in self._chain)

    @property
    def _limit_s(self) -> float:
        limit: float = self._chain[-1].transport.channel_timeout
        return limit

    def _open_channel(self) -> Any:  # noqa: ANN401 - a paramiko channel
        if self._alive():
            try:
                return self._chain[-1].transport.open_session()
            except paramiko.ChannelException as e:  # a channel limit: an earlier one may be closing
                raise LinkLost(f"{self._where} opened no channel: {e.text}") from e
            except _LINK_ERRORS:
                pass  # it died unnoticed
        self._connect()
        try:
            return self._chain[-1].transport.open_session()
        except _LINK_ERRORS as e:
            raise LinkLost(f"{self._where} opened no channel: {e or 'no answer'}") from e

    def _connect(self) -> None:
        self.close()
        hops = route(self.remote, self._home)
        if self.remote.kind != "embedded":
            mask(addresses(hops))
        try:
            for hop in hops:
                before = self._chain[-1] if self._chain else None
                last = hop is hops[-1]
                pin = f"invoke remote-add {self.remote.name} USER@HOST:PORT"
                known = HostKeyCheck(hop, pin if last else "", self.host_key if last else "")
                try:
                    connected = handshake.connect_hop(hop, before, known, self.link_timeout_s)
                except RemoteError:
                    self._say_address(hop)
                    raise
                self._chain.append(connected)
                self.host_key = known.shown if last else self.host_key
        except BaseException:
            self.close()
            raise

    def _say_address(self, hop: Hop) -> None:
        """Show once where `hop` is: the error names the remote alone, since it is recorded."""
        if hop.name not in self._shown:
            self._shown.add(hop.name)
            say(f"{hop.name}: {hop.user}@{hop.address}")


def _execute(raw: Any, command: str, first: bytes) -> None:  # noqa: ANN401 - a paramiko channel
    """Do what paramiko's exec_command does, and send the first input before the reply is here.

    Input that is not taken is no error of its own: how the process ended says why.
    """
    request = paramiko.Message()
    request.add_byte(paramiko.common.cMSG_CHANNEL_REQUEST)
    request.add_int(raw.remote_chanid)
    request.add_string("exec")
    request.add_boolean(True)
    request.add_string(command)
    raw._event_pending()
    raw.transport._send_user_message(request)
    with contextlib.suppress(OSError):
        raw.sendall(first)
    raw._wait_for_event()


def command_line(argv: Sequence[str]) -> str:
    """Return the command for the login shell, with every word quoted."""
    for word in argv:
        if "\0" in word:
            raise ConfigError(f"{word!r} holds a NUL byte, which an argument cannot")
    return shlex.join(argv)


def _close_all(chain: Sequence[Any]) -> None:
    for connection in reversed(chain):
        handshake.close(connection)
