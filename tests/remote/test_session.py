from __future__ import annotations

import hashlib
import os
import random
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kernelrig.errors import ConfigError, RemoteError
from kernelrig.model import Remote
from kernelrig.remote.ssh.channel import Channel, LinkLost
from kernelrig.remote.ssh.route import SshHome
from kernelrig.remote.ssh.session import Session, SshChannel

from tests.remote.sshd_fixture import Sshd, free_port, make_key

Start = Callable[..., Sshd]


@dataclass(frozen=True)
class Said:
    stdout: bytes
    stderr: str
    exit_status: int | None


def hear(channel: Channel) -> Said:
    """Read a process to its end."""
    output = bytearray()
    while data := channel.read(1 << 16):
        output += data
    said = Said(bytes(output), channel.stderr(), channel.exit_status())
    channel.close()
    return said


def run(session: Session, *argv: str) -> Said:
    return hear(session.open(argv))


@pytest.fixture
def session(sshd: Sshd) -> Iterator[Session]:
    with Session(sshd.remote(), home=SshHome.empty()) as opened:
        yield opened


def refusal(remote: Remote, home: SshHome | None = None) -> RemoteError:
    """Return the error that opening `remote` ends in."""
    with (
        Session(remote, home=home or SshHome.empty()) as session,
        pytest.raises(RemoteError) as caught,
    ):
        session.open(["true"])
    return caught.value


def home_with(folder: Path, *, config: str = "", known_hosts: str = "") -> SshHome:
    folder.mkdir(exist_ok=True)
    (folder / "config").write_text(config)
    (folder / "known_hosts").write_text(known_hosts)
    return SshHome(folder, (folder / "config",), (folder / "known_hosts",), use_agent=False)


# --- what a command gets and gives -----------------------------------------------------------


def test_output_errors_and_exit_code_each_come_back_on_their_own(session: Session) -> None:
    assert run(session, "sh", "-c", "echo out; echo err >&2; exit 7") == Said(b"out\n", "err\n", 7)
    assert run(session, "true") == Said(b"", "", 0)


def test_a_signal_gives_no_exit_code_at_all(session: Session) -> None:
    assert run(session, "sh", "-c", "kill -KILL $$").exit_status is None


def test_every_argument_arrives_as_it_was_given(session: Session) -> None:
    words = (
        "",
        " ",
        "two words",
        "it's",
        '"quoted"',
        "$HOME `id` $(id)",
        "a;b|c&d>e<f",
        "line\nline",
        "tab\there",
        "*?[x]",
        "\\",
        "~",
        "#no comment",
        "!history",
        "Grüße",
        "--",
        "K=V",
    )
    show = "import sys; sys.stdout.write('\\0'.join(sys.argv[1:]))"
    said = run(session, "python3", "-c", show, *words)
    assert tuple(said.stdout.decode().split("\0")) == words


def test_a_nul_byte_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigError) as caught:
        Session(Remote("host", "sm_90a", host="nowhere.invalid")).open(["echo", "a\0b"])
    assert caught.value.message == "'a\\x00b' holds a NUL byte, which an argument cannot"


def test_twenty_megabytes_go_both_ways_at_once_and_arrive_intact(session: Session) -> None:
    data = random.Random(1).randbytes(20_000_000)
    channel = session.open(["cat"])
    reader_needs = len(data)
    writer = threading.Thread(target=channel.write, args=(data,))
    writer.start()
    digest = hashlib.sha256()
    while reader_needs:
        piece = channel.read(1 << 16)
        digest.update(piece)
        reader_needs -= len(piece)
    writer.join()
    channel.close()
    assert digest.hexdigest() == hashlib.sha256(data).hexdigest()


def test_stderr_is_bounded_and_never_holds_the_output_up(session: Session) -> None:
    noise = "import sys; sys.stderr.write('x' * 20_000_000); sys.stderr.write('the end'); print(1)"
    said = run(session, "python3", "-c", noise)
    assert said.stdout == b"1\n"
    assert said.exit_status == 0
    assert len(said.stderr) == 64 << 10
    assert said.stderr.endswith("xthe end")


def test_writing_to_a_process_that_ended_is_an_error_with_its_last_words(session: Session) -> None:
    channel = session.open(["sh", "-c", "echo no such thing >&2; exit 3"])
    assert channel.read(1) == b""
    with pytest.raises(RemoteError) as caught:
        channel.write(b"x" * 100_000_000)
    assert not isinstance(caught.value, LinkLost)
    assert caught.value.message == "the process on remote 'host' accepts no more input"
    assert caught.value.hint == "no such thing"


def test_one_connection_serves_every_command(session: Session, sshd: Sshd) -> None:
    ports = {run(session, "sh", "-c", "echo $SSH_CLIENT").stdout for _ in range(5)}
    assert len(ports) == 1
    assert len(sshd.sessions()) == 1


