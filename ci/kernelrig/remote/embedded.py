"""An SSH server inside kernelrig for a machine without sshd: on the loopback, with one-run keys.

Client, agent and protocol are the same as for any remote. This module starts processes itself: it
and the agent are the two exemptions from the contract that kernelrig.proc alone does so.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import asyncssh

from kernelrig.errors import RemoteError
from kernelrig.model import Remote
from kernelrig.remote.ssh.route import SshHome

_CHUNK = 64 << 10
_GRACE_S = 1.0  # between TERM and KILL, once a channel is closed
_START_S = 15.0
_LOOPBACK = "127.0.0.1"
_USER = "kernelrig"  # the key alone decides who may log in

logging.getLogger("asyncssh").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class EmbeddedHost:
    """Where the server listens, the server's host key, and the key that may log in.

    That key is in no file: a process that is killed leaves none behind.
    """

    host: str
    port: int
    user: str
    host_key: str
    login_key: str = field(repr=False)

    @property
    def home(self) -> SshHome:
        """The client's configuration for this server: its key alone."""
        return SshHome.with_key(self.login_key)

    def reach(self, remote: Remote) -> Remote:
        """Return `remote` with this server's address and this run's keys, as for any SSH remote."""
        return replace(
            remote,
            host=self.host,
            port=self.port,
            user=self.user,
            identity_file="",
            host_key=self.host_key,
            jump="",
        )


class _Connections(asyncssh.SSHServer):
    """Records the open connections, so that the server can close them."""

    def __init__(self, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._own = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self._own)


class EmbeddedServer:
    """Serves `exec` requests; each command is a process group that is ended with its channel.

    A process that made a session of its own (setsid), as the detached agent does, is left running.
    """

    def __init__(self, host_key: asyncssh.SSHKey, client_key: asyncssh.SSHKey) -> None:
        self._host_key = host_key
        self._client_key = client_key
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="embedded-ssh")
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._serving: set[asyncio.Task[None]] = set()

    def start(self) -> int:
        """Start the server's thread and return the port."""
        self._thread.start()
        try:
            return asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_START_S)
        except (OSError, asyncssh.Error, concurrent.futures.TimeoutError) as e:
            self.stop()
            raise RemoteError(f"the embedded SSH host did not start: {e!r}") from e

    def stop(self) -> None:
        """End every connection and its commands, then the thread."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> int:
        self._acceptor = await asyncssh.listen(
            _LOOPBACK,
            0,
            server_factory=lambda: _Connections(self._connections),
            server_host_keys=[self._host_key],
            authorized_client_keys=asyncssh.import_authorized_keys(
                self._client_key.export_public_key().decode()
            ),
            process_factory=self._serve,
            encoding=None,
            password_auth=False,
            kbdint_auth=False,
            host_based_auth=False,
            gss_host=None,
            allow_pty=False,
            agent_forwarding=False,
            x11_forwarding=False,
            login_timeout=_START_S,
        )
        return self._acceptor.get_port()

    async def _close(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in tuple(self._connections):
            connection.abort()
            await connection.wait_closed()
        while self._serving:
            await asyncio.gather(*self._serving, return_exceptions=True)
        if self._acceptor is not None:
            await self._acceptor.wait_closed()  # from Python 3.12 on it waits for connections too

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Record a task that _close has to wait for."""
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, channel: asyncssh.SSHServerProcess[bytes]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._keep(task)
        if channel.command is None:
            channel.stderr.write(b"the embedded SSH host has no login shell: give a command\n")
            channel.exit(1)
            return
        # What asyncio.create_subprocess_exec does, except that the transport is kept: closing it
        # closes pipes that a detached grandchild still holds open.
        transport, protocol = await self._loop.subprocess_exec(
            lambda: asyncio.subprocess.SubprocessStreamProtocol(_CHUNK, self._loop),
            "/bin/sh",
            "-c",
            channel.command,
            env={**os.environ, **channel.env},
            cwd=_home(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        process = asyncio.subprocess.Process(transport, protocol, self._loop)
        feeding = asyncio.create_task(self._feed(channel, process))
        running = asyncio.create_task(self._run(channel, process))
        closing = asyncio.create_task(channel.wait_closed())
        try:
            await asyncio.wait((running, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for helper in (feeding, running, closing):
                helper.cancel()
            # Not awaited here: asyncssh may cancel us a second time, and the group must still end.
            self._keep(asyncio.create_task(_end_group(process, transport)))

    async def _run(
        self, channel: asyncssh.SSHServerProcess[bytes], process: asyncio.subprocess.Process
    ) -> None:
        """Copy stdout and stderr until both end, and only then send the exit status.

        asyncssh's own redirection of a process's pipes occasionally loses stderr and exit status.
        """
        assert process.stdout is not None
        assert process.stderr is not None
        await asyncio.gather(
            self._carry(process.stdout, channel.stdout),
            self._carry(process.stderr, channel.stderr),
        )
        code = await process.wait()
        channel.stdout.write_eof()
        if code < 0:
            name = signal.Signals(-code).name.removeprefix("SIG")
            channel.exit_with_signal(name)
        else:
            channel.exit(code)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            while data := await source.read(_CHUNK):
                sink.write(data)
                await sink.drain()

    async def _feed(
        self, channel: asyncssh.SSHServerProcess[bytes], process: asyncio.subprocess.Process
    ) -> None:
        """Copy stdin, and deliver signals that arrive in between. Input not read is dropped."""
        assert process.stdin is not None
        while True:
            try:
                data = await channel.stdin.read(_CHUNK)
            except asyncssh.SignalReceived as e:
                _signal_group(process.pid, getattr(signal, f"SIG{e.signal}", signal.SIGTERM))
                continue
            except (asyncssh.BreakReceived, asyncssh.TerminalSizeChanged):
                continue
            if not data:
                process.stdin.close()
                return
            with contextlib.suppress(BrokenPipeError, ConnectionError):
                process.stdin.write(data)
                await process.stdin.drain()


def _home() -> str:
    """Return where a login starts, as with sshd: our own folder may be gone."""
    home = os.environ.get("HOME", "")
    return home if Path(home).is_dir() and Path(home).is_absolute() else "/"


async def _end_group(
    process: asyncio.subprocess.Process, transport: asyncio.SubprocessTransport
) -> None:
    """End what is left of a command's process group: TERM, and KILL after _GRACE_S."""
    for descriptor in (0, 1, 2):
        pipe = transport.get_pipe_transport(descriptor)
        if pipe is not None:
            pipe.close()  # asyncio reports the exit of a process only once its pipes are closed
    if _signal_group(process.pid, signal.SIGTERM):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await process.wait()
        _signal_group(process.pid, signal.SIGKILL)
    transport.close()


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@contextlib.contextmanager
def embedded_host() -> Iterator[EmbeddedHost]:
    """Serve SSH on a random port of the loopback until the block ends."""
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    client_key = asyncssh.generate_private_key("ssh-ed25519")
    server = EmbeddedServer(host_key, client_key)
    port = server.start()
    words = host_key.export_public_key().decode().split()
    login = client_key.export_private_key().decode()
    try:
        yield EmbeddedHost(_LOOPBACK, port, _USER, " ".join(words[:2]), login)
    finally:
        server.stop()
