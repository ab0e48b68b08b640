from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest
from kernelrig.errors import RemoteError
from kernelrig.model import Remote
from kernelrig.remote.embedded import EmbeddedHost, EmbeddedServer, embedded_host
from kernelrig.remote.ssh.channel import Channel, LinkLost
from kernelrig.remote.ssh.route import SshHome
from kernelrig.remote.ssh.session import Session


@pytest.fixture
def host() -> Iterator[EmbeddedHost]:
    with embedded_host() as host:
        yield host


@pytest.fixture
def remote(host: EmbeddedHost) -> Remote:
    return host.reach(Remote("self", "sm_90a"))


@pytest.fixture
def session(host: EmbeddedHost, remote: Remote) -> Iterator[Session]:
    with Session(remote, home=host.home) as opened:
        yield opened


def hear(channel: Channel) -> tuple[bytes, str, int | None]:
    output = bytearray()
    while data := channel.read(1 << 16):
        output += data
    heard = bytes(output), channel.stderr(), channel.exit_status()
    channel.close()
    return heard


def until(claim: Callable[[], bool]) -> None:
    """Wait for something another process does, which nothing tells us of."""
    deadline = time.monotonic() + 10
    while not claim():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # gone before, or while it was read
        return False
    return state not in "ZX"


def test_of_a_hundred_commands_none_loses_its_stderr_or_exit_status(session: Session) -> None:
    for n in range(100):
        channel = session.open(["sh", "-c", f"echo out {n}; echo err {n} >&2; exit {n}"])
        assert hear(channel) == (b"out %d\n" % n, f"err {n}\n", n)


def test_a_signal_gives_no_exit_code(session: Session) -> None:
    assert hear(session.open(["sh", "-c", "kill -KILL $PPID"]))[2] is None


def test_twenty_megabytes_go_both_ways_at_once_and_arrive_intact(session: Session) -> None:
    data = random.Random(2).randbytes(20_000_000)
    channel = session.open(["head", "-c", str(len(data))])
    writer = threading.Thread(target=channel.write, args=(data,))
    writer.start()
    digest = hashlib.sha256()
    while piece := channel.read(1 << 16):
        digest.update(piece)
    writer.join()
    assert channel.exit_status() == 0
    assert digest.hexdigest() == hashlib.sha256(data).hexdigest()


def test_a_writer_is_let_go_when_the_process_ends(session: Session, tmp_path: Path) -> None:
    wait = 'while [ ! -e "$1" ]; do sleep 0.01; done; echo done'
    channel = session.open(["sh", "-c", wait, "sh", str(tmp_path / "flag")])
    errors: list[RemoteError] = []

    def write() -> None:
        try:
            channel.write(b"x" * 50_000_000)
        except RemoteError as e:
            errors.append(e)

    writer = threading.Thread(target=write)
    writer.start()
    (tmp_path / "flag").touch()
    assert hear(channel) == (b"done\n", "", 0)
    writer.join()
    assert [e.message for e in errors] == ["the process on remote 'self' accepts no more input"]


def test_every_byte_and_every_argument_arrives_as_it_was_given(session: Session) -> None:
    everything = bytes(range(256)) * 3
    channel = session.open(["head", "-c", "768"])
    channel.write(everything)
    assert hear(channel)[0] == everything
    words = ["it's", '"q"', "$HOME", "a;b\nc", "Grüße", ""]
    heard = hear(session.open(["printf", "%s\\0", *words]))
    assert heard[0].decode().split("\0")[:-1] == words


def test_closing_a_channel_ends_the_whole_process_group(session: Session) -> None:
    channel = session.open(["sh", "-c", "sleep 60 & echo $$ $!; trap '' TERM; wait; sleep 60"])
    pids = [int(pid) for pid in channel.read(100).split()]
    assert all(alive(pid) for pid in pids)
    channel.close()
    until(lambda: not any(alive(pid) for pid in pids))


def test_a_detached_process_outlives_channel_connection_and_host() -> None:
    with embedded_host() as host:
        remote = host.reach(Remote("self", "sm_90a"))
        with Session(remote, home=host.home) as session:
            start = "setsid sh -c 'echo $$; exec >/dev/null; exec sleep 60' </dev/null 2>&1 & wait"
            channel = session.open(["sh", "-c", start])
            pid = int(channel.read(100))
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_stopping_the_host_ends_what_was_started_on_it() -> None:
    with embedded_host() as host:
        session = Session(host.reach(Remote("self", "sm_90a")), home=host.home)
        pid = int(session.open(["sh", "-c", "echo $$; exec sleep 60"]).read(100))
    until(lambda: not alive(pid))  # KILL was sent to its group; the kernel takes its time
    session.close()


def test_the_login_key_is_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing is left of it however the process ends."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with (
        embedded_host() as host,
        Session(host.reach(Remote("self", "sm_90a")), home=host.home) as s,
    ):
        assert hear(s.open(["true"]))[2] == 0
        assert list(tmp_path.rglob("*")) == []
        assert host.login_key.startswith("-----BEGIN OPENSSH PRIVATE KEY")
        shown = repr(host) + repr(host.home)
        assert [line for line in host.login_key.split() if line in shown] == []


def test_only_the_key_of_this_run_may_log_in(remote: Remote, tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    (tmp_path / "key").write_bytes(key.export_private_key())
    other_user = replace(remote, identity_file=str(tmp_path / "key"))
    with (
        Session(other_user, home=SshHome.empty()) as session,
        pytest.raises(RemoteError) as caught,
    ):
        session.open(["true"])
    assert caught.value.message.endswith("accepted none of our keys: 1 was refused")


def test_it_listens_on_the_loopback_alone(remote: Remote) -> None:
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1].split(":")[1], 16) == remote.port
    ]
    assert listening == [f"0100007F:{remote.port:04X}"]


def test_a_shell_without_a_command_is_refused(session: Session) -> None:
    session.open(["true"])
    raw = session._chain[-1].transport.open_session(timeout=5)
    raw.invoke_shell()
    assert raw.recv_exit_status() == 1


class DropsEarly(EmbeddedServer):
    """Cuts the connection after the first piece of output of each command."""

    async def _carry(self, source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes]) -> None:
        data = await source.read(1000)
        if data:
            sink.write(data)
            await sink.drain()
            sink.channel.get_connection().abort()


def test_a_connection_cut_amid_the_output_is_an_error_not_an_end(tmp_path: Path) -> None:
    host_key, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    (tmp_path / "key").write_bytes(key.export_private_key())
    server = DropsEarly(host_key, key)
    remote = Remote(
        "self",
        "sm_90a",
        host="127.0.0.1",
        port=server.start(),
        user="me",
        identity_file=str(tmp_path / "key"),
        host_key=" ".join(host_key.export_public_key().decode().split()[:2]),
    )
    try:
        with Session(remote, home=SshHome.empty()) as session:
            for _ in range(3):  # each time through a new connection
                channel = session.open(["head", "-c", "5000000", "/dev/zero"])
                with pytest.raises(LinkLost):
                    hear(channel)
    finally:
        server.stop()