def test_nothing_is_connected_before_the_first_command(sshd: Sshd) -> None:
    with Session(sshd.remote(), home=SshHome.empty()):
        assert sshd.sessions() == []


# --- links that break ------------------------------------------------------------------------


def test_a_dropped_connection_is_an_error_and_the_next_command_connects_again(
    session: Session, sshd: Sshd
) -> None:
    channel = session.open(["sh", "-c", "echo started; exec sleep 60"])
    assert channel.read(100) == b"started\n"
    sshd.cut()
    with pytest.raises(LinkLost) as caught:
        channel.read(100)
    assert caught.value.message == "remote 'host' dropped the connection"
    assert channel.exit_status() is None
    assert run(session, "echo", "again") == Said(b"again\n", "", 0)


def test_a_connection_that_dropped_while_idle_is_made_anew(session: Session, sshd: Sshd) -> None:
    assert run(session, "true").exit_status == 0
    sshd.cut()
    assert run(session, "true").exit_status == 0


def test_a_late_reader_of_a_dead_channel_leaves_the_new_connection_alone(
    session: Session, sshd: Sshd
) -> None:
    old = session.open(["sleep", "60"])
    sshd.cut()
    new = session.open(["sh", "-c", "read line; echo $line"])
    with pytest.raises(LinkLost):
        old.read(1)
    new.write(b"alive\n")
    assert new.read(100) == b"alive\n"


def test_a_write_into_a_dropped_connection_is_an_error(session: Session, sshd: Sshd) -> None:
    channel = session.open(["sleep", "60"])
    sshd.cut()
    with pytest.raises(LinkLost):
        channel.write(b"x" * 100_000_000)


def test_a_server_that_is_gone_for_good_is_a_lost_link_to_those_who_were_connected(
    session: Session, sshd: Sshd
) -> None:
    assert run(session, "true").exit_status == 0
    sshd.stop()
    with pytest.raises(LinkLost) as caught:
        session.open(["true"])
    assert caught.value.message == "remote 'host' refused the connection"


def test_a_process_that_says_nothing_for_too_long_is_a_lost_link(session: Session) -> None:
    channel = session.open(["sleep", "60"], silence_s=0.2)
    with pytest.raises(LinkLost) as caught:
        channel.read(1)
    assert caught.value.message == "remote 'host' sent nothing for 0.2 s"


def test_a_process_that_takes_nothing_for_too_long_is_a_lost_link(session: Session) -> None:
    channel = session.open(["sleep", "60"], silence_s=0.2)
    with pytest.raises(LinkLost) as caught:
        channel.write(b"x" * 20_000_000)
    assert caught.value.message == "remote 'host' accepted no data for 0.2 s"


def test_a_stopped_server_process_is_noticed_when_a_command_is_opened(
    sshd: Sshd,
) -> None:
    remote = sshd.remote(connect_timeout_s=0.5)
    with Session(remote, home=SshHome.empty()) as session:
        assert run(session, "true").exit_status == 0
        stopped = sshd.sessions()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        assert run(session, "echo", "through a new one").stdout == b"through a new one\n"
        for pid in stopped:
            os.kill(pid, signal.SIGKILL)


# --- hosts that cannot be reached ------------------------------------------------------------


def test_a_refused_port_is_one_sentence(sshd: Sshd) -> None:
    port = free_port()
    error = refusal(sshd.remote(port=port))
    assert isinstance(error, LinkLost)
    assert not error.lasting
    assert str(error) == (
        "remote 'host' refused the connection; is sshd running there, is the port right?"
    )


def test_a_name_that_does_not_resolve_is_one_sentence(sshd: Sshd) -> None:
    error = refusal(sshd.remote(host="no-such-host.invalid"))
    assert error.message.startswith("the address of remote 'host' does not resolve: ")


