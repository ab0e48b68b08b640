"""Real OpenSSH servers on loopback, each with keys of its own, for the time of one test."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.dev.openssh import require_sshd
from kernelrig.errors import CiError
from kernelrig.model import Remote

from tests.compilations import locked


@dataclass(frozen=True)
class Sshd:
    """A running server. `home` is $HOME of what runs there: no .bashrc of the developer's runs."""

    port: int
    user: str
    folder: Path
    home: Path
    host_key: str
    identity: Path
    process: subprocess.Popen[bytes]
    host: str = "127.0.0.1"

    def remote(self, **changes: Any) -> Remote:  # noqa: ANN401 - fields of Remote
        """Return a record that pins this server's key."""
        host = Remote(
            name="host",
            arch="sm_90a",
            host=self.host,
            user=self.user,
            port=self.port,
            identity_file=str(self.identity),
            host_key=self.host_key,
            connect_timeout_s=10.0,
            boot_s=0.0,
        )
        return replace(host, **changes)

    def known_hosts_line(self) -> str:
        return f"[{self.host}]:{self.port} {self.host_key}\n"

    def sessions(self) -> list[int]:
        """Return the pids of the sshd processes that serve connections."""
        parents = {self.process.pid}
        found: list[int] = []
        for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda p: int(p.parent.name)):
            try:
                name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            if name.startswith("sshd") and int(rest.split()[1]) in parents:
                parents.add(int(stat.parent.name))
                found.append(int(stat.parent.name))
        return found

    def cut(self) -> None:
        """Kill what serves the open connections, as a crash of the host's sshd would."""
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        self.cut()
        self.process.terminate()
        self.process.wait(10)


def install_openssh_server() -> None:
    """Install openssh-server where that is ours to do: the first worker does, others wait."""
    with locked("openssh-server"):
        try:
            require_sshd()
        except CiError as e:
            pytest.fail(f"{e.message}; {e.hint}", pytrace=False)


def make_key(path: Path, kind: str = "ed25519", *, passphrase: str = "") -> str:
    """Make a key pair and return the public half, `type base64`."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)],
        check=True,
    )
    return " ".join(path.with_name(f"{path.name}.pub").read_text().split()[:2])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start_server(
    folder: Path,
    *,
    port: int = 0,
    key_kind: str = "ed25519",
    options: str = "",
    tools: Path | None = None,
) -> Sshd:
    """Start sshd with its own keys under `folder` and wait until the port says "SSH-".

    `tools` is a folder that comes first on the PATH of what runs there.
    """
    home = folder / "home"
    home.mkdir(parents=True)
    host_key = make_key(folder / "host_key", key_kind)
    authorized = make_key(folder / "identity")
    (folder / "authorized_keys").write_text(authorized + "\n")
    port = port or free_port()
    path = f"{Path(sys.executable).resolve().parent}:/usr/local/bin:/usr/bin:/bin"
    path = f"{tools}:{path}" if tools else path
    (folder / "sshd_config").write_text(
        f"""Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/pid
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
UseDNS no
MaxSessions 64
MaxStartups 64
SetEnv HOME={home} PATH={path}
Subsystem sftp internal-sftp
{options}
"""
    )
    if os.geteuid() == 0:
        # Where sshd separates privileges; made at boot, and a container may never have booted.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    return _serve(
        Sshd(port, getpass.getuser(), folder, home, host_key, folder / "identity", _start(folder))
    )


def start_again(server: Sshd) -> Sshd:
    """Start a server that was stopped anew, with its keys and on its port."""
    return _serve(replace(server, process=_start(server.folder)))


def _start(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "sshd.log").open("ab") as log:
        return subprocess.Popen(
            [require_sshd(), "-D", "-e", "-f", str(folder / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )


def _serve(server: Sshd) -> Sshd:
    """Return the server once it answers."""
    deadline = time.monotonic() + 10
    # Asking the port is a session too: a server is ready when that one is gone again.
    while not (_speaks_ssh(server.port) and _quiet(server, deadline)):
        if server.process.poll() is not None or time.monotonic() > deadline:
            server.stop()
            pytest.fail(f"sshd did not start: {(server.folder / 'sshd.log').read_text()[-500:]}")
    return server


def _quiet(server: Sshd, deadline: float) -> bool:
    while server.sessions():
        if time.monotonic() > deadline:
            return False
    return True


def _speaks_ssh(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


@pytest.fixture(scope="session")
def openssh() -> None:
    install_openssh_server()


@pytest.fixture
def start_sshd(openssh: None, tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Start any number of servers; all are stopped by pid when the test ends."""
    running: list[Sshd] = []

    def start(**settings: Any) -> Sshd:  # noqa: ANN401 - the settings of start_server
        folder = Path(tempfile.mkdtemp(prefix="sshd-", dir=tmp_path))
        running.append(start_server(folder, **settings))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def sshd(start_sshd: Callable[..., Sshd]) -> Sshd:
    return start_sshd()


@pytest.fixture
def ssh_agent() -> Iterator[Path]:
    """Yield the socket of an ssh-agent of the test's own."""
    # A socket's path has a limit of 108 bytes, which a test's own folder can exceed.
    with tempfile.TemporaryDirectory(prefix="agent-") as folder:
        path = Path(folder) / "socket"
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 10
            while not path.exists():
                assert time.monotonic() < deadline
            yield path
        finally:
            agent.terminate()
            agent.wait(10)
