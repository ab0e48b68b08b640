from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelrig.errors import ConfigError, RemoteError
from kernelrig.model import Remote
from kernelrig.proc import run_process
from kernelrig.remote.ssh.host_key_pinning import resolve_remote
from kernelrig.remote.ssh.known_hosts import known_keys, parse_fingerprint, parse_host_key
from kernelrig.remote.ssh.route import Hop, SshHome, Target, parse_target, route

from tests.remote.sshd_fixture import Sshd, free_port, make_key

Start = Callable[..., Sshd]

# Made with `ssh-keygen -t KIND`; fingerprints as `ssh-keygen -lf` printed them.
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMWrs1DnNz7vWzr4PYLTMSvMnqZ6dTLQVkTLZ1wjlC1q"


def keygen_fingerprint(public: Path) -> str:
    return run_process(["ssh-keygen", "-lf", public]).stdout.split()[1]


# --- keys and fingerprints as data -----------------------------------------------------------


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_fingerprints_are_those_of_ssh_keygen(openssh: None, tmp_path: Path, kind: str) -> None:
    line = make_key(tmp_path / "key", kind)
    key = parse_host_key(f"{line} comment words")
    assert key.line == line
    assert key.fingerprint == keygen_fingerprint(tmp_path / "key.pub")


@pytest.mark.parametrize(
    "text",
    [
        "SHA256:0123456789012345678901234567890123456789+/A",
        "SHA256:0123456789012345678901234567890123456789+/A=",
        " 0123456789012345678901234567890123456789+/A ",
    ],
)
def test_a_fingerprint_may_lack_its_prefix_or_carry_its_padding(text: str) -> None:
    assert parse_fingerprint(text) == "SHA256:0123456789012345678901234567890123456789+/A"


@pytest.mark.parametrize(
    "text", ["", "SHA256:", "MD5:16:27:ac", "SHA256:short", "SHA1:" + "a" * 43]
)
def test_any_other_hash_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fingerprint(text)
    assert str(caught.value) == (
        f"'{text}' is not a SHA256 fingerprint;"
        " give it as `ssh-keygen -lf FILE` prints it: SHA256: and 43 characters"
    )


@pytest.mark.parametrize("line", ["", "ssh-ed25519", "ssh-ed25519 not-base64", "ssh-rsa AAAA"])
def test_garbage_is_no_host_key(line: str) -> None:
    with pytest.raises(ConfigError):
        parse_host_key(line)


def test_a_key_of_another_type_than_it_says_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_host_key("ssh-rsa " + ED25519.split()[1])
    assert caught.value.message.endswith(" does not hold a key of type ssh-rsa")


# --- known_hosts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "host", "port", "known"),
    [
        ("host", "host", 22, True),
        ("HOST", "host", 22, True),
        ("host", "host", 2222, False),
        ("[host]:2222", "host", 2222, True),
        ("[host]:2222", "host", 22, False),
        ("a,host,b", "host", 22, True),
        ("*.lab", "gpu.lab", 22, True),
        ("*.lab,!gpu.lab", "gpu.lab", 22, False),
        ("[*]:2222", "host", 2222, True),
        ("h?st", "host", 22, True),
        ("xhost", "host", 22, False),
        ("@cert-authority host", "host", 22, False),
        ("@revoked host", "host", 22, False),
        ("#host", "host", 22, False),
    ],
)
def test_known_hosts_lines_are_read_as_ssh_reads_them(
    tmp_path: Path, names: str, host: str, port: int, known: bool
) -> None:
    (tmp_path / "known_hosts").write_text(f"{names} {ED25519} a comment\n")
    keys = known_keys([tmp_path / "missing", tmp_path / "known_hosts"], host, port)
    assert [key.line for key in keys] == [ED25519] * known


def test_hashed_names_are_found(openssh: None, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"[host]:2222 {ED25519}\n")
    assert run_process(["ssh-keygen", "-q", "-H", "-f", file]).exit_code == 0
    assert file.read_text().startswith("|1|")
    assert [key.line for key in known_keys([file], "host", 2222)] == [ED25519]
    assert known_keys([file], "host", 22) == ()


def test_a_revoked_key_is_not_known_whatever_other_lines_say(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"host {ED25519}\n@revoked * {ED25519}\n")
    assert known_keys([file], "host", 22) == ()