def test_a_server_that_accepts_and_says_nothing_is_given_up_in_time(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        error = refusal(sshd.remote(port=port, connect_timeout_s=0.5))
    assert error.message == "remote 'host' accepted the connection and sent nothing for 0.5 s"


@pytest.mark.parametrize(
    ("says", "complaint"),
    [
        (b"", "closed the connection without sending anything"),
        (b"HTTP/1.1 400 Bad Request\r\n" * 100, "does not speak SSH"),
        (b"SSH-2.0-liar\r\n", "aborted the SSH handshake: connection closed"),
        (b"SSH-1.5-old\r\n", "does not speak SSH version 2"),
    ],
)
def test_a_port_that_does_not_speak_ssh_is_told_apart(
    sshd: Sshd, says: bytes, complaint: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            connection = server.accept()[0]
            with connection:
                connection.sendall(says)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        error = refusal(sshd.remote(port=port))
        thread.join()
    assert error.message == f"remote 'host' {complaint}"


# --- keys ------------------------------------------------------------------------------------


def test_an_unknown_host_key_is_shown_with_the_way_to_pin_it(sshd: Sshd) -> None:
    fingerprint = fingerprint_by_ssh_keygen(sshd)
    error = refusal(sshd.remote(host_key=""))
    assert error.message == (
        f"the host key of remote 'host' is not known: it shows ssh-ed25519 {fingerprint}"
    )
    assert error.hint == (
        "compare the fingerprint with what the host or its provider says, then `invoke remote-add"
        f" host USER@HOST:PORT --fingerprint {fingerprint}`"
    )


def fingerprint_by_ssh_keygen(server: Sshd) -> str:
    from kernelrig.proc import run_process

    return run_process(["ssh-keygen", "-lf", server.folder / "host_key.pub"]).stdout.split()[1]


def test_a_changed_pinned_key_is_never_passed_over(sshd: Sshd, start_sshd: Start) -> None:
    other = start_sshd()
    error = refusal(sshd.remote(host_key=other.host_key))
    assert error.message == (
        "the host key of remote 'host' changed: it shows ssh-ed25519"
        f" {fingerprint_by_ssh_keygen(sshd)}, pinned is ssh-ed25519"
        f" {fingerprint_by_ssh_keygen(other)}"
    )
    assert error.hint.startswith(
        "this may be a man-in-the-middle attack; if the machine is a new one, `invoke"
    )


def test_a_pin_counts_even_if_known_hosts_would_accept_the_key(
    sshd: Sshd, start_sshd: Start, tmp_path: Path
) -> None:
    home = home_with(tmp_path / "ssh", known_hosts=sshd.known_hosts_line())
    error = refusal(sshd.remote(host_key=start_sshd().host_key), home)
    assert " changed: " in error.message


def test_known_hosts_decides_where_nothing_is_pinned(
    sshd: Sshd, start_sshd: Start, tmp_path: Path
) -> None:
    home = home_with(tmp_path / "ssh", known_hosts=sshd.known_hosts_line())
    with Session(sshd.remote(host_key=""), home=home) as session:
        assert run(session, "true").exit_status == 0
    other = start_sshd().host_key
    home = home_with(tmp_path / "ssh", known_hosts=f"[127.0.0.1]:{sshd.port} {other}\n")
    error = refusal(sshd.remote(host_key=""), home)
    assert f" changed: it shows ssh-ed25519 {fingerprint_by_ssh_keygen(sshd)}" in error.message
    assert ", in known_hosts is ssh-ed25519 SHA256:" in error.message


def test_the_pinned_type_of_key_is_asked_for(start_sshd: Start) -> None:
    server = start_sshd(key_kind="rsa")
    extra = server.folder / "ed25519"
    make_key(extra)
    port = free_port()
    both = start_sshd(
        port=port,
        key_kind="ecdsa",
        options=f"HostKey {extra}\nHostKey {server.folder}/host_key",
    )
    for pinned in (server.host_key, both.host_key):
        with Session(both.remote(host_key=pinned), home=SshHome.empty()) as session:
            assert run(session, "true").exit_status == 0


def test_a_refused_login_counts_the_keys_that_were_tried_and_shows_them(
    sshd: Sshd, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ssh"
    folder.mkdir()
    make_key(folder / "id_ed25519")
    make_key(folder / "id_ecdsa", "ecdsa", passphrase="secret")
    (folder / "id_rsa").write_text("garbage")
    error = refusal(sshd.remote(identity_file=""), home_with(folder))
    assert error.message == (
        "remote 'host' accepted none of our keys: 1 was refused,"
        " 1 has a passphrase: load it into ssh-agent, 1 is not a readable private key"
    )
    shown = [line.partition("] ")[2] for line in capfd.readouterr().err.splitlines()]
    assert shown == [
        f"key {folder}/id_ed25519: was refused",
        f"key {folder}/id_ecdsa: has a passphrase: load it into ssh-agent",
        f"key {folder}/id_rsa: is not a readable private key",
        f"remote 'host': {sshd.user}@127.0.0.1:{sshd.port}",
    ]
    assert error.hint.startswith("name the right key as identity_file of the remote")


@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_a_login_goes_on_behind_a_key_that_was_refused(
    start_sshd: Start, tmp_path: Path, kind: str
) -> None:
    server, folder = start_sshd(), tmp_path / "ssh"
    folder.mkdir()
    make_key(folder / "id_ed25519")
    (server.folder / "authorized_keys").write_text(make_key(folder / f"id_{kind}", kind) + "\n")
    with Session(server.remote(identity_file=""), home=home_with(folder)) as session:
        assert run(session, "echo", "in").stdout == b"in\n"


def test_having_no_key_at_all_is_said_so(sshd: Sshd) -> None:
    assert refusal(sshd.remote(identity_file="")).message.endswith(
        ": there is no identity_file, no agent, no ~/.ssh/id_*"
    )


def test_a_missing_identity_file_is_a_configuration_error(sshd: Sshd) -> None:
    with (
        Session(sshd.remote(identity_file="/nowhere/key"), home=SshHome.empty()) as session,
        pytest.raises(ConfigError) as caught,
    ):
        session.open(["true"])
    assert caught.value.message == "the identity_file of remote 'host' does not exist"


def test_the_agent_holds_a_key_that_no_file_gives(
    sshd: Sshd, tmp_path: Path, ssh_agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelrig.proc import run_process

    monkeypatch.setenv("SSH_AUTH_SOCK", str(ssh_agent))
    assert run_process(["ssh-add", sshd.identity]).exit_code == 0
    home = replace(home_with(tmp_path / "ssh"), use_agent=True)
    with Session(sshd.remote(identity_file=""), home=home) as session:
        assert run(session, "true").exit_status == 0


# --- ssh_config and jump hosts -------------------------------------------------------------------


def test_ssh_config_fills_in_what_the_record_leaves_open(sshd: Sshd, tmp_path: Path) -> None:
    config = (
        f"Host gpu\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {sshd.user}\n"
        f"  IdentityFile {sshd.identity}\n"
    )
    home = home_with(tmp_path / "ssh", config=config, known_hosts=sshd.known_hosts_line())
    with Session(Remote("host", "sm_90a", host="gpu"), home=home) as session:
        assert run(session, "true").exit_status == 0


def test_a_jump_host_carries_the_connection_and_its_key_is_checked(
    sshd: Sshd, start_sshd: Start, tmp_path: Path
) -> None:
    jump = start_sshd()
    remote = sshd.remote(jump=f"{jump.user}@127.0.0.1:{jump.port}")
    config = f"Host *\n  IdentityFile {jump.identity}\n"
    home = home_with(tmp_path / "ssh", config=config, known_hosts=jump.known_hosts_line())
    with Session(remote, home=home) as session:
        assert run(session, "echo", "far").stdout == b"far\n"
        assert len(jump.sessions()) >= 1
        client = run(session, "sh", "-c", "echo $SSH_CLIENT").stdout.split()[1]
        assert client != b""
    other_user = home_with(tmp_path / "ssh", config=config)
    error = refusal(remote, other_user)
    assert error.message.startswith("the host key of a jump host of remote 'host' is not known")
    assert error.hint == "log in to it once with `ssh`, so that known_hosts has its key"


def test_behind_a_jump_host_the_remotes_own_key_is_checked_too(
    sshd: Sshd, start_sshd: Start, tmp_path: Path
) -> None:
    jump = start_sshd()
    config = (
        f"Host inner\n  HostName 127.0.0.1\n  Port {sshd.port}\n"
        f"  ProxyJump {jump.user}@127.0.0.1:{jump.port}\n"
        f"Host *\n  IdentityFile {jump.identity}\n"
    )
    home = home_with(tmp_path / "ssh", config=config, known_hosts=jump.known_hosts_line())
    remote = sshd.remote(host="inner", port=0)
    with Session(remote, home=home) as session:
        assert run(session, "true").exit_status == 0
    error = refusal(replace(remote, host_key=jump.host_key), home)
    assert error.message.startswith("the host key of remote 'host' changed")


def test_a_jump_host_that_cannot_reach_the_remote_is_named(
    sshd: Sshd, start_sshd: Start, tmp_path: Path
) -> None:
    jump = start_sshd()
    port = free_port()
    home = home_with(
        tmp_path / "ssh",
        config=f"Host *\n  IdentityFile {jump.identity}\n",
        known_hosts=jump.known_hosts_line(),
    )
    remote = sshd.remote(port=port, jump=f"{jump.user}@127.0.0.1:{jump.port}")
    assert refusal(remote, home).message == (
        "the jump host before remote 'host' cannot reach it: no connection"
    )


def test_paramiko_prints_nothing_of_its_own(sshd: Sshd, capfd: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    refusal(sshd.remote(port=port))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        other = silent.getsockname()[1]
        refusal(sshd.remote(port=other, connect_timeout_s=0.3))
    shown = capfd.readouterr()
    assert shown.out == ""
    assert [line.partition("] ")[2] for line in shown.err.splitlines()] == [
        f"remote 'host': {sshd.user}@127.0.0.1:{asked}" for asked in (port, other)
    ]


def test_a_session_channel_is_what_the_protocol_expects(session: Session) -> None:
    channel: Channel = session.open(["true"])
    assert isinstance(channel, SshChannel)
    assert hear(channel) == Said(b"", "", 0)
    assert sys.version_info >= (3, 11)