def test_broken_lines_hide_no_good_ones(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(b"\xff\xfe\nbox\nbox ssh-dss AAAA\n\n|1|x|y ssh-rsa AAAA\n")
    with file.open("a") as f:
        f.write(f"host {ED25519}\n")
    assert [key.line for key in known_keys([file], "host", 22)] == [ED25519]


# --- addresses and ssh_config ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("root@10.0.0.1", Target("10.0.0.1", "root", 0)),
        ("root@host.example:2222", Target("host.example", "root", 2222)),
        ("host", Target("host", "", 0)),
        ("me@[fe80::1]:22", Target("fe80::1", "me", 22)),
    ],
)
def test_addresses_are_read(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text", ["", "@host", "a@b@c", "host:", "host:0", "host:65536", "-oX=y", "a b"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_target(text)
    assert caught.value.message == f"'{text}' is not an address"


def hops_of(tmp_path: Path, config: str, remote: Remote) -> tuple[Hop, ...]:
    (tmp_path / "config").write_text(config)
    home = SshHome(tmp_path, (tmp_path / "config",), (tmp_path / "known_hosts",), use_agent=True)
    return route(remote, home)


def test_the_record_wins_over_ssh_config(tmp_path: Path) -> None:
    config = "Host gpu\n HostName 10.0.0.9\n Port 2200\n User alice\n ConnectTimeout 3\n"
    (hop,) = hops_of(tmp_path, config, Remote("r", "sm_90a", host="gpu"))
    assert (hop.address, hop.user, hop.timeout_s) == ("10.0.0.9:2200", "alice", 3.0)
    remote = Remote("r", "sm_90a", host="gpu", user="bob", port=22, connect_timeout_s=7.0)
    (hop,) = hops_of(tmp_path, config, remote)
    assert (hop.address, hop.user, hop.timeout_s) == ("10.0.0.9:22", "bob", 7.0)


def test_known_hosts_files_identities_and_aliases_come_from_ssh_config(tmp_path: Path) -> None:
    config = (
        "Host gpu\n UserKnownHostsFile /a/hosts none /b/hosts\n HostKeyAlias pool\n"
        " IdentityFile /keys/one\n IdentityFile /keys/two\n IdentitiesOnly yes\n"
    )
    (hop,) = hops_of(tmp_path, config, Remote("r", "sm_90a", host="gpu"))
    assert hop.known_hosts == (Path("/a/hosts"), Path("/b/hosts"))
    assert hop.identities == (Path("/keys/one"), Path("/keys/two"))
    assert hop.known_as == "pool"
    assert hop.only_identities


def test_included_files_count_and_end_with_their_own_blocks(tmp_path: Path) -> None:
    (tmp_path / "config.d").mkdir()
    (tmp_path / "config.d" / "gpu").write_text("Host gpu\n HostName 10.0.0.9\n")
    config = "Include config.d/*\nUser everyone\n"
    for name, address in (("gpu", "10.0.0.9:22"), ("other", "other:22")):
        (hop,) = hops_of(tmp_path, config, Remote("r", "sm_90a", host=name))
        assert (hop.address, hop.user) == (address, "everyone")


def test_jump_hosts_are_passed_in_the_order_they_are_written(tmp_path: Path) -> None:
    config = "Host first\n ProxyJump zeroth\nHost second\n ProxyJump never\n"
    remote = Remote("r", "sm_90a", host="gpu", jump="a@first:2201,second")
    hops = hops_of(tmp_path, config, remote)
    assert [hop.address for hop in hops] == ["zeroth:22", "first:2201", "second:22", "gpu:22"]
    assert hops[1].user == "a"


def test_jump_hosts_in_a_circle_are_an_error(tmp_path: Path) -> None:
    config = "Host a\n ProxyJump b\nHost b\n ProxyJump a\n"
    with pytest.raises(ConfigError) as caught:
        hops_of(tmp_path, config, Remote("r", "sm_90a", host="a"))
    assert caught.value.message.endswith("form a cycle")


def test_a_proxy_command_is_refused_by_name_and_never_run(tmp_path: Path) -> None:
    config = f"Host gpu\n ProxyCommand touch {tmp_path}/ran\n"
    with pytest.raises(ConfigError) as caught:
        hops_of(tmp_path, config, Remote("r", "sm_90a", host="gpu"))
    assert caught.value.message == (
        "ssh_config gives remote 'r' a ProxyCommand, which kernelrig does not run"
    )
    assert not (tmp_path / "ran").exists()


# --- fetching and pinning ----------------------------------------------------------------------


def test_a_new_host_is_pinned_with_the_key_it_shows(
    sshd: Sshd, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"{sshd.user}@127.0.0.1:{sshd.port}"
    remote = resolve_remote("rental", target, arch="sm_100a", home=SshHome.empty())
    assert remote == Remote(
        "rental",
        "sm_100a",
        host="127.0.0.1",
        user=sshd.user,
        port=sshd.port,
        host_key=sshd.host_key,
    )
    fingerprint = keygen_fingerprint(sshd.folder / "host_key.pub")
    shown = capsys.readouterr().err
    assert f"host key of 127.0.0.1:{sshd.port}: ssh-ed25519 {fingerprint}\n" in shown
    assert "pinned on first use; compare it" in shown


def test_a_fingerprint_picks_the_key_whatever_its_type(start_sshd: Start, tmp_path: Path) -> None:
    lines = {kind: make_key(tmp_path / kind, kind) for kind in ("ecdsa", "rsa")}
    options = "".join(f"HostKey {tmp_path}/{kind}\n" for kind in lines)
    server = start_sshd(options=options)
    for kind, line in lines.items():
        remote = resolve_remote(
            "rental",
            f"{server.user}@127.0.0.1:{server.port}",
            keygen_fingerprint(tmp_path / f"{kind}.pub"),
            arch="sm_100a",
            home=SshHome.empty(),
        )
        assert remote.host_key == line


def test_another_fingerprint_pins_nothing(sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    other = keygen_fingerprint(tmp_path / "other.pub")
    shown = keygen_fingerprint(sshd.folder / "host_key.pub")
    with pytest.raises(RemoteError) as caught:
        resolve_remote(
            "rental",
            f"{sshd.user}@127.0.0.1:{sshd.port}",
            other,
            arch="sm_100a",
            home=SshHome.empty(),
        )
    assert caught.value.message == (
        f"127.0.0.1:{sshd.port} does not have the key {other}: it shows ssh-ed25519 {shown}"
    )


def test_the_key_is_fetched_without_logging_in(sshd: Sshd) -> None:
    target = f"nobody-of-this-name@127.0.0.1:{sshd.port}"
    remote = resolve_remote("rental", target, arch="sm_90a", home=SshHome.empty())
    assert remote.host_key == sshd.host_key
    assert "nobody-of-this-name" not in (sshd.folder / "sshd.log").read_text()


def test_the_key_behind_a_jump_host_is_fetched_through_it(
    sshd: Sshd, start_sshd: Start, tmp_path: Path
) -> None:
    jump = start_sshd()
    (tmp_path / "config").write_text(f"Host *\n  IdentityFile {jump.identity}\n")
    (tmp_path / "known_hosts").write_text(jump.known_hosts_line())
    home = SshHome(tmp_path, (tmp_path / "config",), (tmp_path / "known_hosts",), use_agent=False)
    way = f"{jump.user}@127.0.0.1:{jump.port}"
    remote = resolve_remote(
        "inner", f"me@127.0.0.1:{sshd.port}", arch="sm_90a", jump=way, home=home
    )
    assert (remote.host_key, remote.jump) == (sshd.host_key, way)


def test_a_host_that_is_not_there_or_silent_pins_nothing(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(RemoteError) as caught:
        resolve_remote("r", f"me@127.0.0.1:{port}", arch="sm_90a", home=SshHome.empty())
    assert caught.value.message == "remote 'r' refused the connection"
    (tmp_path / "config").write_text("Host *\n  ConnectTimeout 0.4\n")
    home = SshHome(None, (tmp_path / "config",), (), use_agent=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(RemoteError) as caught:
            resolve_remote("r", f"me@127.0.0.1:{port}", arch="sm_90a", home=home)
    assert caught.value.message == ("remote 'r' accepted the connection and sent nothing for 0.4 s")
